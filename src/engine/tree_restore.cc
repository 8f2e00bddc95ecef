// From objects to files in staging (restorer.h, TreeRestore).

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/digest.h"
#include "base/escape.h"
#include "base/kill_point.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "engine/checkpoint_files.h"
#include "engine/restorer.h"
#include "engine/workers.h"

namespace cairn {

namespace {
constexpr uint64_t kDirectBytesMin = uint64_t{256} << 10;
}  // namespace

// A file being made: by one task if it is small, else by one task for each
// block. Thread-safe.
class TreeRestore::OneFile {
 public:
  OneFile(TreeRestore* owner, const ManifestNode* node)
      : owner_(*owner),
        node_(*node),
        remaining_(std::max<uint64_t>(1, DigestBlockCount(node->size_bytes))) {}

  // Opens what an earlier attempt left, or makes a new file.
  absl::Status Open() {
    const Root& root = *owner_.context_.accelerator;
    const std::string path = owner_.staging_.TreePath(node_.path);
    if (owner_.staging_.resumed()) {
      absl::StatusOr<BlockFile> left = root.OpenForUpdate(path);
      if (left.ok()) {
        file_ = *std::move(left);
        CAIRN_ASSIGN_OR_RETURN(const NodeStat stat, Root::StatOpen(file_));
        // A hard link made by the earlier attempt shares what is there; fine.
        left_bytes_ = stat.size_bytes;
        return absl::OkStatus();
      }
      // Not to be opened for writing (its attributes were set): made anew.
      CAIRN_RETURN_IF_ERROR(root.RemoveFile(path));
    }
    // A small file costs less through the page cache, which the syncfs at the
    // end writes out together.
    const bool direct = node_.size_bytes >= kDirectBytesMin;
    CAIRN_ASSIGN_OR_RETURN(file_, root.CreateForWrite(path, direct));
    return absl::OkStatus();
  }

  absl::Status MakeBlock(uint64_t index) {
    if (node_.size_bytes > 0) {
      const Buffer buffer = owner_.context_.buffers->Get();
      CAIRN_RETURN_IF_ERROR(FillBlock(index, buffer.bytes()));
      CAIRN_KILL_POINT("restore.after_block");
    }
    if (remaining_.fetch_sub(1) > 1) return absl::OkStatus();
    // Data and size; many small files are made durable together, at the end.
    const bool sync = node_.size_bytes >= kDigestBlockBytes;
    CAIRN_RETURN_IF_ERROR(
        owner_.context_.io->Finish(file_, node_.size_bytes, sync));
    owner_.context_.observer->OnProgress(0, 1);
    return absl::OkStatus();
  }

 private:
  absl::Status FillBlock(uint64_t index, MutableByteView buffer) {
    const uint64_t size = DigestBlockSize(node_.size_bytes, index);
    const uint64_t offset = index * kDigestBlockBytes;
    const BlockDigest& expected = node_.blocks[index];
    if (offset + size <= left_bytes_) {
      absl::Status read = owner_.context_.io->Read(file_, offset, size, buffer);
      if (read.ok() &&
          DigestsMatch(DigestBlock(buffer.first(size), true), expected)) {
        owner_.bytes_skipped_ += size;
        owner_.context_.observer->OnProgress(size, 0);
        return absl::OkStatus();
      }
    }
    CAIRN_RETURN_IF_ERROR(
        owner_.source_.Read(node_, offset, buffer.first(size)));
    const BlockDigest found = DigestBlock(buffer.first(size), true);
    if (!DigestsMatch(found, expected)) {
      return absl::DataLossError(fmt::format(
          "{} is damaged: the block of {} bytes at offset {} has CRC-64 {}, "
          "expected {}",
          owner_.source_.Describe(node_), size, offset, ToHex(found.crc64_nvme),
          ToHex(expected.crc64_nvme)));
    }
    owner_.bytes_fetched_ += size;
    owner_.context_.observer->OnProgress(size, 0);
    // Over what an earlier attempt left, holes are written too: it may be
    // anything.
    if (offset < left_bytes_) {
      return owner_.context_.io->Write(file_, offset, size, buffer);
    }
    return WriteData(offset, size, buffer);
  }

  // Only what the original had: its holes stay holes.
  absl::Status WriteData(uint64_t offset, uint64_t size,
                         MutableByteView buffer) {
    IoEngine& io = *owner_.context_.io;
    if (!node_.extents.has_value())
      return io.Write(file_, offset, size, buffer);
    const uint64_t end = offset + size;
    for (const ManifestExtent& extent : *node_.extents) {
      const uint64_t from = std::max(offset, extent.offset);
      const uint64_t to = std::min(end, extent.offset + extent.size_bytes);
      if (from >= to) continue;
      // Direct writes want whole pages; what they add around the extent are
      // zeros of the same block.
      const uint64_t page = from / kDirectAlignment * kDirectAlignment;
      const uint64_t last = std::min(end, RoundUpToDirect(to));
      CAIRN_RETURN_IF_ERROR(
          io.Write(file_, page, last - page, buffer.subspan(page - offset)));
    }
    return absl::OkStatus();
  }

  TreeRestore& owner_;
  const ManifestNode& node_;
  BlockFile file_;
  uint64_t left_bytes_ = 0;
  std::atomic<uint64_t> remaining_;
};

absl::Status TreeRestore::Run() {
  CAIRN_RETURN_IF_ERROR(MakeNodes());
  CAIRN_RETURN_IF_ERROR(FillFiles());
  CAIRN_RETURN_IF_ERROR(SetAttributes());
  CAIRN_KILL_POINT("restore.before_sync");
  return context_.accelerator->SyncFileSystem();
}

absl::Status TreeRestore::MakeNodes() {
  const Root& root = *context_.accelerator;
  CAIRN_RETURN_IF_ERROR(root.MakeDirectories(staging_.TreePath("")));
  for (const ManifestNode& node : manifest_.nodes) {
    const std::string path = staging_.TreePath(node.path);
    switch (node.type) {
      case ManifestNodeType::kDirectory:
        CAIRN_RETURN_IF_ERROR(root.MakeDirectories(path));
        break;
      case ManifestNodeType::kSymlink: {
        absl::Status made = root.MakeSymlink(node.target, path);
        if (absl::IsAlreadyExists(made)) {
          CAIRN_RETURN_IF_ERROR(root.RemoveFile(path));
          made = root.MakeSymlink(node.target, path);
        }
        CAIRN_RETURN_IF_ERROR(made);
        break;
      }
      case ManifestNodeType::kFile:
        if (node.size_bytes > 0 &&
            node.blocks.size() != DigestBlockCount(node.size_bytes)) {
          return absl::FailedPreconditionError(fmt::format(
              "{} has no digests in its manifest; it was never archived",
              EscapeName(node.path)));
        }
        break;
      case ManifestNodeType::kHardLink:
        break;
    }
  }
  return absl::OkStatus();
}

absl::Status TreeRestore::FillFiles() {
  Workers workers(context_.threads);
  for (const ManifestNode& node : manifest_.nodes) {
    if (node.type != ManifestNodeType::kFile) continue;
    if (workers.failed()) break;
    // Shared by the file's tasks; the last of them closes it.
    auto file = std::make_shared<OneFile>(this, &node);
    if (node.size_bytes <= kDigestBlockBytes) {
      workers.Submit([file]() -> absl::Status {
        CAIRN_RETURN_IF_ERROR(file->Open());
        return file->MakeBlock(0);
      });
      continue;
    }
    CAIRN_RETURN_IF_ERROR(file->Open());
    for (uint64_t i = 0; i < DigestBlockCount(node.size_bytes); ++i) {
      workers.Submit([file, i] { return file->MakeBlock(i); });
    }
  }
  return workers.Wait();
}

absl::Status TreeRestore::SetAttributes() {
  const Root& root = *context_.accelerator;
  for (const ManifestNode& node : manifest_.nodes) {
    if (node.type != ManifestNodeType::kHardLink) continue;
    const std::string path = staging_.TreePath(node.path);
    CAIRN_RETURN_IF_ERROR(root.RemoveFile(path));
    CAIRN_RETURN_IF_ERROR(
        root.MakeHardLink(staging_.TreePath(node.target), path));
  }
  // Children before parents: filling a directory moves its mtime, and a
  // read-only one could not be filled.
  for (auto node = manifest_.nodes.rbegin(); node != manifest_.nodes.rend();
       ++node) {
    if (node->type == ManifestNodeType::kHardLink) continue;
    NodeType type = NodeType::kFile;
    if (node->type == ManifestNodeType::kDirectory) type = NodeType::kDirectory;
    if (node->type == ManifestNodeType::kSymlink) type = NodeType::kSymlink;
    bool refused = false;
    CAIRN_RETURN_IF_ERROR(root.SetAttributes(staging_.TreePath(node->path),
                                             type,
                                             {.mode = node->mode,
                                              .uid = node->uid,
                                              .gid = node->gid,
                                              .mtime_ns = node->mtime_ns},
                                             &refused));
    owner_refused_ |= refused;
  }
  return absl::OkStatus();
}

}  // namespace cairn
