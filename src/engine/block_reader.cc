#include "engine/block_reader.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"

namespace cairn {

absl::StatusOr<BlockReader> BlockReader::OpenIn(Context& context,
                                                const Root& root,
                                                std::string_view path) {
  CAIRN_ASSIGN_OR_RETURN(BlockFile file, root.OpenForRead(path));
  CAIRN_ASSIGN_OR_RETURN(const NodeStat stat, Root::StatOpen(file));
  BlockReader reader(&context, std::move(file), stat);
  if (stat.allocated_bytes < stat.size_bytes) {
    reader.sparse_ = true;
    CAIRN_ASSIGN_OR_RETURN(reader.extents_,
                           Root::DataExtents(reader.file_, stat.size_bytes));
  }
  return reader;
}

bool BlockReader::IsHole(uint64_t block) const {
  if (!sparse_) return false;
  const uint64_t begin = block * kDigestBlockBytes;
  const uint64_t end = begin + DigestBlockSize(stat_.size_bytes, block);
  // The first extent that ends behind the block's begin.
  const auto extent = std::partition_point(
      extents_.begin(), extents_.end(), [&](const DataExtent& candidate) {
        return candidate.offset + candidate.size_bytes <= begin;
      });
  return extent == extents_.end() || extent->offset >= end;
}

absl::StatusOr<BlockDigest> BlockReader::Read(uint64_t block,
                                              MutableByteView buffer) const {
  const uint64_t size = DigestBlockSize(stat_.size_bytes, block);
  if (IsHole(block)) {
    std::memset(buffer.data(), 0, size);
    return DigestOfZeros(size);
  }
  CAIRN_RETURN_IF_ERROR(
      context_->io->Read(file_, block * kDigestBlockBytes, size, buffer));
  return DigestBlock(buffer.first(size), /*with_sha256=*/true);
}

absl::StatusOr<BlockDigest> BlockReader::Digest(uint64_t block,
                                                MutableByteView buffer) const {
  if (IsHole(block)) {
    return DigestOfZeros(DigestBlockSize(stat_.size_bytes, block));
  }
  return Read(block, buffer);
}

}  // namespace cairn
