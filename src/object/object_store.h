// The core tier, seen as a flat set of named, immutable byte strings.
//
// An object is written once and never changed. testing/object_store_contract is
// the executable form of the comments below, and every implementation runs it.
// Keys are raw bytes without NUL, 1 to kKeyBytesMax long, and are data: "a" and
// "a/b" may both exist, "..", "//" and a trailing "/" mean nothing special.
//
// Thread-safe: any method may be called from several threads at once.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"

namespace cairn {

inline constexpr size_t kKeyBytesMax =
    1024;  // S3: 1,024 bytes; Azure: 1,024 characters.

struct PartInfo {
  int number = 0;  // From 1.
  uint64_t size_bytes = 0;
  std::optional<uint64_t> crc64_nvme =
      std::nullopt;  // Where the service tells.
};

struct UploadInfo {
  std::string key;
  std::string token;
};

struct ObjectInfo {
  std::string key;
  uint64_t size_bytes = 0;
  std::optional<uint64_t> crc64_nvme =
      std::nullopt;  // Of the whole content, where kept.
};

using ObjectMetadata = std::vector<std::pair<std::string, std::string>>;

struct PutOptions {
  ObjectMetadata metadata = {};
  // Of the content; a store that checks refuses other content with kDataLoss
  // and stores nothing.
  std::optional<uint64_t> crc64_nvme = std::nullopt;
  // Every object that this ObjectStore has stored before is durable before this
  // one becomes visible, and this one is durable when Put returns. Without it a
  // Put may be lost by a crash of the store's host. For manifests and marks.
  bool barrier = false;
};

// Part n of an upload holds bytes [(n-1)*part_bytes, min(n*part_bytes, size)).
struct UploadOptions {
  ObjectMetadata metadata = {};
  uint64_t size_bytes = 0;  // > 0.
  uint64_t part_bytes =
      0;  // > 0, a multiple of 1 MiB; every part but the last.
};

// Content too large for one Put, sent as parts in any order and from several
// threads. Nothing is visible until Commit(). Destroying it uncommitted aborts,
// unless Detach() left it to be resumed by its token.
class Upload {
 public:
  virtual ~Upload() = default;

  // The memory behind `content` is writable and ends on the next multiple of
  // 4,096 bytes, of which the store may scribble on what follows `content`; it
  // is aligned to 4,096. (A BufferPool's buffers are.) That saves a copy for
  // stores that write to disks. Sending a part again replaces it. The part's
  // content is checked against `crc64_nvme` by the store itself: by the
  // service, or by reading it back; kDataLoss if it differs.
  virtual absl::Status AddPart(int number, MutableByteView content,
                               uint64_t crc64_nvme) = 0;

  // kFailedPrecondition: a part is missing. kAlreadyExists: the key is taken;
  // the upload is then gone. kDataLoss: the whole does not have `crc64_nvme`.
  virtual absl::Status Commit(uint64_t crc64_nvme) = 0;

  virtual std::string Token() const = 0;  // Printable ASCII.
  virtual void Detach() = 0;

  // The parts that the service itself says it holds, by number.
  virtual absl::StatusOr<std::vector<PartInfo>> Parts() = 0;
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Stores `content` as `key`; no reader ever sees a part of it.
  // kAlreadyExists: `key` is taken, and its content was left alone.
  // kInvalidArgument: the key is empty, too long or has a NUL byte.
  // kUnavailable: try again; this attempt may or may not have taken effect.
  virtual absl::Status Put(std::string_view key, ByteView content,
                           const PutOptions& options) = 0;

  // Fills all of `out` from `offset`, or fails with kOutOfRange. Never short.
  // kNotFound: no such key. Fastest into memory as AddPart describes it.
  virtual absl::Status ReadAt(std::string_view key, uint64_t offset,
                              MutableByteView out) = 0;

  // kNotFound: no such key (nor is there ever a "directory").
  virtual absl::StatusOr<ObjectInfo> Stat(std::string_view key) = 0;

  // Calls `visit` on this thread for each key under `prefix` (a prefix of
  // bytes, not of components), in byte order of the keys. Stops at the first
  // status that is not OK, and returns it. An incomplete listing is never OK.
  using Visitor = absl::FunctionRef<absl::Status(const ObjectInfo&)>;
  virtual absl::Status List(std::string_view prefix, Visitor visit) = 0;

  // OK also if `key` is absent, so that a half-done clean-up can be repeated.
  virtual absl::Status Remove(std::string_view key) = 0;

  virtual absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(
      std::string_view key, const UploadOptions& options) = 0;

  // `options` as at BeginUpload; without sizes, those it was begun with.
  // kNotFound: no upload with this token for this key and these sizes; it was
  // committed, aborted or expired.
  virtual absl::StatusOr<std::unique_ptr<Upload>> ResumeUpload(
      std::string_view key, std::string_view token,
      const UploadOptions& options) = 0;

  // Unfinished uploads of keys under `prefix`, for resuming and for sweeping
  // (resume, then destroy).
  virtual absl::StatusOr<std::vector<UploadInfo>> ListUploads(
      std::string_view prefix) = 0;
};

}  // namespace cairn
