// What `ls`, `show` and `status` say: reading only.

#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cairn/store.h"
#include "engine/context.h"

namespace cairn {

absl::StatusOr<std::vector<CheckpointInfo>> ListCheckpoints(
    Context& context, const ListOptions& options);
absl::StatusOr<ShowReport> ShowCheckpoint(Context& context,
                                          std::string_view path);
absl::StatusOr<StatusReport> StoreStatus(Context& context);

}  // namespace cairn
