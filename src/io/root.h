// A directory and nothing outside it.
//
// Every path given here is relative, raw bytes, and resolved by the kernel with
// openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS) (where
// that is refused: component by component with O_NOFOLLOW). So no "..",
// absolute path or symlink in a name that came from storage leads outside, and
// a symlink is only ever looked at, never followed. "" is the root itself.
//
// Thread-safe.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "base/posix.h"
#include "io/io_engine.h"

namespace cairn {

enum class NodeType { kFile, kDirectory, kSymlink, kOther };

// What statx says of a name, without following it.
struct NodeStat {
  NodeType type = NodeType::kOther;
  uint32_t mode = 0;  // Permission bits, set-id and sticky: 07777.
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint64_t size_bytes = 0;
  uint64_t allocated_bytes = 0;  // st_blocks * 512.
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  uint64_t inode = 0;
  uint64_t device = 0;
  uint32_t links = 0;
};

struct DirectoryEntry {
  std::string name;
  NodeStat stat;
};

// A run of bytes that is not a hole.
struct DataExtent {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  bool operator==(const DataExtent&) const = default;
};

// kInvalidArgument: `path` is absolute, has an empty, "." or ".." component, or
// a NUL byte. Names what is wrong.
absl::Status CheckRelativePath(std::string_view path);

class Root {
 public:
  // kNotFound, kFailedPrecondition (not a directory), ...
  static absl::StatusOr<Root> Open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string FullPath(std::string_view path) const;  // For messages and users.

  // --- Looking -------------------------------------------------------------
  absl::StatusOr<NodeStat> Stat(std::string_view path) const;
  absl::StatusOr<bool> Exists(std::string_view path) const;
  // Entries sorted by name as bytes, each with its stat. An entry that vanishes
  // between the listing and the stat is left out.
  absl::StatusOr<std::vector<DirectoryEntry>> List(std::string_view path) const;
  // Every node below `directory` (not itself), parents before children,
  // siblings sorted; `path` is relative to `directory`. Stops at the first
  // status that is not OK. Vanished nodes are left out. Depth is limited to
  // kDepthMax (kFailedPrecondition).
  using Visitor =
      absl::FunctionRef<absl::Status(std::string_view path, const NodeStat&)>;
  absl::Status Walk(std::string_view directory, Visitor visit) const;
  absl::StatusOr<std::string> ReadLink(std::string_view path) const;
  // Whole content; kResourceExhausted beyond `size_max`.
  absl::StatusOr<std::string> ReadSmallFile(std::string_view path,
                                            uint64_t size_max) const;
  // fstat of an open file.
  static absl::StatusOr<NodeStat> StatOpen(const BlockFile& file);
  // The data extents of an open file (SEEK_DATA/SEEK_HOLE), one covering extent
  // where the file system cannot tell. Leaves the offset undefined. The last
  // may hold holes, see kExtentsMax.
  static absl::StatusOr<std::vector<DataExtent>> DataExtents(
      const BlockFile& file, uint64_t size_bytes);

  // --- Opening -------------------------------------------------------------
  // A regular file for reading; kFailedPrecondition if it is something else (a
  // FIFO or device is never opened); kUnavailable if somebody holds a lease on
  // it, who has then been asked to give it back. O_NOATIME where allowed.
  // `direct` asks for O_DIRECT, and falls back to buffered where it is refused.
  absl::StatusOr<BlockFile> OpenForRead(std::string_view path,
                                        bool direct = true) const;
  // A new file (O_EXCL) of mode 0600, its parent made if missing.
  absl::StatusOr<BlockFile> CreateForWrite(std::string_view path,
                                           bool direct = true) const;
  // An existing file of ours, for going on with it.
  absl::StatusOr<BlockFile> OpenForUpdate(std::string_view path,
                                          bool direct = true) const;

  // --- Changing ------------------------------------------------------------
  absl::Status MakeDirectories(
      std::string_view path) const;  // mode 0777 & ~umask
  absl::Status MakeSymlink(std::string_view target,
                           std::string_view path) const;
  absl::Status MakeHardLink(std::string_view from, std::string_view to) const;
  // Mode, owner and mtime of a node itself (never of a symlink's target). A
  // refused owner (not root) is reported in *owner_refused, not as an error,
  // and then set-id bits are left off.
  struct Attributes {
    uint32_t mode = 0;
    uint32_t uid = 0;
    uint32_t gid = 0;
    int64_t mtime_ns = 0;
  };
  absl::Status SetAttributes(std::string_view path, NodeType type,
                             const Attributes& attributes,
                             bool* owner_refused) const;
  // rename(2). With `replace` false an existing target is kAlreadyExists
  // (renameat2 RENAME_NOREPLACE, link+unlink where that is missing).
  absl::Status Rename(std::string_view from, std::string_view to,
                      bool replace) const;
  absl::Status RemoveFile(std::string_view path) const;  // OK if absent.
  absl::Status RemoveTree(std::string_view path) const;  // OK if absent.
  absl::Status RemoveEmptyDirectory(
      std::string_view path) const;  // OK if absent;
                                     // kAlreadyExists: not empty.
  // Removes now-empty parents of `path`, up to but without the root.
  void RemoveEmptyParents(std::string_view path) const;

  // --- Durability ----------------------------------------------------------
  absl::Status SyncDirectory(std::string_view path) const;  // fsync.
  absl::Status SyncFileSystem() const;                      // syncfs.
  // A small file, durably and atomically: temporary name, write, fsync, rename,
  // fsync of the directory (made if missing, and then its parents are synced
  // too). With `replace` false an existing file is kAlreadyExists, and exactly
  // one of several callers wins. The temporary lies in the same directory,
  // begins with ".tmp-", and is removed on failure. Mode 0666 & ~umask.
  absl::Status WriteFileDurably(std::string_view path, ByteView content,
                                bool replace) const;

  struct Space {
    uint64_t total_bytes = 0;
    uint64_t free_bytes = 0;   // For this user.
    uint64_t free_inodes = 0;  // The largest value where there is no limit.
  };
  absl::StatusOr<Space> FreeSpace() const;

 private:
  // The directory that a path's last component is looked up in.
  struct Parent {
    UniqueFd owned;  // Empty where the root itself is meant.
    int fd = -1;
    std::string name;
  };

  Root(std::string path, UniqueFd fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}
  // The descriptor of the directory `path`, or a negated errno.
  int TryOpenDirectory(std::string_view path, int flags) const;
  int OpenComponents(std::string_view path, int flags) const;
  absl::StatusOr<UniqueFd> OpenDirectory(std::string_view path, int flags,
                                         std::string_view action) const;
  absl::StatusOr<Parent> OpenParent(std::string_view path,
                                    std::string_view action) const;
  absl::StatusOr<BlockFile> OpenRegular(std::string_view path, int flags,
                                        bool direct) const;
  absl::Status MakeDirectoriesSyncing(std::string_view path, bool sync) const;
  absl::Status Error(int error, std::string_view action,
                     std::string_view path) const;

  std::string path_;
  UniqueFd fd_;
  bool openat2_ = true;  // Found out by Open().
};

inline constexpr int kDepthMax = 128;
// DataExtents gives no more than this; what is behind them is one last extent.
inline constexpr size_t kExtentsMax = size_t{1} << 20;

}  // namespace cairn
