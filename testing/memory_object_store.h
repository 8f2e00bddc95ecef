// An ObjectStore in memory: for tests of what lies above one, and the measure
// of the contract suite (it passes it without any deviation).

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "object/object_store.h"

namespace cairn {

// Thread-safe. Must outlive its uploads.
class MemoryObjectStore final : public ObjectStore {
 public:
  absl::Status Put(std::string_view key, ByteView content,
                   const PutOptions& options) override;
  absl::Status ReadAt(std::string_view key, uint64_t offset,
                      MutableByteView out) override;
  absl::StatusOr<ObjectInfo> Stat(std::string_view key) override;
  absl::Status List(std::string_view prefix, Visitor visit) override;
  absl::Status Remove(std::string_view key) override;
  absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(
      std::string_view key, const UploadOptions& options) override;
  absl::StatusOr<std::unique_ptr<Upload>> ResumeUpload(
      std::string_view key, std::string_view token,
      const UploadOptions& options) override;
  absl::StatusOr<std::vector<UploadInfo>> ListUploads(
      std::string_view prefix) override;

  // For tests. The keys must exist.
  size_t size();
  ObjectMetadata MetadataOf(std::string_view key);
  void FlipByte(std::string_view key, uint64_t offset);  // Silent damage.

 private:
  class MemoryUpload;
  struct Object {
    std::string content;
    uint64_t crc64_nvme = 0;
    ObjectMetadata metadata;
  };
  struct Staged {
    std::string key;
    UploadOptions options;
    std::map<int, std::string> parts;
  };

  absl::Status Store(std::string_view key, Object object);

  absl::Mutex mutex_;
  uint64_t uploads_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Object, std::less<>> objects_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Staged, std::less<>> uploads_
      ABSL_GUARDED_BY(mutex_);  // By token.
};

}  // namespace cairn
