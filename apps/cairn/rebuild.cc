// `cairn rebuild`: make the catalog again from the tiers.

#include <string>

#include "apps/cairn/json.h"
#include "apps/cairn/text.h"
#include "apps/cairn/verb.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "cairn/store.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr VerbHelp kHelp = {
    .name = "rebuild",
    .group = "Care and repair",
    .summary = "make the catalog again from what lies on the tiers",
    .description =
        "The tiers hold the truth, and the catalog in the state directory is\n"
        "an index of it. This makes the index again from the manifests and\n"
        "marks on both tiers: checkpoints, pins, holds and releases\n"
        "included. Use it after the state directory was lost or damaged. The\n"
        "tiers themselves are not changed.",
    .examples =
        "cairn rebuild\n"
        "rm -rf cairn-state && cairn rebuild && cairn ls",
    .exit_codes =
        "3: some manifests are damaged and named; all others are taken",
};

class RebuildVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& /*arguments*/) override {}

  absl::StatusOr<ExitCode> Run(Session& session) override {
    CAIRN_RETURN_IF_ERROR(session.LoadConfiguration());
    CAIRN_ASSIGN_OR_RETURN(
        const RebuildReport report,
        Store::Rebuild(session.options(), session.observer()));
    for (const std::string& warning : report.warnings) session.Problem(warning);
    if (session.json()) {
      session.Print(JsonOf(report));
    } else {
      session.Account(fmt::format(
          "{} from {} on the accelerator tier, {} on the core tier and {}, in "
          "{}\n",
          Count(report.checkpoints, "checkpoint"),
          Count(report.manifests_accelerator, "manifest"),
          Count(report.manifests_core, "manifest"), Count(report.marks, "mark"),
          cairn::FormatDuration(session.elapsed())));
    }
    return ExitCodeOf(report);
  }
};

}  // namespace

std::unique_ptr<Verb> MakeRebuildVerb() {
  return std::make_unique<RebuildVerb>();
}

}  // namespace cairn
