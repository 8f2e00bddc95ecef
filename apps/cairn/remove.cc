// `cairn remove`: delete copies on the core tier.

#include <string>
#include <vector>

#include "apps/cairn/answer.h"
#include "apps/cairn/verb.h"
#include "base/status_macros.h"

namespace cairn {

namespace {

constexpr VerbHelp kHelp = {
    .name = "remove",
    .group = "Care and repair",
    .summary = "delete checkpoints from the core tier",
    .description =
        "Deletes the copies of the named checkpoints on the core tier,\n"
        "manifest first. Only what is named is ever deleted, and the only\n"
        "good copy of a checkpoint is kept unless --force says otherwise. To\n"
        "free accelerator space use `cairn release`, which never loses\n"
        "anything.",
    .examples =
        "cairn remove --tier core modelA/checkpoint-100 --dry-run\n"
        "cairn remove --tier core modelA/checkpoint-100\n"
        "cairn remove --tier core modelA/best \\\n"
        "    --generation 6f1e0c7a52b94d0e8c3d2f1a0b9e8d7c",
    .exit_codes =
        "1: a guard keeps what was named\n"
        "4: it is not on the core tier\n"
        "5: some were removed, some not",
};

class RemoveVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& arguments) override {
    arguments.Positionals("PATH", &paths_, "Checkpoints, runs or prefixes");
    arguments.Text("--tier", "TIER", &tier_,
                   "Where to delete: core (required)");
    arguments.Text("--generation", "ID", &options_.generation,
                   "Only this generation (default: all of them)");
    arguments.Flag("--force", &options_.force, "Also the only good copy");
    arguments.Flag("-n,--dry-run", &options_.dry_run,
                   "Only say what would be done");
  }

  absl::StatusOr<ExitCode> Run(Session& session) override {
    if (tier_ != "core") {
      return absl::InvalidArgumentError(
          tier_ == "accelerator"
              ? "use `cairn release` for the accelerator tier: it deletes only "
                "what is archived"
              : "--tier core is required, so that nothing is deleted by "
                "mistake");
    }
    if (paths_.empty()) {
      return absl::InvalidArgumentError("name what to remove");
    }
    CAIRN_RETURN_IF_ERROR(session.Open());
    CAIRN_ASSIGN_OR_RETURN(
        const BatchReport report,
        session.store().RemoveFromCore(session.Paths(paths_), options_));
    return AnswerBatch(session, report, Asked::kNamed,
                       {.done = "removed",
                        .would_do = "would remove",
                        .nothing = "not on the core tier"});
  }

 private:
  std::vector<std::string> paths_;
  std::string tier_;
  RemoveOptions options_;
};

}  // namespace

std::unique_ptr<Verb> MakeRemoveVerb() {
  return std::make_unique<RemoveVerb>();
}

}  // namespace cairn
