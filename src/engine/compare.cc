// Content against its digests, on either tier (checkpoint_files.h).

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "engine/block_reader.h"
#include "engine/checkpoint_files.h"
#include "engine/workers.h"

namespace cairn {
namespace {

// Blocks of one file that a worker takes at once: 64 MiB of reading.
constexpr uint64_t kBlocksPerTask = 8;

// The first bad spot of each file, whatever order the workers find them in.
// Thread-safe.
class MismatchList {
 public:
  void Add(Mismatch mismatch) {
    absl::MutexLock lock(&mutex_);
    const auto [at, is_new] = by_file_.try_emplace(mismatch.file, mismatch);
    if (!is_new && mismatch.offset < at->second.offset) {
      at->second = std::move(mismatch);
    }
  }

  std::vector<Mismatch> Take() {
    absl::MutexLock lock(&mutex_);
    std::vector<Mismatch> result;
    for (auto& [file, mismatch] : by_file_) {
      result.push_back(std::move(mismatch));
    }
    return result;
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, Mismatch> by_file_ ABSL_GUARDED_BY(mutex_);
};

Mismatch Missing(const std::string& file) {
  return {
      .file = file, .offset = 0, .kind = "missing", .message = "is missing"};
}

Mismatch WrongSize(const std::string& file, uint64_t expected, uint64_t found) {
  return {.file = file,
          .offset = std::min(expected, found),
          .kind = found < expected ? "truncated" : "corrupt",
          .message = fmt::format("has {} bytes, expected {}", found, expected)};
}

Mismatch WrongBlock(const std::string& file, uint64_t block, uint64_t size,
                    const BlockDigest& expected, const BlockDigest& found) {
  const bool zeros = DigestsMatch(found, DigestOfZeros(size));
  return {
      .file = file,
      .offset = block * kDigestBlockBytes,
      .kind = zeros ? "zero-filled" : "corrupt",
      .message = fmt::format(
          "differs in the block of {} bytes at offset {}: CRC-64 {}, expected "
          "{}{}",
          size, block * kDigestBlockBytes, ToHex(found.crc64_nvme),
          ToHex(expected.crc64_nvme), zeros ? " (all zeros)" : "")};
}

// Errors that say "this content cannot be had" are findings; others stop us.
bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsOutOfRange(status) ||
         absl::IsNotFound(status);
}

// Reads block `index` of one file or object, by whatever means.
using ReadBlock =
    std::function<absl::StatusOr<BlockDigest>(uint64_t index, MutableByteView)>;

// Submits the comparison of every block of `node`.
void SubmitBlocks(Context& context, Workers& workers, const ManifestNode& node,
                  const std::shared_ptr<ReadBlock>& read,
                  MismatchList* mismatches) {
  const uint64_t count = node.blocks.size();
  for (uint64_t first = 0; first < count; first += kBlocksPerTask) {
    const uint64_t last = std::min(count, first + kBlocksPerTask);
    workers.Submit(
        [&context, &node, read, mismatches, first, last]() -> absl::Status {
          const Buffer buffer = context.buffers->Get();
          for (uint64_t i = first; i < last; ++i) {
            const uint64_t size = DigestBlockSize(node.size_bytes, i);
            absl::StatusOr<BlockDigest> found = (*read)(i, buffer.bytes());
            if (!found.ok()) {
              if (!IsDamage(found.status())) return found.status();
              mismatches->Add({.file = node.path,
                               .offset = i * kDigestBlockBytes,
                               .kind = "corrupt",
                               .message = Message(found.status())});
              return absl::OkStatus();
            }
            if (!DigestsMatch(*found, node.blocks[i])) {
              mismatches->Add(
                  WrongBlock(node.path, i, size, node.blocks[i], *found));
              return absl::OkStatus();
            }
            context.observer->OnProgress(size, 0);
          }
          return absl::OkStatus();
        });
  }
}

}  // namespace

absl::StatusOr<std::vector<BlockDigest>> DigestFile(
    Context& context, std::string_view path, uint64_t size_bytes,
    const std::function<void(uint64_t)>& on_bytes) {
  CAIRN_ASSIGN_OR_RETURN(const BlockReader reader,
                         BlockReader::Open(context, path));
  if (reader.size_bytes() != size_bytes) {
    return absl::OutOfRangeError(fmt::format("{} has {} bytes, expected {}",
                                             EscapeName(path),
                                             reader.size_bytes(), size_bytes));
  }
  std::vector<BlockDigest> blocks;
  const Buffer buffer = context.buffers->Get();
  for (uint64_t i = 0; i < DigestBlockCount(size_bytes); ++i) {
    CAIRN_ASSIGN_OR_RETURN(BlockDigest digest,
                           reader.Digest(i, buffer.bytes()));
    blocks.push_back(std::move(digest));
    if (on_bytes != nullptr) on_bytes(DigestBlockSize(size_bytes, i));
  }
  return blocks;
}

absl::StatusOr<std::vector<Mismatch>> CompareContent(Context& context,
                                                     const Manifest& manifest,
                                                     std::string_view base) {
  MismatchList mismatches;
  Workers workers(context.threads);
  for (const ManifestNode& node : manifest.nodes) {
    if (workers.failed()) break;
    const std::string path = JoinPath(base, node.path);
    absl::StatusOr<NodeStat> stat = context.accelerator->Stat(path);
    if (absl::IsNotFound(stat.status())) {
      mismatches.Add(Missing(node.path));
      continue;
    }
    CAIRN_RETURN_IF_ERROR(stat.status());
    if (node.type == ManifestNodeType::kSymlink) {
      absl::StatusOr<std::string> target = context.accelerator->ReadLink(path);
      if (!target.ok() || *target != node.target) {
        mismatches.Add({.file = node.path,
                        .offset = 0,
                        .kind = "corrupt",
                        .message = "is not the symlink that was recorded"});
      }
    }
    if (node.type != ManifestNodeType::kFile) continue;
    if (stat->type != NodeType::kFile) {
      mismatches.Add({.file = node.path,
                      .offset = 0,
                      .kind = "corrupt",
                      .message = "is no longer a regular file"});
      continue;
    }
    if (stat->size_bytes != node.size_bytes) {
      mismatches.Add(WrongSize(node.path, node.size_bytes, stat->size_bytes));
      continue;
    }
    if (node.blocks.empty()) continue;
    // Shared by the tasks of one file; the last of them closes it.
    auto open = BlockReader::Open(context, path);
    CAIRN_RETURN_IF_ERROR(open.status());
    auto reader = std::make_shared<BlockReader>(*std::move(open));
    auto read = std::make_shared<ReadBlock>(
        [reader](uint64_t index, MutableByteView buffer) {
          return reader->Digest(index, buffer);
        });
    SubmitBlocks(context, workers, node, read, &mismatches);
  }
  CAIRN_RETURN_IF_ERROR(workers.Wait());
  return mismatches.Take();
}

absl::StatusOr<std::vector<Mismatch>> CompareCore(Context& context,
                                                  const Manifest& manifest,
                                                  bool quick) {
  MismatchList mismatches;
  Workers workers(context.threads);
  for (const ManifestNode& node : manifest.nodes) {
    if (workers.failed()) break;
    if (node.type != ManifestNodeType::kFile) continue;
    const std::string key = KeyOf(manifest, node);
    absl::StatusOr<ObjectInfo> info = context.core->Stat(key);
    if (absl::IsNotFound(info.status())) {
      mismatches.Add(Missing(node.path));
      continue;
    }
    CAIRN_RETURN_IF_ERROR(info.status());
    if (info->size_bytes != node.size_bytes) {
      mismatches.Add(WrongSize(node.path, node.size_bytes, info->size_bytes));
      continue;
    }
    if (quick) continue;
    auto read = std::make_shared<ReadBlock>(
        [&context, key, size = node.size_bytes](
            uint64_t index,
            MutableByteView buffer) -> absl::StatusOr<BlockDigest> {
          const MutableByteView block =
              buffer.first(DigestBlockSize(size, index));
          CAIRN_RETURN_IF_ERROR(
              context.core->ReadAt(key, index * kDigestBlockBytes, block));
          return DigestBlock(block, /*with_sha256=*/true);
        });
    SubmitBlocks(context, workers, node, read, &mismatches);
  }
  CAIRN_RETURN_IF_ERROR(workers.Wait());
  return mismatches.Take();
}

}  // namespace cairn
