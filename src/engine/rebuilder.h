// The catalog, made again from manifests and marks on both tiers.
//
// Nothing on a tier is changed. The new catalog is built beside the old one and
// takes its place by rename, so a kill leaves the old or the new. Of the
// content of files nothing is known afterwards: what is where is told by sizes
// and mtimes, and whatever does not fit its manifest is read.

#pragma once

#include "absl/status/statusor.h"
#include "cairn/store.h"
#include "engine/context.h"

namespace cairn {

// REQUIRES: the store's lock, exclusively; `context` from OpenTiers(), its
// catalog closed. Leaves context.catalog open on the new one.
absl::StatusOr<RebuildReport> RebuildCatalog(Context& context);

}  // namespace cairn
