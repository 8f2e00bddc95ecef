// The newest good checkpoint of a run: which one, where, and what was passed
// over.

#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "cairn/store.h"
#include "engine/context.h"

namespace cairn {

// Looks at the newest committed checkpoint first (by sequence) and takes the
// first whose copy is good: on the accelerator tier if its fingerprint stands
// (what was touched is read again), else on the core tier. Errors as
// Store::Latest().
absl::StatusOr<LatestReport> FindLatest(Context& context, std::string_view run,
                                        const LatestOptions& options);

}  // namespace cairn
