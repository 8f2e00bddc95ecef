// Removes what no manifest names and nobody is working on: staging of dead
// processes, unfinished uploads, objects of generations that never came to
// exist.
//
// Objects under natural keys that no manifest names may be somebody else's (a
// container is readable and writable without cairn), so they are only listed
// unless asked for. REQUIRES: the store's lock, exclusively.

#pragma once

#include "absl/status/statusor.h"
#include "cairn/store.h"
#include "engine/context.h"

namespace cairn {

absl::StatusOr<SweepReport> SweepStore(Context& context,
                                       const SweepOptions& options);

}  // namespace cairn
