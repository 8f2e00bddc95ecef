// `cairn restore`: bring one checkpoint back.

#include <string>

#include "apps/cairn/answer.h"
#include "apps/cairn/json.h"
#include "apps/cairn/verb.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr VerbHelp kHelp = {
    .name = "restore",
    .group = "Everyday verbs",
    .summary = "bring a checkpoint back to the accelerator tier",
    .description =
        "Brings a checkpoint back to where it was on the accelerator tier,\n"
        "with names, content, modes, owners and times, from the closest good\n"
        "copy. Every byte is compared with the recorded digests before the\n"
        "checkpoint appears, and it appears whole or not at all. What is\n"
        "there and unchanged is left alone; what is there and changed is not\n"
        "overwritten unless --force says so. After an interruption the same\n"
        "command goes on where it stopped.\n"
        "\n"
        "Prints the path of what it restored.",
    .examples =
        "cairn restore modelA/step-1000\n"
        "cairn restore modelA/step-1000 --set-latest   # resume from this\n"
        "cairn restore modelA/best \\\n"
        "    --generation 6f1e0c7a52b94d0e8c3d2f1a0b9e8d7c",
    .exit_codes = "3: no good copy is left",
};

class RestoreVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& arguments) override {
    arguments.Positional("PATH", &path_, true, "The checkpoint, RUN/NAME");
    arguments.Text("--generation", "ID", &options_.generation,
                   "This generation of it (default: the newest good one)");
    arguments.Flag(
        "--set-latest", &options_.set_latest,
        "Write the framework's pointer files, so that it resumes here");
    arguments.Flag("--force", &options_.force,
                   "Also over files that have changed");
    arguments.Flag("-n,--dry-run", &options_.dry_run,
                   "Only say what would be done");
  }

  absl::StatusOr<ExitCode> Run(Session& session) override {
    CAIRN_RETURN_IF_ERROR(session.Open());
    CAIRN_ASSIGN_OR_RETURN(
        const RestoreReport report,
        session.store().Restore(session.Path(path_), options_));
    for (const std::string& warning : report.warnings) session.Note(warning);
    if (session.json()) {
      session.Print(JsonOf(report));
      return ExitCode::kDone;
    }
    session.Note(Account(report, session.elapsed()));
    session.Print(report.location + '\n');
    return ExitCode::kDone;
  }

 private:
  std::string Account(const RestoreReport& report,
                      absl::Duration elapsed) const {
    const std::string what = Described(report.checkpoint);
    if (report.already_there) {
      return fmt::format("{} is there already, unchanged", what);
    }
    if (options_.dry_run) {
      return fmt::format("would restore {}; nothing was changed", what);
    }
    std::string text = fmt::format("restored {} in {}, {}", what,
                                   cairn::FormatDuration(elapsed),
                                   FormatRate(report.bytes, elapsed));
    if (report.bytes_skipped > 0) {
      text += fmt::format("; {} were there from an interrupted restore",
                          FormatBytes(report.bytes_skipped));
    }
    return text;
  }

  std::string path_;
  RestoreOptions options_;
};

}  // namespace

std::unique_ptr<Verb> MakeRestoreVerb() {
  return std::make_unique<RestoreVerb>();
}

}  // namespace cairn
