// `cairn save`: copy a directory in as a checkpoint.

#include <string>
#include <vector>

#include "apps/cairn/answer.h"
#include "apps/cairn/json.h"
#include "apps/cairn/parse.h"
#include "apps/cairn/verb.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr VerbHelp kHelp = {
    .name = "save",
    .group = "Verbs on one checkpoint",
    .summary = "copy a directory onto the accelerator tier as a checkpoint",
    .description =
        "Copies the directory given by --from to PATH on the accelerator\n"
        "tier and commits it as one checkpoint: it appears whole or not at\n"
        "all, and every byte is checked from the copy on. PATH must not be\n"
        "taken. The directory itself is left alone.",
    .examples =
        "cairn save modelA/step-100 --from /tmp/step-100 --step 100\n"
        "cairn save modelA/step-100 --from out --step 100 --label data=v3",
    .exit_codes = "",
};

class SaveVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& arguments) override {
    arguments.Positional("PATH", &path_, true, "What it will be, RUN/NAME");
    arguments.Text("--from", "DIR", &source_,
                   "The directory to copy (required)");
    arguments.Number("--step", "N", &options_.step, "Its training step");
    arguments.Number("--epoch", "N", &options_.epoch, "Its epoch");
    arguments.Text("--framework", "NAME", &options_.framework,
                   "What wrote it (default: files)");
    arguments.Texts("--label", "KEY=VALUE", &labels_,
                    "A label to keep with it; may be given again");
  }

  absl::StatusOr<ExitCode> Run(Session& session) override {
    if (source_.empty()) {
      return absl::InvalidArgumentError("--from DIR is required");
    }
    CAIRN_ASSIGN_OR_RETURN(options_.labels, ParseLabels(labels_));
    CAIRN_RETURN_IF_ERROR(session.Open());
    CAIRN_ASSIGN_OR_RETURN(
        const CheckpointInfo checkpoint,
        session.store().Save(session.Path(path_), source_, options_));
    if (session.json()) {
      session.Print(JsonOf(checkpoint));
      return ExitCode::kDone;
    }
    session.Account(
        fmt::format("saved {} in {}, {}\n", Described(checkpoint),
                    cairn::FormatDuration(session.elapsed()),
                    FormatRate(checkpoint.bytes, session.elapsed())));
    return ExitCode::kDone;
  }

 private:
  std::string path_;
  std::string source_;
  std::vector<std::string> labels_;
  SaveOptions options_;
};

}  // namespace

std::unique_ptr<Verb> MakeSaveVerb() { return std::make_unique<SaveVerb>(); }

}  // namespace cairn
