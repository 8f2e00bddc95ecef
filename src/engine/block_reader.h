// A file, block by digest block; holes cost nothing.

#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/digest.h"
#include "engine/context.h"
#include "io/root.h"

namespace cairn {

// Thread-safe. The context must outlive it.
class BlockReader {
 public:
  // kFailedPrecondition: not a regular file.
  static absl::StatusOr<BlockReader> Open(Context& context,
                                          std::string_view path) {
    return OpenIn(context, *context.accelerator, path);
  }
  // The same below another directory.
  static absl::StatusOr<BlockReader> OpenIn(Context& context, const Root& root,
                                            std::string_view path);

  const NodeStat& stat() const { return stat_; }  // As it was when opened.
  uint64_t size_bytes() const { return stat_.size_bytes; }
  // What fstat says now.
  absl::StatusOr<NodeStat> StatNow() const { return Root::StatOpen(file_); }

  // True if the block lies in a hole: it reads as zeros without being read.
  bool IsHole(uint64_t block) const;

  // Reads block `block` into the front of `buffer` (from context.buffers) and
  // digests it with SHA-256. For a hole the buffer is zeroed.
  absl::StatusOr<BlockDigest> Read(uint64_t block,
                                   MutableByteView buffer) const;
  // The same where only the digest is wanted.
  absl::StatusOr<BlockDigest> Digest(uint64_t block,
                                     MutableByteView buffer) const;

 private:
  BlockReader(Context* context, BlockFile file, NodeStat stat)
      : context_(context), file_(std::move(file)), stat_(stat) {}

  Context* context_;
  BlockFile file_;
  NodeStat stat_;
  bool sparse_ = false;
  std::vector<DataExtent> extents_;  // Sorted; only if sparse_.
};

}  // namespace cairn
