// `cairn release`: free accelerator space of archived checkpoints.

#include <string>
#include <vector>

#include "apps/cairn/answer.h"
#include "apps/cairn/parse.h"
#include "apps/cairn/verb.h"
#include "base/status_macros.h"

namespace cairn {

namespace {

constexpr VerbHelp kHelp = {
    .name = "release",
    .group = "Everyday verbs",
    .summary = "free the accelerator space of archived checkpoints",
    .description =
        "Deletes the accelerator copy of checkpoints that are proven to be\n"
        "archived: the content is what was archived, the core copy is\n"
        "verified, nothing has the files open, the checkpoint is not pinned,\n"
        "and it is not the newest restorable one of its run. What a guard\n"
        "keeps is listed with the reason. A released checkpoint comes back\n"
        "with `cairn restore`.",
    .examples =
        "cairn release --all --dry-run\n"
        "cairn release --all\n"
        "cairn release modelA/checkpoint-1000",
    .exit_codes =
        "1: a guard keeps what was named\n"
        "4: it is not on the accelerator tier\n"
        "5: some were released, some not",
};

class ReleaseVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& arguments) override {
    arguments.Positionals("PATH", &paths_, "Checkpoints, runs or prefixes");
    arguments.Flag("--all", &options_.all, "Everything that the guards let go");
    arguments.Flag("-n,--dry-run", &options_.dry_run,
                   "Only say what would be done");
  }

  absl::StatusOr<ExitCode> Run(Session& session) override {
    CAIRN_ASSIGN_OR_RETURN(Asked asked, AskedFor(paths_, options_.all));
    if (asked == Asked::kEverything) asked = Asked::kEverythingAllowed;
    CAIRN_RETURN_IF_ERROR(session.Open());
    CAIRN_ASSIGN_OR_RETURN(
        const BatchReport report,
        session.store().Release(session.Paths(paths_), options_));
    return AnswerBatch(session, report, asked,
                       {.done = "released",
                        .would_do = "would release",
                        .nothing = "not on the accelerator tier"});
  }

 private:
  std::vector<std::string> paths_;
  ReleaseOptions options_;
};

}  // namespace

std::unique_ptr<Verb> MakeReleaseVerb() {
  return std::make_unique<ReleaseVerb>();
}

}  // namespace cairn
