// `cairn sweep`: clear away what was left unfinished.

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
    .name = "sweep",
    .group = "Care and repair",
    .summary = "clear away what interrupted work left behind",
    .description =
        "Removes what belongs to no checkpoint: staging directories of saves\n"
        "and restores that were given up, unfinished uploads, and objects\n"
        "whose manifest was removed. What other running commands are working\n"
        "on is left alone. Objects under natural keys that no manifest names\n"
        "may be somebody else's: only --unreferenced takes them.",
    .examples =
        "cairn sweep --dry-run\n"
        "cairn sweep\n"
        "cairn sweep --unreferenced --dry-run",
    .exit_codes = "5: some could not be removed",
};

class SweepVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& arguments) override {
    arguments.Flag("--unreferenced", &options_.unreferenced,
                   "Also objects on the core tier that no manifest names");
    arguments.Flag("-n,--dry-run", &options_.dry_run,
                   "Only say what would be done");
  }

  absl::StatusOr<ExitCode> Run(Session& session) override {
    CAIRN_RETURN_IF_ERROR(session.Open());
    CAIRN_ASSIGN_OR_RETURN(const SweepReport report,
                           session.store().Sweep(options_));
    Table table({"WHAT", "NAME", ">SIZE", "RESULT", "WHY"});
    uint64_t removed = 0;
    uint64_t left = 0;
    uint64_t kept = 0;
    uint64_t bytes = 0;
    for (const SweepItem& item : report.items) {
      // Only named, as it may be somebody else's.
      const bool keeps = item.what == "unreferenced" && !options_.unreferenced;
      const bool counts = item.removed || (report.dry_run && !keeps);
      ++(counts ? removed : keeps ? kept : left);
      if (counts) bytes += item.bytes;
      const std::string result = item.removed ? "removed"
                                 : counts     ? "would remove"
                                              : "left";
      table.Add({item.what, EscapeForDisplay(item.name),
                 FormatBytes(item.bytes), result, item.reason});
    }
    if (session.json()) {
      session.Print(JsonOf(report));
    } else if (table.empty()) {
      session.Account("nothing to clear away\n");
    } else {
      session.Account(fmt::format(
          "{}{} {}, {}{}\n", table.Text(),
          report.dry_run ? "would remove" : "removed", Count(removed, "thing"),
          FormatBytesBoth(bytes),
          left + kept > 0 ? fmt::format("; {} left", left + kept) : ""));
    }
    return left > 0 ? ExitCode::kPartly : ExitCode::kDone;
  }

 private:
  SweepOptions options_;
};

}  // namespace

std::unique_ptr<Verb> MakeSweepVerb() { return std::make_unique<SweepVerb>(); }

}  // namespace cairn
