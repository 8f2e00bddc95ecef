// What a DirectoryStore and its uploads share: files under the root, how
// content gets into them, and how a finished one gets its key.
//
// Thread-safe.

#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/call_once.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/buffer_pool.h"
#include "base/bytes.h"
#include "io/io_engine.h"
#include "io/root.h"

namespace cairn {

// A new file without a key: below kTemporaryDirectory, removed when this is
// destroyed, unless it was published. One thread at a time.
class TemporaryObject {
 public:
  TemporaryObject(const Root* root, std::string path, BlockFile file)
      : root_(root), path_(std::move(path)), file_(std::move(file)) {}
  TemporaryObject(TemporaryObject&& other) noexcept
      : root_(std::exchange(other.root_, nullptr)),
        path_(std::move(other.path_)),
        file_(std::move(other.file_)) {}
  TemporaryObject& operator=(TemporaryObject&&) = delete;
  ~TemporaryObject();

  const std::string& path() const { return path_; }
  BlockFile& file() { return file_; }
  void Published() { root_ = nullptr; }

 private:
  const Root* root_;
  std::string path_;
  BlockFile file_;
};

// `engine` must outlive it.
class DirectoryFiles {
 public:
  // Files below this size go through the page cache: for them one direct write,
  // which waits for the device, costs more than the copy it saves.
  static constexpr uint64_t kDirectBytesMin = 256 << 10;
  static constexpr size_t kBounceBytes = 4 << 20;
  static constexpr size_t kBouncesMax = 16;  // 64 MiB at the most.
  static constexpr int kPublishAttemptsMax = 64;
  // What a process that died left behind is removed after this time.
  static constexpr absl::Duration kLeftoverAgeMax = absl::Hours(24);

  DirectoryFiles(Root root, IoEngine* engine);

  const Root& root() const { return root_; }
  IoEngine& engine() { return *engine_; }

  // The first call removes what dead processes left (kLeftoverAgeMax).
  void PrepareForWriting();

  absl::StatusOr<TemporaryObject> CreateTemporary(uint64_t size_bytes);

  // Writes `content` from offset 0 and sets the size; direct files are read
  // back and compared with `crc` (kDataLoss).
  absl::Status WriteContent(const BlockFile& file, ByteView content,
                            uint64_t crc);

  // Fills `out` from any offset into any memory; the range lies in the file.
  absl::Status ReadContent(const BlockFile& file, uint64_t offset,
                           MutableByteView out);

  // Reads a range back; kDataLoss if it does not have `crc`.
  absl::Status CheckStored(const BlockFile& file, uint64_t offset,
                           uint64_t size_bytes, uint64_t crc);

  // Gives a finished file its mode, and its CRC as an extended attribute where
  // the file system has these. `durable`: the content will be on stable storage
  // before the file gets its key, so that the CRC holds after any crash.
  absl::Status MarkContent(const BlockFile& file, uint64_t crc, bool durable);

  // As MarkContent left it; nullopt where it is not kept, and also for an
  // object whose content was not known to be durable and that another boot has
  // stored.
  std::optional<uint64_t> CrcOf(const BlockFile& file) const;

  // Moves the file at `path` to the place of `key`, natural or aside, and
  // returns that place. kAlreadyExists: the key is taken.
  absl::StatusOr<std::string> Publish(const std::string& path,
                                      std::string_view key);

  // Removes the object wherever it lies, and directories that are empty then.
  // OK if there is none.
  absl::Status RemoveObject(std::string_view key);

  // Makes the names on the way from the root to `place` durable.
  absl::Status SyncNames(std::string_view place) const;

  // Opens the object for reading, buffered. kNotFound: no such key.
  absl::StatusOr<BlockFile> OpenObject(std::string_view key) const;

 private:
  enum class Placed { kYes, kTaken, kClash };

  absl::Mutex* LockOf(std::string_view key);
  absl::StatusOr<Placed> PlaceAt(const std::string& path,
                                 const std::string& target);
  absl::StatusOr<Placed> PlaceWithoutParent(const std::string& target,
                                            const absl::Status& why);
  absl::StatusOr<std::string> PublishOnce(const std::string& path,
                                          const std::string& key);
  void RemoveLeftovers();

  const Root root_;
  IoEngine* const engine_;
  const mode_t file_mode_;
  const std::string temporary_prefix_;  // Unique to this store object.
  std::atomic<uint64_t> temporaries_{0};
  std::atomic<bool> keeps_attributes_{true};  // Until the file system refuses.
  absl::once_flag prepared_;
  BufferPool bounces_{kBounceBytes, kBouncesMax};
  // By hash of the key: one at a time publishes or removes a key, so that this
  // looks like one step. Between processes see Publish.
  std::array<absl::Mutex, 64> key_locks_;
};

// `bytes` random bytes as lower-case hex.
std::string RandomHex(size_t bytes);

}  // namespace cairn
