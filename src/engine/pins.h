// Pins and holds: marks that keep a checkpoint on the accelerator tier.

#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "cairn/store.h"
#include "engine/context.h"

namespace cairn {

// Durable on both tiers when they return. For all generations of the
// checkpoint.
absl::Status PinCheckpoint(Context& context, std::string_view path,
                           const PinOptions& options);
absl::Status UnpinCheckpoint(Context& context, std::string_view path);

}  // namespace cairn
