// The commit record of a checkpoint: which files, which bytes.
//
// docs/format.md is the specification; golden files of every version lie in
// tests/compat. Encoded as JSON Lines under zstd: a head line, a line for each
// node, a tail line with the counts and the SHA-256 of all lines before it.
// Equal manifests encode to equal bytes.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "base/digest.h"
#include "base/path.h"

namespace cairn {

inline constexpr int kManifestVersion = 1;
// 10^7 nodes or 10^8 digest blocks (800 TiB) in one checkpoint; more is
// refused.
inline constexpr uint64_t kManifestNodesMax = 10'000'000;
inline constexpr uint64_t kManifestBlocksMax = 100'000'000;
inline constexpr uint64_t kManifestExtentsMax = 10'000'000;

enum class ManifestNodeType { kFile, kDirectory, kSymlink, kHardLink };

struct ManifestExtent {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  bool operator==(const ManifestExtent&) const = default;
};

struct ManifestNode {
  std::string path;  // Raw bytes, relative to the base; "" is the base itself.
  ManifestNodeType type = ManifestNodeType::kFile;
  uint32_t mode = 0;  // 07777.
  uint32_t uid = 0;
  uint32_t gid = 0;
  int64_t mtime_ns = 0;
  std::string
      target;  // kSymlink: raw target. kHardLink: path of the first name.

  // kFile only.
  uint64_t size_bytes = 0;
  std::vector<BlockDigest> blocks;  // Empty: not read yet (or an empty file).
  // Data extents of a sparse file; nullopt: no holes.
  std::optional<std::vector<ManifestExtent>> extents;
  // Object key, relative to the core prefix; "" : the natural one, run/… .
  std::string key;

  bool operator==(const ManifestNode&) const = default;
};

struct ManifestHead {
  std::string run;           // Raw bytes; may be "".
  std::string name;          // Raw bytes.
  bool is_directory = true;  // Layout: directory, or files of the run.
  uint64_t sequence = 0;     // Microseconds; only grows within a run.
  std::string generation;    // 32 lower-case hex digits.
  std::string framework;
  std::optional<int64_t> step;
  std::optional<int64_t> epoch;
  int64_t created_ns = 0;  // Wall clock, since 1970.
  int64_t marker_mtime_ns = 0;
  std::string marker;  // Relative to the base; "" if there is none.
  std::string
      origin;  // "scan", "commit", "adopt", "save": who said it is complete.
  std::map<std::string, std::string> labels;  // UTF-8 text; kLabel* limits.
  std::vector<std::pair<std::string, std::string>> pointers;  // Path, content.

  bool operator==(const ManifestHead&) const = default;
};

struct Manifest {
  ManifestHead head;
  std::vector<ManifestNode> nodes;  // Sorted by path; parents before children.

  bool operator==(const Manifest&) const = default;

  uint64_t FileCount() const;   // kFile and kHardLink.
  uint64_t TotalBytes() const;  // Sizes of kFile.
  // Every non-empty kFile has digests with SHA-256.
  bool FullyDigested() const;
  // run/name as bytes ("name" where run is "").
  std::string CheckpointPath() const;
  // Directory, relative to the tier's root, that node paths are relative to.
  std::string BasePath() const;
};

inline constexpr size_t kLabelsMax = 64;
inline constexpr size_t kLabelBytesMax = 1024;
inline constexpr size_t kPointersMax = 256;
inline constexpr size_t kPointerBytesMax = size_t{64} << 10;  // Content of one.

// kInvalidArgument: what no reader would accept (unsorted or duplicate paths, a
// path with "..", an unknown hard link target, bad limits); nothing is written.
absl::StatusOr<std::string> EncodeManifest(const Manifest& manifest);

// Never believes a length before the bytes are there; decompresses in a bounded
// window. kDataLoss: damaged (digest, counts, JSON, cut), says at which line.
// kUnimplemented: written by a newer version.
absl::StatusOr<Manifest> DecodeManifest(ByteView encoded);

// Where manifests and marks lie below a tier's root: names are the checkpoint's
// own path components, as on the tier. The file's name is
// <sequence, 20 digits>-<generation>.jsonl.zst.
std::string ManifestDirectory(std::string_view checkpoint_path);
std::string ManifestFileName(uint64_t sequence, std::string_view generation);
std::string ManifestPath(const ManifestHead& head);
struct ManifestFileId {
  uint64_t sequence = 0;
  std::string generation;
};
absl::StatusOr<ManifestFileId> ParseManifestFileName(std::string_view name);

// A fresh random generation.
std::string NewGeneration();

}  // namespace cairn
