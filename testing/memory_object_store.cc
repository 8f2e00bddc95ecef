#include "testing/memory_object_store.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/check.h"
#include "base/crc64.h"
#include "base/units.h"

namespace cairn {
namespace {

absl::Status CheckKey(std::string_view key) {
  if (key.empty() || key.size() > kKeyBytesMax ||
      key.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError("not a key");
  }
  return absl::OkStatus();
}

absl::Status CheckUpload(std::string_view key, const UploadOptions& options) {
  if (options.size_bytes == 0 || options.part_bytes == 0 ||
      options.part_bytes % kMiB != 0) {
    return absl::InvalidArgumentError("not the sizes of an upload");
  }
  return CheckKey(key);
}

uint64_t PartSize(const UploadOptions& options, int number) {
  const uint64_t offset =
      (static_cast<uint64_t>(number) - 1) * options.part_bytes;
  return std::min(options.part_bytes, options.size_bytes - offset);
}

int PartCount(const UploadOptions& options) {
  return static_cast<int>((options.size_bytes - 1) / options.part_bytes) + 1;
}

}  // namespace

// A view of what the store keeps under its token. Thread-safe.
class MemoryObjectStore::MemoryUpload final : public Upload {
 public:
  MemoryUpload(MemoryObjectStore* store, std::string token)
      : store_(store), token_(std::move(token)) {}

  ~MemoryUpload() override {
    absl::MutexLock lock(&store_->mutex_);
    if (!detached_) store_->uploads_.erase(token_);
  }

  absl::Status AddPart(int number, MutableByteView content,
                       uint64_t crc64_nvme) override {
    constexpr uintptr_t kAlignment = 4096;
    if (reinterpret_cast<uintptr_t>(content.data()) % kAlignment != 0) {
      return absl::InvalidArgumentError("memory is not aligned");
    }
    absl::MutexLock lock(&store_->mutex_);
    const auto staged = store_->uploads_.find(token_);
    if (staged == store_->uploads_.end()) return Gone();
    const UploadOptions& options = staged->second.options;
    if (number < 1 || number > PartCount(options) ||
        content.size() != PartSize(options, number)) {
      return absl::InvalidArgumentError("not a part of this upload");
    }
    staged->second.parts.erase(number);
    if (Crc64Nvme(content) != crc64_nvme) {
      return absl::DataLossError("the part does not have its CRC");
    }
    staged->second.parts.emplace(number, AsText(content));
    return absl::OkStatus();
  }

  absl::Status Commit(uint64_t crc64_nvme) override {
    Object object;
    std::string key;
    {
      absl::MutexLock lock(&store_->mutex_);
      const auto staged = store_->uploads_.find(token_);
      if (staged == store_->uploads_.end()) return Gone();
      const UploadOptions& options = staged->second.options;
      if (staged->second.parts.size() !=
          static_cast<size_t>(PartCount(options))) {
        return absl::FailedPreconditionError("a part is missing");
      }
      for (const auto& [number, part] : staged->second.parts) {
        object.content += part;
      }
      object.crc64_nvme = Crc64Nvme(AsBytes(object.content));
      if (object.crc64_nvme != crc64_nvme) {
        return absl::DataLossError("the whole does not have its CRC");
      }
      object.metadata = options.metadata;
      key = staged->second.key;
      store_->uploads_.erase(staged);
    }
    return store_->Store(key, std::move(object));
  }

  std::string Token() const override { return token_; }

  void Detach() override {
    absl::MutexLock lock(&store_->mutex_);
    detached_ = true;
  }

  absl::StatusOr<std::vector<PartInfo>> Parts() override {
    absl::MutexLock lock(&store_->mutex_);
    const auto staged = store_->uploads_.find(token_);
    if (staged == store_->uploads_.end()) return Gone();
    std::vector<PartInfo> parts;
    for (const auto& [number, part] : staged->second.parts) {
      parts.push_back({number, part.size(), Crc64Nvme(AsBytes(part))});
    }
    return parts;
  }

 private:
  static absl::Status Gone() {
    return absl::FailedPreconditionError("the upload is committed or gone");
  }

  MemoryObjectStore* const store_;
  const std::string token_;
  bool detached_ ABSL_GUARDED_BY(store_->mutex_) = false;
};

absl::Status MemoryObjectStore::Store(std::string_view key, Object object) {
  absl::MutexLock lock(&mutex_);
  const bool stored =
      objects_.try_emplace(std::string(key), std::move(object)).second;
  return stored ? absl::OkStatus() : absl::AlreadyExistsError("key is taken");
}

absl::Status MemoryObjectStore::Put(std::string_view key, ByteView content,
                                    const PutOptions& options) {
  if (absl::Status status = CheckKey(key); !status.ok()) return status;
  const uint64_t crc = Crc64Nvme(content);
  if (options.crc64_nvme.value_or(crc) != crc) {
    return absl::DataLossError("the content does not have its CRC");
  }
  return Store(key, {std::string(AsText(content)), crc, options.metadata});
}

absl::Status MemoryObjectStore::ReadAt(std::string_view key, uint64_t offset,
                                       MutableByteView out) {
  if (absl::Status status = CheckKey(key); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  const auto found = objects_.find(key);
  if (found == objects_.end()) return absl::NotFoundError("no such key");
  const std::string& content = found->second.content;
  if (offset > content.size() || out.size() > content.size() - offset) {
    return absl::OutOfRangeError("beyond the end");
  }
  if (!out.empty()) {
    std::memcpy(out.data(), content.data() + offset, out.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<ObjectInfo> MemoryObjectStore::Stat(std::string_view key) {
  if (absl::Status status = CheckKey(key); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  const auto found = objects_.find(key);
  if (found == objects_.end()) return absl::NotFoundError("no such key");
  return ObjectInfo{found->first, found->second.content.size(),
                    found->second.crc64_nvme};
}

absl::Status MemoryObjectStore::List(std::string_view prefix, Visitor visit) {
  std::string from(prefix);
  while (true) {
    ObjectInfo info;
    {
      absl::MutexLock lock(&mutex_);
      const auto next = objects_.lower_bound(from);
      if (next == objects_.end() || !next->first.starts_with(prefix)) {
        return absl::OkStatus();
      }
      info = {next->first, next->second.content.size(),
              next->second.crc64_nvme};
    }
    // Not under the lock: a visitor may call the store.
    if (absl::Status status = visit(info); !status.ok()) return status;
    from = info.key + '\0';  // The least string after it.
  }
}

absl::Status MemoryObjectStore::Remove(std::string_view key) {
  if (absl::Status status = CheckKey(key); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  const auto found = objects_.find(key);
  if (found != objects_.end()) objects_.erase(found);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Upload>> MemoryObjectStore::BeginUpload(
    std::string_view key, const UploadOptions& options) {
  if (absl::Status status = CheckUpload(key, options); !status.ok()) {
    return status;
  }
  absl::MutexLock lock(&mutex_);
  std::string token = "upload-" + std::to_string(++uploads_begun_);
  uploads_.emplace(token, Staged{std::string(key), options, {}});
  return std::make_unique<MemoryUpload>(this, std::move(token));
}

absl::StatusOr<std::unique_ptr<Upload>> MemoryObjectStore::ResumeUpload(
    std::string_view key, std::string_view token,
    const UploadOptions& options) {
  const bool as_begun = options.size_bytes == 0 && options.part_bytes == 0;
  absl::Status status = as_begun ? CheckKey(key) : CheckUpload(key, options);
  if (!status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  const auto found = uploads_.find(token);
  const auto fits = [&](const UploadOptions& begun) {
    return as_begun || (begun.size_bytes == options.size_bytes &&
                        begun.part_bytes == options.part_bytes);
  };
  if (found == uploads_.end() || found->second.key != key ||
      !fits(found->second.options)) {
    return absl::NotFoundError("no such upload");
  }
  return std::make_unique<MemoryUpload>(this, std::string(token));
}

absl::StatusOr<std::vector<UploadInfo>> MemoryObjectStore::ListUploads(
    std::string_view prefix) {
  absl::MutexLock lock(&mutex_);
  std::vector<UploadInfo> uploads;
  for (const auto& [token, staged] : uploads_) {
    if (staged.key.starts_with(prefix)) uploads.push_back({staged.key, token});
  }
  std::sort(uploads.begin(), uploads.end(),
            [](const UploadInfo& a, const UploadInfo& b) {
              return std::tie(a.key, a.token) < std::tie(b.key, b.token);
            });
  return uploads;
}

size_t MemoryObjectStore::size() {
  absl::MutexLock lock(&mutex_);
  return objects_.size();
}

ObjectMetadata MemoryObjectStore::MetadataOf(std::string_view key) {
  absl::MutexLock lock(&mutex_);
  const auto found = objects_.find(key);
  CAIRN_CHECK(found != objects_.end());
  return found->second.metadata;
}

void MemoryObjectStore::FlipByte(std::string_view key, uint64_t offset) {
  absl::MutexLock lock(&mutex_);
  const auto found = objects_.find(key);
  CAIRN_CHECK(found != objects_.end());
  CAIRN_CHECK(offset < found->second.content.size());
  found->second.content[offset] =
      static_cast<char>(found->second.content[offset] ^ 1);
}

}  // namespace cairn
