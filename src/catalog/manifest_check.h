// The rules of docs/format.md for a manifest's content, the same ones before it
// is written and after it was read.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "catalog/manifest.h"

namespace cairn {

inline constexpr size_t kPathBytesMax = 4096;
// What file systems count in, and what a catalog can hold.
inline constexpr uint64_t kInt64Max = std::numeric_limits<int64_t>::max();

// Why `path` is no relative path that could be created below a directory;
// nullopt if it is one. The empty path is one.
std::optional<std::string> PathFault(std::string_view path);

bool IsHexId(std::string_view text);  // 32 lower-case hex digits.

// Looks at a manifest as it grows, since each rule for a node speaks of the
// nodes before it only. All faults are kInvalidArgument. One thread at a time.
class ManifestChecker {
 public:
  // `manifest` must outlive it.
  explicit ManifestChecker(const Manifest& manifest) : manifest_(manifest) {}

  absl::Status CheckHead() const;
  // The next one in manifest.nodes, which is there by now.
  absl::Status CheckNextNode();

  uint64_t files() const { return files_; }
  uint64_t bytes() const { return bytes_; }

 private:
  absl::Status CheckPlace(const ManifestNode& node);
  absl::Status CheckAncestors(const ManifestNode& node);
  absl::Status CheckTarget(const ManifestNode& node) const;
  absl::Status CheckContent(const ManifestNode& node);
  const ManifestNode* FindBefore(std::string_view path) const;

  const Manifest& manifest_;
  size_t checked_ = 0;                 // Nodes looked at.
  std::optional<std::string> parent_;  // The last one found to be sound.
  uint64_t files_ = 0;
  uint64_t bytes_ = 0;
  uint64_t blocks_ = 0;
  uint64_t extents_ = 0;
};

}  // namespace cairn
