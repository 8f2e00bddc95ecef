// Takes a directory in as a checkpoint: copied into staging with digests from
// the first read, compared with them on the way, durable before it appears.

#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cairn/store.h"
#include "catalog/catalog.h"
#include "engine/context.h"

namespace cairn {

// `cairn save`. kAlreadyExists: something lies at `path`. kUnavailable: a file
// of `source` changed meanwhile. A failed save leaves nothing at `path`.
absl::StatusOr<CheckpointRecord> SaveDirectory(Context& context,
                                               std::string_view path,
                                               const std::string& source,
                                               const SaveOptions& options);

}  // namespace cairn
