// An upload into a DirectoryStore: a directory of its own with
//
//   data   the staging file, of the final size; parts are written in place
//   parts  the journal (part_journal.h): what `data` holds, part by part
//   info   JSON: version, key (escaped), sizes; written last and durably, so an
//          upload that has it can be resumed
//
// A part counts when its journal line is written, and that is after it was
// written, read back (from the disk where direct I/O is there) and found to
// have its CRC. A part of zeros stays a hole. Commit() makes the content
// durable, moves `data` to the key's place and removes the directory; if the
// process dies in between, `info` without `data` is left, which means
// "committed".

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/bytes.h"
#include "base/posix.h"
#include "io/io_engine.h"
#include "object/directory_files.h"
#include "object/object_store.h"
#include "object/part_journal.h"

namespace cairn {

// Thread-safe. `files` must outlive it.
class DirectoryUpload final : public Upload {
 public:
  static constexpr int kPartsMax = 1'000'000;  // 8 TB in parts of 8 MiB.
  static constexpr uint64_t kJournalBytesMax = 256 << 20;

  static absl::StatusOr<std::unique_ptr<Upload>> Begin(
      DirectoryFiles* files, std::string_view key,
      const UploadOptions& options);
  static absl::StatusOr<std::unique_ptr<Upload>> Resume(
      DirectoryFiles* files, std::string_view key, std::string_view token,
      const UploadOptions& options);

  // The unfinished uploads of keys under `prefix`, by key. Removes what is left
  // of committed ones.
  static absl::StatusOr<std::vector<UploadInfo>> List(DirectoryFiles* files,
                                                      std::string_view prefix);

  ~DirectoryUpload() override;
  absl::Status AddPart(int number, MutableByteView content,
                       uint64_t crc64_nvme) override;
  absl::Status Commit(uint64_t crc64_nvme) override;
  std::string Token() const override { return token_; }
  void Detach() override;
  absl::StatusOr<std::vector<PartInfo>> Parts() override;

 private:
  enum class State { kOpen, kCommitting, kGone };

  DirectoryUpload(DirectoryFiles* files, std::string_view key,
                  std::string_view token, const UploadOptions& options);

  static absl::Status CheckOptions(std::string_view key,
                                   const UploadOptions& options);
  int PartCount() const;
  uint64_t PartSize(int number) const;
  uint64_t PartOffset(int number) const;

  absl::Status Create();
  absl::Status Reopen();
  absl::Status BelievePartsOfEarlierBoots();
  absl::Status AppendToJournal(std::string_view line)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status StorePart(int number, MutableByteView content,
                         uint64_t crc64_nvme, bool untouched);
  absl::Status CheckWhole(uint64_t crc64_nvme)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Finish(uint64_t crc64_nvme);

  DirectoryFiles* const files_;
  const std::string key_;
  const std::string token_;
  const std::string directory_;
  const uint64_t size_bytes_;
  const uint64_t part_bytes_;
  // Set before the upload is handed out, constant after that.
  BlockFile data_;
  BlockFile journal_;

  absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kOpen;
  bool detached_ ABSL_GUARDED_BY(mutex_) = false;
  // Parts whose range of `data_` may hold something else than the zeros it was
  // made with: all of them after a resume.
  bool all_touched_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<int> touched_ ABSL_GUARDED_BY(mutex_);
  std::set<int> busy_ ABSL_GUARDED_BY(mutex_);
  std::map<int, JournalPart> parts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn
