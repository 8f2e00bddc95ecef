#include "engine/root_tree_view.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/posix.h"
#include "base/status_macros.h"
#include "catalog/manifest.h"

namespace cairn {
namespace {

FileType ToFileType(NodeType type) {
  switch (type) {
    case NodeType::kFile:
      return FileType::kFile;
    case NodeType::kDirectory:
      return FileType::kDirectory;
    case NodeType::kSymlink:
      return FileType::kSymlink;
    case NodeType::kOther:
      return FileType::kOther;
  }
  return FileType::kOther;
}

// Headers and tails are a few hundred bytes each, so they are read through the
// page cache, at any offset and into any memory.
class FileByteSource final : public ByteSource {
 public:
  FileByteSource(BlockFile file, uint64_t size_bytes)
      : file_(std::move(file)), size_bytes_(size_bytes) {}

  uint64_t SizeBytes() const override { return size_bytes_; }

  absl::Status ReadAt(uint64_t offset, MutableByteView out) override {
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t got =
          pread(file_.fd.get(), out.data() + done, out.size() - done,
                static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return PosixError(errno, "read", file_.path);
      if (got == 0) {
        return absl::OutOfRangeError("the file ends before what was asked for");
      }
      done += static_cast<size_t>(got);
    }
    return absl::OkStatus();
  }

 private:
  const BlockFile file_;
  const uint64_t size_bytes_;
};

}  // namespace

absl::StatusOr<std::vector<TreeEntry>> RootTreeView::List(
    std::string_view directory) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries,
                         context_->accelerator->List(directory));
  std::vector<TreeEntry> result;
  result.reserve(entries.size());
  for (const DirectoryEntry& entry : entries) {
    const bool reserved = directory.empty() && entry.name == ".cairn";
    if (reserved || hidden_.contains(JoinPath(directory, entry.name))) continue;
    result.push_back({.name = entry.name,
                      .type = ToFileType(entry.stat.type),
                      .size_bytes = entry.stat.size_bytes,
                      .mtime_ns = entry.stat.mtime_ns});
  }
  return result;
}

absl::StatusOr<std::unique_ptr<ByteSource>> RootTreeView::Open(
    std::string_view file) {
  CAIRN_ASSIGN_OR_RETURN(BlockFile opened, context_->accelerator->OpenForRead(
                                               file, /*direct=*/false));
  CAIRN_ASSIGN_OR_RETURN(const NodeStat stat, Root::StatOpen(opened));
  return std::make_unique<FileByteSource>(std::move(opened), stat.size_bytes);
}

}  // namespace cairn
