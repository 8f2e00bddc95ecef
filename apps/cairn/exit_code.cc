#include "apps/cairn/exit_code.h"

#include <cstddef>

namespace cairn {

namespace {

// Counts what became of the parts of a whole.
struct Tally {
  size_t done = 0;
  size_t nothing = 0;
  size_t failed = 0;
  bool damaged = false;

  ExitCode Code(Asked asked) const {
    if (damaged) return ExitCode::kDamaged;
    if (failed > 0) {
      return done + nothing > 0 ? ExitCode::kPartly : ExitCode::kFailed;
    }
    const bool named = asked == Asked::kNamed;
    return done == 0 && named ? ExitCode::kNothing : ExitCode::kDone;
  }
};

}  // namespace

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kDone;
    case absl::StatusCode::kInvalidArgument:
      return ExitCode::kUsage;
    case absl::StatusCode::kDataLoss:
      return ExitCode::kDamaged;
    default:
      return ExitCode::kFailed;
  }
}

ExitCode ExitCodeOf(const BatchReport& report, Asked asked) {
  Tally tally;
  for (const Outcome& outcome : report.outcomes) {
    switch (outcome.kind) {
      case Outcome::Kind::kDone:
        ++tally.done;
        break;
      case Outcome::Kind::kNothingToDo:
        ++tally.nothing;
        break;
      case Outcome::Kind::kRefused:
        ++(asked == Asked::kEverythingAllowed ? tally.nothing : tally.failed);
        break;
      case Outcome::Kind::kFailed:
        ++tally.failed;
        break;
      case Outcome::Kind::kDamaged:
        tally.damaged = true;
        break;
    }
  }
  return tally.Code(asked);
}

ExitCode ExitCodeOf(const VerifyReport& report, Asked asked) {
  Tally tally;
  for (const VerifyOutcome& outcome : report.outcomes) {
    if (outcome.good) {
      ++tally.done;
    } else if (outcome.damages.empty()) {
      ++tally.failed;  // It could not be looked at.
    } else {
      tally.damaged = true;
    }
  }
  return tally.Code(asked);
}

ExitCode ExitCodeOf(const ScanReport& report) {
  Tally tally;
  for (const Outcome& change : report.changes) {
    tally.damaged |= change.kind == Outcome::Kind::kDamaged;
    tally.failed += change.kind == Outcome::Kind::kFailed;
  }
  tally.done = 1;  // The scan itself.
  return tally.Code(Asked::kEverything);
}

ExitCode ExitCodeOf(const StatusReport& report) {
  return report.damaged + report.lost > 0 ? ExitCode::kDamaged
                                          : ExitCode::kDone;
}

ExitCode ExitCodeOf(const RebuildReport& report) {
  return report.warnings.empty() ? ExitCode::kDone : ExitCode::kDamaged;
}

ExitCode ExitCodeOf(const DoctorReport& report) {
  for (const DoctorItem& item : report.items) {
    if (item.level == DoctorItem::Level::kBad) return ExitCode::kFailed;
  }
  return ExitCode::kDone;
}

}  // namespace cairn
