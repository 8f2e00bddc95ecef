// `cairn ls`: the list of checkpoints.

#include <string>
#include <vector>

#include "apps/cairn/answer.h"
#include "apps/cairn/json.h"
#include "apps/cairn/verb.h"
#include "base/status_macros.h"
#include "cairn/store.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr VerbHelp kHelp = {
    .name = "ls",
    .group = "Everyday verbs",
    .summary = "list checkpoints, where their copies are and their state",
    .description =
        "Lists the checkpoints of all runs, or of one, by run and newest\n"
        "first. STATE is local (on the accelerator tier only), exporting,\n"
        "archived (on the core tier as well), released (on the core tier\n"
        "only) or restoring. FLAGS are lost (no good copy is known),\n"
        "damaged, dirty (changed since it was committed), pinned, held\n"
        "(pinned for a time) and superseded (a later generation of the same\n"
        "checkpoint exists).",
    .examples =
        "cairn ls\n"
        "cairn ls modelA\n"
        "cairn ls --all-generations\n"
        "cairn ls --json | jq '.checkpoints[] | select(.archived|not)'",
    .exit_codes = "4: the run that was named has no checkpoints",
};

class LsVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& arguments) override {
    arguments.Positional("RUN", &run_, false, "Only this run");
    arguments.Flag("-a,--all-generations", &options_.all_generations,
                   "Also generations that a later one replaced");
  }

  absl::StatusOr<ExitCode> Run(Session& session) override {
    CAIRN_RETURN_IF_ERROR(session.Open());
    const bool named = !run_.empty();
    if (named) options_.run = session.Path(run_);
    CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointInfo> checkpoints,
                           session.store().List(options_));
    if (session.json()) {
      session.Print(JsonOf(checkpoints));
    } else if (!checkpoints.empty()) {
      session.Print(CheckpointTable(checkpoints));
    }
    if (!checkpoints.empty()) return ExitCode::kDone;
    if (!named) {
      session.Note("there are no checkpoints; `cairn scan` looks for some");
      return ExitCode::kDone;
    }
    session.Problem(fmt::format("the run {} has no checkpoints",
                                EscapeForDisplay(*options_.run)));
    return ExitCode::kNothing;
  }

 private:
  std::string run_;
  ListOptions options_;
};

}  // namespace

std::unique_ptr<Verb> MakeLsVerb() { return std::make_unique<LsVerb>(); }

}  // namespace cairn
