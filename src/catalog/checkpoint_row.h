// CheckpointRecord as a row of the table `checkpoints`.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "catalog/catalog.h"
#include "soci/soci.h"

namespace cairn {

// Text goes into the database in the escaped form of names, whatever it is: so
// it is always well-formed, and comes back byte for byte.
std::string ToColumn(std::string_view text);
absl::StatusOr<std::string> FromColumn(std::string_view column);  // kDataLoss.

struct OptionalColumn {
  long long value = 0;
  soci::indicator indicator = soci::i_null;
};
OptionalColumn ToColumn(const std::optional<int64_t>& number);
std::optional<int64_t> FromColumn(const OptionalColumn& column);

// Inserts or replaces. kInvalidArgument: a number beyond 2^63-1.
absl::Status WriteCheckpoints(soci::session& session,
                              const std::vector<CheckpointRecord>& records);

// Those for which `condition` ("run = :run") holds with `arguments` put into
// its placeholders in order; all if it is empty. In no order.
absl::StatusOr<std::vector<CheckpointRecord>> ReadCheckpoints(
    soci::session& session, std::string_view condition,
    std::vector<std::string> arguments);

}  // namespace cairn
