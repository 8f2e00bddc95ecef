#include "engine/file_export.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/digest.h"
#include "base/escape.h"
#include "base/kill_point.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "engine/block_reader.h"
#include "engine/checkpoint_files.h"

namespace cairn {
namespace {

absl::Status Changed(const std::string& path) {
  return absl::UnavailableError(
      fmt::format("{} changed while it was being copied", EscapeName(path)));
}

UploadOptions UploadOptionsFor(const ManifestNode& node) {
  return {.metadata = MetadataOf(node),
          .size_bytes = node.size_bytes,
          .part_bytes = kDigestBlockBytes};
}

}  // namespace

ObjectMetadata MetadataOf(const ManifestNode& node) {
  const absl::Time mtime = absl::FromUnixNanos(node.mtime_ns);
  return {{"owner", fmt::format("{}", node.uid)},
          {"group", fmt::format("{}", node.gid)},
          {"permissions", fmt::format("{:04o}", node.mode & 01777)},
          {"modtime", absl::FormatTime("%Y-%m-%d %H:%M:%S %z", mtime,
                                       absl::UTCTimeZone())}};
}

// A file of several blocks on its way. Shared by its tasks; the last one to end
// finishes it. Dropped before that, its upload stays to be resumed.
class FileExport::LargeFile {
 public:
  LargeFile(FileExport* owner, ManifestNode* node, BlockReader reader)
      : owner_(*owner),
        node_(*node),
        reader_(std::move(reader)),
        remaining_(DigestBlockCount(node->size_bytes)) {
    node_.blocks.assign(remaining_, {});
  }

  ~LargeFile() {
    if (upload_ != nullptr) upload_->Detach();
  }

  // Chooses the key, and begins or resumes its upload. An object that is there
  // already is first digested against, not sent.
  absl::Status Open() {
    keys_ = owner_.Keys(node_);
    if (keys_.empty()) return absl::OkStatus();  // By content: digests first.
    absl::StatusOr<ObjectInfo> there =
        owner_.context_.core->Stat(keys_.front());
    if (there.ok()) return absl::OkStatus();
    if (!absl::IsNotFound(there.status())) return there.status();
    return OpenUpload(keys_.front());
  }

  absl::Status MoveBlock(uint64_t index) {
    const Buffer buffer = owner_.context_.buffers->Get();
    CAIRN_RETURN_IF_ERROR(MoveBlockThrough(index, buffer.bytes()));
    owner_.context_.observer->OnProgress(
        DigestBlockSize(node_.size_bytes, index), 0);
    CAIRN_KILL_POINT("export.after_part");
    if (remaining_.fetch_sub(1) > 1) return absl::OkStatus();
    return Finish();
  }

 private:
  absl::Status OpenUpload(const std::string& key) {
    Catalog& catalog = *owner_.context_.catalog;
    ObjectStore& core = *owner_.context_.core;
    const std::string& generation = owner_.manifest_.head.generation;
    const UploadOptions options = UploadOptionsFor(node_);
    CAIRN_ASSIGN_OR_RETURN(std::string token,
                           catalog.FindUpload(generation, key));
    if (token.empty()) {
      CAIRN_ASSIGN_OR_RETURN(const std::vector<UploadInfo> uploads,
                             core.ListUploads(key));
      for (const UploadInfo& upload : uploads) {
        if (upload.key == key) token = upload.token;
      }
    }
    if (!token.empty()) {
      auto resumed = core.ResumeUpload(key, token, options);
      if (resumed.ok()) {
        upload_ = *std::move(resumed);
        CAIRN_ASSIGN_OR_RETURN(const std::vector<PartInfo> parts,
                               upload_->Parts());
        for (const PartInfo& part : parts) held_[part.number] = part;
      } else if (!absl::IsNotFound(resumed.status())) {
        return resumed.status();
      }
    }
    if (upload_ == nullptr) {
      CAIRN_ASSIGN_OR_RETURN(upload_, core.BeginUpload(key, options));
    }
    key_ = key;
    return catalog.RecordUpload(generation, key, upload_->Token());
  }

  absl::Status MoveBlockThrough(uint64_t index, MutableByteView buffer) {
    const uint64_t size = DigestBlockSize(node_.size_bytes, index);
    owner_.limiter_.Acquire(size);
    CAIRN_ASSIGN_OR_RETURN(const BlockDigest digest,
                           reader_.Read(index, buffer));
    node_.blocks[index] = digest;
    if (upload_ == nullptr) return absl::OkStatus();
    const int number = static_cast<int>(index) + 1;
    const auto held = held_.find(number);
    if (held != held_.end() && held->second.size_bytes == size &&
        held->second.crc64_nvme == digest.crc64_nvme) {
      owner_.counters_.bytes_skipped += size;
      return absl::OkStatus();
    }
    CAIRN_RETURN_IF_ERROR(
        upload_->AddPart(number, buffer.first(size), digest.crc64_nvme));
    owner_.counters_.bytes_sent += size;
    return absl::OkStatus();
  }

  absl::Status Finish() {
    CAIRN_ASSIGN_OR_RETURN(const NodeStat now, reader_.StatNow());
    if (now.size_bytes != node_.size_bytes) return Changed(node_.path);
    if (upload_ != nullptr) {
      absl::Status committed = CommitUpload();
      if (!absl::IsAlreadyExists(committed)) return committed;
    }
    // Somebody else's object, or ours of before: compare, else the next key.
    if (keys_.empty()) {
      const auto name = FileSha256(node_.blocks);
      keys_ = {".cairn/objects/" + ToHex(*name)};
    }
    for (const std::string& key : keys_) {
      absl::Status stored = owner_.TakeIfEqual(key, node_);
      if (absl::IsNotFound(stored)) stored = SendAll(key);
      if (absl::IsAlreadyExists(stored)) continue;
      CAIRN_RETURN_IF_ERROR(stored);
      owner_.SetKey(&node_, key);
      owner_.counters_.files += 1;
      owner_.context_.observer->OnProgress(0, 1);
      return absl::OkStatus();
    }
    return absl::AlreadyExistsError(fmt::format(
        "every key for {} holds other content", EscapeName(node_.path)));
  }

  absl::Status CommitUpload() {
    CAIRN_KILL_POINT("export.before_upload_commit");
    absl::Status committed =
        upload_->Commit(FileCrc64(node_.size_bytes, node_.blocks));
    // Gone either way, unless the store could not say.
    if (committed.ok() || absl::IsAlreadyExists(committed)) {
      upload_.reset();
      CAIRN_RETURN_IF_ERROR(owner_.context_.catalog->ForgetUpload(
          owner_.manifest_.head.generation, key_));
    }
    CAIRN_RETURN_IF_ERROR(committed);
    CAIRN_KILL_POINT("export.after_upload_commit");
    owner_.SetKey(&node_, key_);
    owner_.counters_.files += 1;
    owner_.context_.observer->OnProgress(0, 1);
    return absl::OkStatus();
  }

  // The rare way, on one thread: the content is known, and goes under `key`.
  absl::Status SendAll(const std::string& key) {
    held_.clear();
    CAIRN_RETURN_IF_ERROR(OpenUpload(key));
    const std::vector<BlockDigest> known = node_.blocks;
    const Buffer buffer = owner_.context_.buffers->Get();
    for (uint64_t i = 0; i < known.size(); ++i) {
      CAIRN_RETURN_IF_ERROR(MoveBlockThrough(i, buffer.bytes()));
      if (!DigestsMatch(known[i], node_.blocks[i])) return Changed(node_.path);
    }
    absl::Status committed =
        upload_->Commit(FileCrc64(node_.size_bytes, node_.blocks));
    if (committed.ok() || absl::IsAlreadyExists(committed)) {
      upload_.reset();
      CAIRN_RETURN_IF_ERROR(owner_.context_.catalog->ForgetUpload(
          owner_.manifest_.head.generation, key));
    }
    return committed;
  }

  FileExport& owner_;
  ManifestNode& node_;
  const BlockReader reader_;
  std::vector<std::string> keys_;
  std::string key_;
  std::unique_ptr<Upload> upload_;
  std::map<int, PartInfo> held_;
  std::atomic<uint64_t> remaining_;
};

absl::Status FileExport::Submit(Workers& workers, ManifestNode* node) {
  if (node->size_bytes > kDigestBlockBytes) return SubmitLarge(workers, node);
  workers.Submit([this, node] { return StoreSmall(node); });
  return absl::OkStatus();
}

absl::Status FileExport::SubmitLarge(Workers& workers, ManifestNode* node) {
  const std::string path = NaturalKey(manifest_, *node);
  CAIRN_ASSIGN_OR_RETURN(BlockReader reader, BlockReader::Open(context_, path));
  if (reader.size_bytes() != node->size_bytes) return Changed(path);
  // Shared by the file's tasks; the last of them destroys it.
  auto file = std::make_shared<LargeFile>(this, node, std::move(reader));
  CAIRN_RETURN_IF_ERROR(file->Open());
  for (uint64_t i = 0; i < DigestBlockCount(node->size_bytes); ++i) {
    if (workers.failed()) break;
    workers.Submit([file, i] { return file->MoveBlock(i); });
  }
  return absl::OkStatus();
}

absl::Status FileExport::StoreSmall(ManifestNode* node) {
  const std::string path = NaturalKey(manifest_, *node);
  CAIRN_ASSIGN_OR_RETURN(const BlockReader reader,
                         BlockReader::Open(context_, path));
  if (reader.size_bytes() != node->size_bytes) return Changed(path);
  limiter_.Acquire(node->size_bytes);
  const Buffer buffer = context_.buffers->Get();
  node->blocks.clear();
  if (node->size_bytes > 0) {
    CAIRN_ASSIGN_OR_RETURN(BlockDigest digest, reader.Read(0, buffer.bytes()));
    node->blocks.push_back(std::move(digest));
  }
  CAIRN_KILL_POINT("export.before_object");
  std::vector<std::string> keys = Keys(*node);
  if (keys.empty()) {
    keys = {".cairn/objects/" + ToHex(*FileSha256(node->blocks))};
  }
  for (const std::string& key : keys) {
    absl::Status stored =
        PutOrTake(key, *node, buffer.bytes().first(node->size_bytes));
    if (absl::IsAlreadyExists(stored)) continue;
    CAIRN_RETURN_IF_ERROR(stored);
    CAIRN_KILL_POINT("export.after_object");
    SetKey(node, key);
    counters_.files += 1;
    context_.observer->OnProgress(node->size_bytes, 1);
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(
      fmt::format("every key for {} holds other content", EscapeName(path)));
}

std::vector<std::string> FileExport::Keys(const ManifestNode& node) const {
  std::vector<std::string> keys;
  const std::string natural = NaturalKey(manifest_, node);
  if (!IsNaturalKeySafe(natural)) return keys;
  if (natural_keys_) keys.push_back(natural);
  const std::string own =
      ".cairn/generations/" + manifest_.head.generation + "/" + node.path;
  if (own.size() <= kKeyBytesMax) keys.push_back(own);
  return keys;
}

absl::Status FileExport::PutOrTake(const std::string& key,
                                   const ManifestNode& node, ByteView content) {
  absl::Status put =
      context_.core->Put(key, content,
                         {.metadata = MetadataOf(node),
                          .crc64_nvme = FileCrc64(node.size_bytes, node.blocks),
                          .barrier = false});
  if (put.ok()) {
    counters_.bytes_sent += content.size();
    return put;
  }
  if (!absl::IsAlreadyExists(put)) return put;
  return TakeIfEqual(key, node);
}

absl::Status FileExport::TakeIfEqual(const std::string& key,
                                     const ManifestNode& node) {
  CAIRN_ASSIGN_OR_RETURN(const ObjectInfo info, context_.core->Stat(key));
  const uint64_t crc = FileCrc64(node.size_bytes, node.blocks);
  const auto other = [&key] {
    return absl::AlreadyExistsError(
        fmt::format("{} holds other content", EscapeName(key)));
  };
  if (info.size_bytes != node.size_bytes) return other();
  if (info.crc64_nvme.has_value() && *info.crc64_nvme != crc) return other();
  const Buffer buffer = context_.buffers->Get();
  for (uint64_t i = 0; i < node.blocks.size(); ++i) {
    const MutableByteView block =
        buffer.bytes().first(DigestBlockSize(node.size_bytes, i));
    absl::Status read =
        context_.core->ReadAt(key, i * kDigestBlockBytes, block);
    if (absl::IsDataLoss(read) || absl::IsOutOfRange(read)) return other();
    CAIRN_RETURN_IF_ERROR(read);
    if (!DigestsMatch(DigestBlock(block, true), node.blocks[i])) return other();
  }
  counters_.bytes_skipped += node.size_bytes;
  return absl::OkStatus();
}

void FileExport::SetKey(ManifestNode* node, const std::string& key) const {
  node->key = key == NaturalKey(manifest_, *node) ? "" : key;
}

}  // namespace cairn
