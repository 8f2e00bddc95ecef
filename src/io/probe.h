// What this machine and this directory really give, found by trying.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "io/root.h"

namespace cairn {

struct IoFacts {
  std::string file_system;  // "ext4", "xfs", "tmpfs", "lustre", "nfs", "0x…".
  std::string mount_options;
  bool read_only = false;
  bool direct_io = false;
  uint32_t direct_alignment_bytes =
      0;                      // From statx (STATX_DIOALIGN); 0 unknown.
  std::string direct_reason;  // Why not, if not.
  bool io_uring = false;
  std::string io_uring_reason;
  bool write_lease = false;
  std::string write_lease_reason;
  bool rename_noreplace = false;
  bool holes = false;             // SEEK_HOLE tells holes.
  int64_t timestamp_step_ns = 0;  // Smallest step seen between two mtimes.
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t free_inodes = 0;
  uint64_t open_files_max = 0;  // RLIMIT_NOFILE.
  uint64_t memlock_max_bytes = 0;
};

// Writes and removes small files below `scratch` (a directory of ours, made if
// missing). A read-only file system gives facts, not an error.
absl::StatusOr<IoFacts> ProbeIo(const Root& root, std::string_view scratch);

}  // namespace cairn
