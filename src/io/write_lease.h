// Proof that nobody else has a file open, while it is held.
//
// fcntl(F_SETLEASE, F_WRLCK): granted only when no other descriptor (so no mmap
// either) of this host holds the file. Not known to other nodes of a shared
// file system, and refused by many of them: then kUnavailable "cannot tell".
// The same on overlayfs, FUSE and eCryptfs, which hide mappings from the lease.
// A broken lease sends no signal: ask StillHeld().

#pragma once

#include "absl/status/statusor.h"
#include "io/io_engine.h"
#include "io/root.h"

namespace cairn {

class WriteLease {
 public:
  // kFailedPrecondition: the file is open elsewhere. kUnavailable: this file
  // system, or this user, cannot take leases. Gives the open file along.
  static absl::StatusOr<WriteLease> Take(const Root& root,
                                         std::string_view path);
  WriteLease(WriteLease&&) = default;
  ~WriteLease();
  const BlockFile& file() const { return file_; }
  // False once somebody tried to open the file since Take().
  bool StillHeld() const;

 private:
  explicit WriteLease(BlockFile file) : file_(std::move(file)) {}
  BlockFile file_;
};

}  // namespace cairn
