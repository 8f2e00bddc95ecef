// `cairn latest`: the path of the newest good checkpoint of a run.

#include <string>

#include "apps/cairn/answer.h"
#include "apps/cairn/json.h"
#include "apps/cairn/verb.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "cairn/store.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr VerbHelp kHelp = {
    .name = "latest",
    .group = "Everyday verbs",
    .summary = "print the path of the newest good checkpoint of a run",
    .description =
        "Prints one line on standard output: the absolute path to hand to\n"
        "the framework, as it is, not escaped. The newest checkpoint is the\n"
        "one that was committed last, whatever its name or its times say.\n"
        "Damaged, lost and changed ones are passed over for the next older\n"
        "good one, and standard error says so.\n"
        "\n"
        "With --restore, a checkpoint that is only on the core tier is\n"
        "brought back first and verified, and the framework's own pointer\n"
        "files (\"latest\" and the like) are written, so that DeepSpeed,\n"
        "Megatron and TensorFlow resume unaided.",
    .examples =
        "cairn latest modelA\n"
        "torchrun train.py --resume \"$(cairn latest modelA --restore)\"\n"
        "cairn latest modelA --durability archived --json",
    .exit_codes =
        "1: the newest good one is on the core tier only: give --restore\n"
        "3: no good copy of any is left\n"
        "4: the run has no good checkpoint",
};

class LatestVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& arguments) override {
    arguments.Positional("RUN", &run_, true, "The run");
    arguments.Text("--durability", "LEVEL", &durability_,
                   "local (default), or archived: on the core tier too");
    arguments.Flag("--restore", &options_.restore,
                   "Bring it back, and write the framework's pointer files");
  }

  absl::StatusOr<ExitCode> Run(Session& session) override {
    if (durability_ == "archived") {
      options_.durability = Durability::kArchived;
    } else if (durability_ != "local") {
      return absl::InvalidArgumentError(
          fmt::format("--durability \"{}\": write local or archived",
                      EscapeForDisplay(durability_)));
    }
    CAIRN_RETURN_IF_ERROR(session.Open());
    const absl::StatusOr<LatestReport> found =
        session.store().Latest(session.Path(run_), options_);
    if (absl::IsNotFound(found.status())) {
      session.Problem(Message(found.status()));
      return ExitCode::kNothing;
    }
    CAIRN_RETURN_IF_ERROR(found.status());
    for (const auto& [path, reason] : found->passed_over) {
      session.Note(
          fmt::format("passed over {}: {}", EscapeForDisplay(path), reason));
    }
    for (const std::string& warning : found->warnings) session.Note(warning);
    if (found->restored) {
      session.Note(fmt::format("restored {} in {}",
                               Described(found->checkpoint),
                               cairn::FormatDuration(session.elapsed())));
    }
    session.Print(session.json() ? JsonOf(*found) : found->location + '\n');
    return ExitCode::kDone;
  }

 private:
  std::string run_;
  std::string durability_ = "local";
  LatestOptions options_;
};

}  // namespace

std::unique_ptr<Verb> MakeLatestVerb() {
  return std::make_unique<LatestVerb>();
}

}  // namespace cairn
