// `cairn export`: copy checkpoints to the core tier.

#include <string>
#include <vector>

#include "apps/cairn/answer.h"
#include "apps/cairn/parse.h"
#include "apps/cairn/verb.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace cairn {

namespace {

constexpr VerbHelp kHelp = {
    .name = "export",
    .group = "Everyday verbs",
    .summary = "copy checkpoints to the core tier",
    .description =
        "Copies committed checkpoints from the accelerator tier to the core\n"
        "tier, newest first, and verifies each before its manifest makes it\n"
        "archived there. PATH names a checkpoint, a run or a prefix of runs.\n"
        "--all takes every run that [export] prefixes in cairn.toml lets in.\n"
        "\n"
        "Interrupt it whenever you like: the same command goes on where it\n"
        "stopped, and copies nothing again that was safely copied. Nothing\n"
        "is removed from the accelerator tier; `cairn release` does that.",
    .examples =
        "cairn export --all\n"
        "cairn export modelA/checkpoint-1000\n"
        "cairn export modelA --max-rate 2GB/s\n"
        "cairn export --all --dry-run",
    .exit_codes =
        "4: all that was named is archived already\n"
        "5: some could not be exported",
};

class ExportVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& arguments) override {
    arguments.Positionals("PATH", &paths_, "Checkpoints, runs or prefixes");
    arguments.Flag("--all", &options_.all, "Everything not archived yet");
    arguments.Text("--max-rate", "RATE", &rate_,
                   "At most this much in all, as in 2GB/s");
    arguments.Flag("-n,--dry-run", &options_.dry_run,
                   "Only say what would be done");
  }

  absl::StatusOr<ExitCode> Run(Session& session) override {
    CAIRN_ASSIGN_OR_RETURN(const Asked asked, AskedFor(paths_, options_.all));
    if (!rate_.empty()) {
      const absl::StatusOr<uint64_t> rate = ParseBytesPerSecond(rate_);
      if (!rate.ok()) return Annotate(rate.status(), "--max-rate");
      if (*rate == 0) {
        return absl::InvalidArgumentError("--max-rate: must be more than zero");
      }
      options_.bytes_per_second_max = *rate;
    }
    CAIRN_RETURN_IF_ERROR(session.Open());
    CAIRN_ASSIGN_OR_RETURN(
        const BatchReport report,
        session.store().Export(session.Paths(paths_), options_));
    return AnswerBatch(session, report, asked,
                       {.done = "exported",
                        .would_do = "would export",
                        .nothing = "archived already",
                        .is_transfer = true});
  }

 private:
  std::vector<std::string> paths_;
  std::string rate_;
  ExportOptions options_;
};

}  // namespace

std::unique_ptr<Verb> MakeExportVerb() {
  return std::make_unique<ExportVerb>();
}

}  // namespace cairn
