// What the exit code of a command says; the one place that decides it.
//
// Documented for users in docs/cli.md and at the end of each --help. All
// functions are pure.

#pragma once

#include "absl/status/status.h"
#include "cairn/types.h"

namespace cairn {

enum class ExitCode {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,    // The command line or the configuration makes no sense.
  kDamaged = 3,  // Data is damaged or lost.
  kNothing = 4,  // Nothing to do where something was asked for.
  kPartly = 5,   // Some of it done, some not.
};

// What the user asked a verb over several checkpoints to work on.
enum class Asked {
  kNamed,       // By name: then having nothing to do is worth a code.
  kEverything,  // --all: as often as one likes.
  // --all of what guards let go: what they keep is kept as it should be.
  kEverythingAllowed,
};

ExitCode ExitCodeOf(const absl::Status& status);
ExitCode ExitCodeOf(const BatchReport& report, Asked asked);
ExitCode ExitCodeOf(const VerifyReport& report, Asked asked);
ExitCode ExitCodeOf(const ScanReport& report);
ExitCode ExitCodeOf(const StatusReport& report);
ExitCode ExitCodeOf(const RebuildReport& report);
ExitCode ExitCodeOf(const DoctorReport& report);

}  // namespace cairn
