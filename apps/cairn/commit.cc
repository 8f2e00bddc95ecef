// `cairn commit`: commit one checkpoint now, without a scan.

#include <string>
#include <vector>

#include "apps/cairn/answer.h"
#include "apps/cairn/json.h"
#include "apps/cairn/parse.h"
#include "apps/cairn/verb.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr VerbHelp kHelp = {
    .name = "commit",
    .group = "Verbs on one checkpoint",
    .summary = "commit one checkpoint now, without a scan",
    .description =
        "Commits the checkpoint at PATH if its framework's rule says that it\n"
        "is complete and its files check out. A training script can call\n"
        "this right after its save, with the labels that make up the\n"
        "checkpoint's lineage. What is not complete is refused, with the\n"
        "reason; `cairn adopt` takes it on your word.",
    .examples =
        "cairn commit modelA/checkpoint-1000\n"
        "cairn commit modelA/step-5 --label commit=$(git rev-parse HEAD)",
    .exit_codes = "1: not complete, or no checkpoint by any rule",
};

class CommitVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& arguments) override {
    arguments.Positional("PATH", &path_, true, "The checkpoint, RUN/NAME");
    arguments.Number("--step", "N", &options_.step,
                     "Its training step, where its name does not say");
    arguments.Number("--epoch", "N", &options_.epoch, "Its epoch");
    arguments.Texts("--label", "KEY=VALUE", &labels_,
                    "A label to keep with it; may be given again");
  }

  absl::StatusOr<ExitCode> Run(Session& session) override {
    CAIRN_ASSIGN_OR_RETURN(options_.labels, ParseLabels(labels_));
    CAIRN_RETURN_IF_ERROR(session.Open());
    CAIRN_ASSIGN_OR_RETURN(
        const CheckpointInfo checkpoint,
        session.store().Commit(session.Path(path_), options_));
    if (session.json()) {
      session.Print(JsonOf(checkpoint));
    } else {
      session.Account(fmt::format("committed {}\n", Described(checkpoint)));
    }
    return ExitCode::kDone;
  }

 private:
  std::string path_;
  std::vector<std::string> labels_;
  CommitOptions options_;
};

}  // namespace

std::unique_ptr<Verb> MakeCommitVerb() {
  return std::make_unique<CommitVerb>();
}

}  // namespace cairn
