// .cairn/tier.json: which tier this is. A tier without it, or with another id
// than the catalog knows, is refused before anything is concluded from what it
// holds.

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/bytes.h"

namespace cairn {

inline constexpr int kTierFormatVersion = 1;
inline constexpr char kTierFile[] = ".cairn/tier.json";

struct TierId {
  std::string id;    // 32 hex digits.
  std::string kind;  // "accelerator" or "core".
  int format_version = kTierFormatVersion;
  std::string created;  // RFC 3339.

  bool operator==(const TierId&) const = default;
};

std::string EncodeTierId(const TierId& tier);
// kDataLoss: not ours or damaged. kUnimplemented: a newer format.
absl::StatusOr<TierId> DecodeTierId(ByteView text);

}  // namespace cairn
