// Large aligned reads and writes at the depth the device wants.
//
// One call moves one block: it is split into pieces that are all in flight at
// once, on an io_uring leased for the call, so that a single thread already
// drives the device at queue depth. io_uring is probed, never assumed: where it
// is refused (seccomp answers EPERM, memlock is too small, an old kernel) the
// same calls run as pread/pwrite, piece by piece. Every completion's result is
// looked at; short reads and writes are continued; EINTR and EAGAIN are
// repeated.
//
// Thread-safe: any number of threads may read and write at once.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/bytes.h"
#include "base/posix.h"

namespace cairn {

// Alignment of offsets, lengths and memory that every direct I/O here keeps.
inline constexpr uint64_t kDirectAlignment = 4096;

inline constexpr uint64_t RoundUpToDirect(uint64_t size) {
  return (size + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
}

// Largest piece_bytes: an io_uring request holds its length in 32 bits, and the
// kernel moves less than 2 GiB with one call.
inline constexpr size_t kPieceBytesMax = size_t{1} << 30;

enum class IoBackend { kIoUring, kPosix };
const char* IoBackendName(IoBackend backend);

struct IoEngineOptions {
  bool allow_io_uring = true;    // CAIRN_IO=posix in the environment says no.
  size_t piece_bytes = 1 << 20;  // A multiple of kDirectAlignment.
  size_t rings_max = 16;         // More callers than this take turns.
};

// A regular file open for block I/O; direct (O_DIRECT) where the file system
// takes it, else buffered. One owner; its methods are called through IoEngine.
struct BlockFile {
  UniqueFd fd;
  bool direct = false;
  std::string path;  // For messages; raw bytes.
};

class IoEngine {
 public:
  static std::unique_ptr<IoEngine> Create(IoEngineOptions options);
  ~IoEngine();

  // Reads [offset, offset + size) into the front of `buffer`. kOutOfRange if
  // the file ends before. For a direct file `offset` and the buffer's address
  // are aligned, and the buffer has room for RoundUpToDirect(size); what
  // follows `size` in it is then undefined.
  absl::Status Read(const BlockFile& file, uint64_t offset, uint64_t size,
                    MutableByteView buffer);

  // Writes the first `size` bytes of `buffer` at `offset`. For a direct file
  // the same alignment and room hold, and the tail up to RoundUpToDirect(size)
  // is zeroed and written too: the caller ends with Finish(), which sets the
  // size.
  absl::Status Write(const BlockFile& file, uint64_t offset, uint64_t size,
                     MutableByteView buffer);

  // Cuts or extends the file to `size_bytes`; with `sync`, returns when content
  // and size are on stable storage (fsync).
  absl::Status Finish(const BlockFile& file, uint64_t size_bytes, bool sync);

  IoBackend backend() const { return backend_; }
  // Why io_uring is not used; "" if it is. For `doctor`.
  const std::string& fallback_reason() const { return fallback_reason_; }

 private:
  class Ring;
  class RingLease;
  explicit IoEngine(IoEngineOptions options);
  absl::Status Transfer(const BlockFile& file, bool write, uint64_t offset,
                        uint64_t size, MutableByteView buffer);
  bool RingAvailable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const IoEngineOptions options_;
  IoBackend backend_ = IoBackend::kPosix;
  std::string fallback_reason_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Ring>> idle_ ABSL_GUARDED_BY(mutex_);
  size_t rings_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cairn
