// `cairn adopt`: commit on the user's word what no rule takes.

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
    .name = "adopt",
    .group = "Verbs on one checkpoint",
    .summary = "commit, on your word, what no rule takes for complete",
    .description =
        "Commits PATH as a checkpoint although no rule recognises it, or\n"
        "although the rule that does sees no completion marker. From then on\n"
        "it is kept, exported, verified and restored like any other. Files\n"
        "that are structurally damaged are still refused, unless --force\n"
        "says to keep them as they are.",
    .examples =
        "cairn adopt modelA/best --step 1000\n"
        "cairn adopt old-runs/final --label origin=cluster7\n"
        "cairn adopt modelA/checkpoint-900 --force   # damaged as it is",
    .exit_codes = "",
};

class AdoptVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& arguments) override {
    arguments.Positional("PATH", &path_, true,
                         "What to adopt, RUN/NAME: a directory or a file");
    arguments.Number("--step", "N", &options_.step, "Its training step");
    arguments.Number("--epoch", "N", &options_.epoch, "Its epoch");
    arguments.Texts("--label", "KEY=VALUE", &labels_,
                    "A label to keep with it; may be given again");
    arguments.Flag("--force", &options_.force,
                   "Also what is structurally damaged");
  }

  absl::StatusOr<ExitCode> Run(Session& session) override {
    options_.adopt = true;
    CAIRN_ASSIGN_OR_RETURN(options_.labels, ParseLabels(labels_));
    CAIRN_RETURN_IF_ERROR(session.Open());
    CAIRN_ASSIGN_OR_RETURN(
        const CheckpointInfo checkpoint,
        session.store().Commit(session.Path(path_), options_));
    if (session.json()) {
      session.Print(JsonOf(checkpoint));
    } else {
      session.Account(fmt::format("adopted {}\n", Described(checkpoint)));
    }
    return ExitCode::kDone;
  }

 private:
  std::string path_;
  std::vector<std::string> labels_;
  CommitOptions options_;
};

}  // namespace

std::unique_ptr<Verb> MakeAdoptVerb() { return std::make_unique<AdoptVerb>(); }

}  // namespace cairn
