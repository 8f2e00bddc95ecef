// Reads every byte of a checkpoint on a tier and compares it with its digests.

#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "cairn/store.h"
#include "catalog/catalog.h"
#include "engine/context.h"

namespace cairn {

// One outcome for each tier that `record` has a copy on and `options` asks for.
// What is found goes into the catalog: damage is remembered, and cleared when
// all is good.
absl::StatusOr<std::vector<VerifyOutcome>> VerifyCheckpoint(
    Context& context, const CheckpointRecord& record,
    const VerifyOptions& options);

}  // namespace cairn
