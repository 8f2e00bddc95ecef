#include "apps/cairn/answer.h"

#include <utility>

#include "apps/cairn/json.h"
#include "apps/cairn/text.h"
#include "base/units.h"
#include "cairn/store.h"
#include "fmt/format.h"

namespace cairn {

namespace {

bool IsTrouble(const Outcome& outcome, Asked asked) {
  switch (outcome.kind) {
    case Outcome::Kind::kDone:
    case Outcome::Kind::kNothingToDo:
      return false;
    case Outcome::Kind::kRefused:
      return asked != Asked::kEverythingAllowed;
    case Outcome::Kind::kFailed:
    case Outcome::Kind::kDamaged:
      return true;
  }
  return true;
}

// Sums for the last line.
struct Totals {
  uint64_t done = 0;
  uint64_t nothing = 0;
  uint64_t kept = 0;
  uint64_t trouble = 0;
  uint64_t bytes = 0;
  uint64_t bytes_skipped = 0;
};

std::string TotalsLine(const Totals& totals, const BatchReport& report,
                       const BatchWords& words, absl::Duration elapsed) {
  std::string line = "nothing to do";
  if (totals.done + totals.trouble > 0) {
    line = fmt::format("{} {}", report.dry_run ? words.would_do : words.done,
                       Count(totals.done, "checkpoint"));
  }
  if (totals.done > 0) {
    line += fmt::format(", {}", FormatBytesBoth(totals.bytes));
  }
  if (totals.done > 0 && !report.dry_run && words.is_transfer) {
    line += fmt::format(" in {}, {}", cairn::FormatDuration(elapsed),
                        FormatRate(totals.bytes, elapsed));
  }
  if (totals.bytes_skipped > 0) {
    line += fmt::format("; {} were safely there already",
                        FormatBytes(totals.bytes_skipped));
  }
  if (totals.nothing > 0) {
    line += fmt::format("; {} {}", totals.nothing, words.nothing);
  }
  if (totals.kept > 0) line += fmt::format("; {} kept", totals.kept);
  if (totals.trouble > 0) {
    line += fmt::format("; {} not, see above", totals.trouble);
  }
  if (report.dry_run) line += "; nothing was changed";
  return line + '\n';
}

}  // namespace

std::string Copies(const CheckpointInfo& checkpoint) {
  if (checkpoint.present && checkpoint.archived) return "accelerator,core";
  if (checkpoint.present) return "accelerator";
  return checkpoint.archived ? "core" : "none";
}

std::string Flags(const CheckpointInfo& checkpoint) {
  std::vector<std::string_view> words;
  if (checkpoint.lost) words.push_back("lost");
  if (checkpoint.damaged) words.push_back("damaged");
  if (checkpoint.dirty) words.push_back("dirty");
  if (checkpoint.hold_until_ns) {
    words.push_back("held");
  } else if (checkpoint.pinned) {
    words.push_back("pinned");
  }
  if (!checkpoint.newest_generation) words.push_back("superseded");
  return fmt::format("{}", fmt::join(words, ","));
}

std::string CheckpointTable(const std::vector<CheckpointInfo>& checkpoints) {
  Table table({"PATH", ">STEP", "STATE", "COPIES", ">SIZE", ">FILES", "CREATED",
               "FLAGS"});
  for (const CheckpointInfo& checkpoint : checkpoints) {
    table.Add({EscapeForDisplay(checkpoint.path),
               checkpoint.step ? fmt::format("{}", *checkpoint.step) : "-",
               StateName(checkpoint.state), Copies(checkpoint),
               FormatBytes(checkpoint.bytes),
               fmt::format("{}", checkpoint.files),
               LocalTime(checkpoint.created_ns), Flags(checkpoint)});
  }
  return table.Text();
}

std::string Described(const CheckpointInfo& checkpoint) {
  std::string text = fmt::format("{} (", EscapeForDisplay(checkpoint.path));
  if (checkpoint.step) text += fmt::format("step {}, ", *checkpoint.step);
  return text + fmt::format("{}, {}, {})", FormatBytesBoth(checkpoint.bytes),
                            Count(checkpoint.files, "file"),
                            EscapeForDisplay(checkpoint.framework));
}

ExitCode AnswerBatch(Session& session, const BatchReport& report, Asked asked,
                     const BatchWords& words) {
  const ExitCode code = ExitCodeOf(report, asked);
  Totals totals;
  Table table({"PATH", "RESULT", ">SIZE", "REMARK"});
  for (const Outcome& outcome : report.outcomes) {
    const std::string path = EscapeForDisplay(outcome.path);
    if (IsTrouble(outcome, asked)) {
      ++totals.trouble;
      session.Problem(fmt::format("{}: {}: {}", path, OutcomeName(outcome.kind),
                                  outcome.message));
      continue;
    }
    const bool done = outcome.kind == Outcome::Kind::kDone;
    ++(done                                          ? totals.done
       : outcome.kind == Outcome::Kind::kNothingToDo ? totals.nothing
                                                     : totals.kept);
    totals.bytes += done ? outcome.bytes : 0;
    totals.bytes_skipped += done ? outcome.bytes_skipped : 0;
    // With --all, what needed nothing is only counted.
    if (outcome.kind == Outcome::Kind::kNothingToDo && asked != Asked::kNamed) {
      continue;
    }
    const std::string_view result =
        done ? (report.dry_run ? words.would_do : words.done)
        : outcome.kind == Outcome::Kind::kNothingToDo ? words.nothing
                                                      : "kept";
    table.Add({path, std::string(result),
               done ? FormatBytes(outcome.bytes) : "-", outcome.message});
  }
  if (session.json()) {
    session.Print(JsonOf(report));
    return code;
  }
  if (!table.empty()) session.Account(table.Text());
  if (code == ExitCode::kNothing && report.outcomes.empty()) {
    session.Problem("there is no checkpoint of that name");
    return code;
  }
  session.Account(TotalsLine(totals, report, words, session.elapsed()));
  return code;
}

}  // namespace cairn
