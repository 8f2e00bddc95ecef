// `cairn scan`: what is on the accelerator tier, and what of it is a
// checkpoint.

#include <string>

#include "apps/cairn/answer.h"
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
    .name = "scan",
    .group = "Everyday verbs",
    .summary = "look at the accelerator tier and commit what is complete",
    .description =
        "Walks the accelerator tier, recognises the checkpoints of all known\n"
        "frameworks (and of your own rules in cairn.toml), and commits each\n"
        "that is complete: its framework's completion marker is there, no\n"
        "save is in progress, and the files check out structurally. Whatever\n"
        "is not taken is listed with the reason. Known checkpoints are\n"
        "looked at too: changed, rewritten or deleted ones are reported.\n"
        "\n"
        "Scan as often as you like: what has not changed costs a look at its\n"
        "directory entries. Nothing is ever changed in the files themselves.",
    .examples =
        "cairn scan\n"
        "cairn scan --verbose          # also what belongs to no checkpoint\n"
        "cairn scan --json | jq '.candidates[] | {path, reason}'",
    .exit_codes = "3: a known checkpoint was found damaged",
};

class ScanVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& arguments) override {
    arguments.Flag("-v,--verbose", &verbose_,
                   "Also list what was ignored, and why");
  }

  absl::StatusOr<ExitCode> Run(Session& session) override {
    CAIRN_RETURN_IF_ERROR(session.Open());
    CAIRN_ASSIGN_OR_RETURN(const ScanReport report, session.store().Scan());
    const ExitCode code = ExitCodeOf(report);
    PrintChanges(session, report);
    if (session.json()) {
      session.Print(JsonOf(report));
      return code;
    }
    if (!report.committed.empty()) {
      session.Account(
          fmt::format("Committed:\n{}\n", CheckpointTable(report.committed)));
    }
    PrintCandidates(session, report);
    if (verbose_) PrintIgnored(session, report);
    session.Account(fmt::format(
        "{} on the accelerator tier, {} new; {}, {}, looked at in {}\n",
        Count(report.checkpoints, "checkpoint"), report.committed.size(),
        Count(report.files, "file"), FormatBytesBoth(report.bytes),
        cairn::FormatDuration(session.elapsed())));
    return code;
  }

 private:
  static void PrintChanges(Session& session, const ScanReport& report) {
    Table table({"PATH", "RESULT", "WHAT CHANGED"});
    for (const Outcome& change : report.changes) {
      const std::string path = EscapeForDisplay(change.path);
      if (change.kind == Outcome::Kind::kDamaged ||
          change.kind == Outcome::Kind::kFailed) {
        session.Problem(fmt::format("{}: {}: {}", path,
                                    OutcomeName(change.kind), change.message));
      } else {
        table.Add({path, OutcomeName(change.kind), change.message});
      }
    }
    if (!table.empty()) {
      session.Account(fmt::format("Changed:\n{}\n", table.Text()));
    }
  }

  static void PrintCandidates(Session& session, const ScanReport& report) {
    if (report.candidates.empty()) return;
    Table table({"PATH", "FRAMEWORK", "VERDICT", "WHY"});
    for (const CandidateInfo& candidate : report.candidates) {
      table.Add({EscapeForDisplay(candidate.path),
                 candidate.framework.empty()
                     ? "-"
                     : EscapeForDisplay(candidate.framework),
                 candidate.verdict, candidate.reason});
    }
    session.Account(fmt::format("Not taken:\n{}\n", table.Text()));
  }

  static void PrintIgnored(Session& session, const ScanReport& report) {
    if (report.ignored.empty()) return;
    Table table({"PATH", "WHY"});
    for (const auto& [path, why] : report.ignored) {
      table.Add({EscapeForDisplay(path), why});
    }
    session.Account(fmt::format("Ignored:\n{}\n", table.Text()));
  }

  bool verbose_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeScanVerb() { return std::make_unique<ScanVerb>(); }

}  // namespace cairn
