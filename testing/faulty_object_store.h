// An ObjectStore that fails as the test says, counts, and can be held still.
//
//   FaultyObjectStore faulty(&memory);
//   faulty.Fail(Verb::kPut, {.fault = Fault::kApplyThenLoseReply, .skip = 2});
//
// lets two Puts through and loses the reply of the third.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "object/object_store.h"

namespace cairn {

// Thread-safe. `base` must outlive it; it must outlive its uploads.
class FaultyObjectStore final : public ObjectStore {
 public:
  enum class Verb {
    kPut,
    kReadAt,
    kStat,
    kList,
    kRemove,
    kBeginUpload,
    kResumeUpload,
    kListUploads,
    kAddPart,
    kCommit,
    kParts,
  };
  static constexpr size_t kVerbs = 11;

  enum class Fault {
    kRefuse,              // Nothing happens; `code` comes back.
    kApplyThenLoseReply,  // It happens; `code` comes back all the same.
    kFlipByte,            // It succeeds with the middle byte changed: of what
                          // ReadAt gives, or of what Put or AddPart stores.
    kStopHalfway,         // List visits half of the keys, then `code`.
  };

  struct Script {
    Fault fault = Fault::kRefuse;
    absl::StatusCode code = absl::StatusCode::kUnavailable;
    int skip = 0;   // Calls of the verb that pass first.
    int times = 1;  // Calls that fail then.
  };

  explicit FaultyObjectStore(ObjectStore* base) : base_(base) {}

  // Scripts of a verb run one after the other.
  void Fail(Verb verb, Script script);
  void FailNextPuts(int times, Fault fault) {
    Fail(Verb::kPut, {.fault = fault, .times = times});
  }
  void ClearScripts();

  // Called on the calling thread at the start of each call, before any fault,
  // with the key ("" or the prefix where there is none): may block it, to fix
  // an order.
  using Gate = std::function<void(Verb verb, std::string_view key)>;
  void SetGate(Gate gate);

  int calls(Verb verb);
  uint64_t bytes(Verb verb);  // Of content, of the calls that were asked for.
  int puts() { return calls(Verb::kPut); }

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

 private:
  class FaultyUpload;
  struct Channel {
    std::deque<Script> scripts;
    int calls = 0;
    uint64_t bytes = 0;
  };

  // Counts, waits at the gate, and tells how this call fails, if it does.
  std::optional<Script> Enter(Verb verb, std::string_view key, uint64_t bytes);
  absl::Status ListHalf(std::string_view prefix, Visitor visit,
                        absl::StatusCode code);

  ObjectStore* const base_;
  absl::Mutex mutex_;
  Gate gate_ ABSL_GUARDED_BY(mutex_);
  std::array<Channel, kVerbs> channels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn
