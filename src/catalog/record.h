// The small JSON records beside manifests (marks, tier ids): one object on one
// line, with its kind, its version and the CRC-64 of itself, as docs/format.md
// has them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "nlohmann/json.hpp"

namespace cairn {

inline constexpr size_t kRecordBytesMax = size_t{64} << 10;

// Adds "cairn", "version" and "crc64" to `fields`. Ends with a line feed.
std::string EncodeRecord(std::string_view kind, int version,
                         nlohmann::json fields);

// A decoded record. One thread at a time.
class Record {
 public:
  // kDataLoss: damaged, or of another kind. kUnimplemented: a newer version.
  static absl::StatusOr<Record> Decode(std::string_view kind, int version,
                                       ByteView text);

  // All kDataLoss if the field is missing or something else.
  absl::StatusOr<std::string> Text(const char* key) const;
  absl::StatusOr<std::string> Name(const char* key) const;  // Unescaped.
  absl::StatusOr<int64_t> Integer(const char* key) const;
  absl::StatusOr<std::optional<int64_t>> OptionalInteger(const char* key) const;
  absl::Status Fault(const char* key, std::string_view what) const;

 private:
  Record(std::string_view kind, nlohmann::json fields)
      : kind_(kind), fields_(std::move(fields)) {}

  std::string kind_;
  nlohmann::json fields_;
};

}  // namespace cairn
