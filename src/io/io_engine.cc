// A call is cut into pieces. A Piece knows what to ask the kernel for next; it
// is driven by a Ring (many at once) or by MoveWithSystemCalls (one at a time),
// and a piece that the ring will not take goes on with the latter.

#include "io/io_engine.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace cairn {
namespace {

// Pieces of one call in flight at once. 16 MiB at the default piece size: twice
// a digest block, so a whole block is always in flight.
constexpr unsigned kRingDepth = 16;
// EINTR and EAGAIN in a row for one piece, on one back end.
constexpr int kRepeatsMax = 256;
// Attempts in a row that move nothing before a piece is given up.
constexpr int kStallsMax = 3;
constexpr uint64_t kOffsetMax = std::numeric_limits<int64_t>::max();

// What one call has to move.
struct Job {
  const BlockFile& file;
  bool write = false;
  uint64_t offset = 0;
  std::byte* data = nullptr;
};

enum class Outcome { kDone, kContinue, kEndOfFile, kStalled, kError };

// A run of bytes that is moved with one system call when all goes well. Knows
// what to ask for next, whatever the last attempt brought.
class Piece {
 public:
  Piece(const Job& job, uint64_t start, uint64_t wanted)
      : job_(&job),
        start_(start),
        wanted_(wanted),
        length_(job.file.direct ? RoundUpToDirect(wanted) : wanted) {}

  std::byte* data() const { return job_->data + start_ + position_; }
  uint64_t size() const { return length_ - position_; }
  uint64_t offset() const { return job_->offset + start_ + position_; }
  int error() const { return error_; }

  // Takes in what one attempt returned: bytes, or a negated errno.
  Outcome Take(int64_t result) {
    if (result < 0) return TakeError(static_cast<int>(-result));
    repeats_ = 0;
    const uint64_t total = position_ + static_cast<uint64_t>(result);
    // A direct write is done with its padding, a read with the bytes asked for.
    if (total >= (job_->write ? length_ : wanted_)) return Outcome::kDone;
    if (!job_->write && result == 0) return Outcome::kEndOfFile;
    // Direct I/O goes on at an aligned place, moving some bytes again.
    const uint64_t next =
        job_->file.direct ? total / kDirectAlignment * kDirectAlignment : total;
    if (next > position_) {
      position_ = next;
      stalls_ = 0;
      return Outcome::kContinue;
    }
    if (++stalls_ < kStallsMax) return Outcome::kContinue;
    return job_->write ? Outcome::kStalled : Outcome::kEndOfFile;
  }

  void Restart() { repeats_ = 0; }

 private:
  Outcome TakeError(int error) {
    error_ = error;
    const bool repeat = error == EINTR || error == EAGAIN;
    if (repeat && ++repeats_ < kRepeatsMax) return Outcome::kContinue;
    return Outcome::kError;
  }

  const Job* job_;
  uint64_t start_;         // In the caller's block.
  uint64_t wanted_;        // Bytes the caller asked for.
  uint64_t length_;        // The same, rounded up for direct I/O.
  uint64_t position_ = 0;  // Moved so far.
  int error_ = 0;
  int repeats_ = 0;
  int stalls_ = 0;
};

absl::Status Failure(const Job& job, const Piece& piece, Outcome outcome) {
  const char* action = job.write ? "write" : "read";
  if (outcome == Outcome::kError) {
    return PosixError(piece.error(), action, job.file.path);
  }
  if (outcome == Outcome::kEndOfFile) {
    return absl::OutOfRangeError(fmt::format(
        "cannot read {}: the file ends before offset {}; it was cut while in "
        "use, or is not the file that was recorded",
        EscapeName(job.file.path), piece.offset() + piece.size()));
  }
  return absl::UnknownError(fmt::format(
      "cannot write {}: the file system takes no bytes at offset {} and gives "
      "no reason; look at its free space and its log",
      EscapeName(job.file.path), piece.offset()));
}

// Some file systems accept O_DIRECT and then refuse every transfer. What such a
// descriptor is asked for from now on goes through the page cache.
bool DropDirect(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_DIRECT) == 0) return false;
  return fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

absl::Status MoveWithSystemCalls(const Job& job, Piece& piece) {
  piece.Restart();
  const int fd = job.file.fd.get();
  for (;;) {
    const auto offset = static_cast<off_t>(piece.offset());
    const ssize_t moved = job.write
                              ? pwrite(fd, piece.data(), piece.size(), offset)
                              : pread(fd, piece.data(), piece.size(), offset);
    const Outcome outcome = piece.Take(moved < 0 ? -errno : moved);
    if (outcome == Outcome::kDone) return absl::OkStatus();
    if (outcome == Outcome::kContinue) continue;
    if (outcome == Outcome::kError && piece.error() == EINVAL &&
        DropDirect(fd)) {
      continue;
    }
    return Failure(job, piece, outcome);
  }
}

// Errors that say something of io_uring, not of the file: the piece is then
// moved by a plain system call, whose own error counts.
bool IsRingsOwnError(int error) {
  return error == ENOMEM || error == EINVAL || error == EOPNOTSUPP ||
         error == ENOSYS || error == EAGAIN || error == EINTR;
}

std::string RefusalReason(int error) {
  switch (error) {
    case EPERM:
    case EACCES:
      return "io_uring is forbidden here (a container's seccomp profile, or "
             "the sysctl kernel.io_uring_disabled)";
    case ENOSYS:
      return "this kernel has no io_uring";
    case ENOMEM: {
      rlimit limit = {};
      getrlimit(RLIMIT_MEMLOCK, &limit);
      return fmt::format(
          "io_uring gets no memory: the memlock limit is {} bytes, raise it "
          "(ulimit -l, LimitMEMLOCK=)",
          limit.rlim_cur);
    }
    case EINVAL:
      return "this kernel's io_uring is too old (5.6 is needed)";
    default:
      return fmt::format("io_uring does not start: {}", ErrorText(error));
  }
}

}  // namespace

const char* IoBackendName(IoBackend backend) {
  return backend == IoBackend::kIoUring ? "io_uring" : "posix";
}

// One thread at a time; each call leaves nothing in flight behind.
class IoEngine::Ring {
 public:
  // nullptr, with the errno in *error, if the kernel gives none.
  static std::unique_ptr<Ring> Create(int* error) {
    auto ring = std::unique_ptr<Ring>(new Ring());
    // Spares interrupts where it is known (5.19); all else is the default.
    int result = io_uring_queue_init(kRingDepth, &ring->ring_,
                                     IORING_SETUP_COOP_TASKRUN);
    if (result == -EINVAL) {
      result = io_uring_queue_init(kRingDepth, &ring->ring_, 0);
    }
    *error = -result;
    if (result < 0) return nullptr;
    ring->open_ = true;
    return ring;
  }

  ~Ring() {
    if (open_) io_uring_queue_exit(&ring_);
  }

  // True once this ring can no longer be trusted with another call.
  bool broken() const { return broken_; }

  // Moves `pieces`; those that the ring refused are in *left. Nothing is in
  // flight any more when it returns, whatever happened.
  absl::Status Run(const Job& job, std::vector<Piece>& pieces,
                   std::vector<size_t>* left) {
    job_ = &job;
    pieces_ = &pieces;
    left_ = left;
    failure_ = absl::OkStatus();
    prepared_.clear();
    ready_.clear();
    for (size_t i = pieces.size(); i > 0; --i) ready_.push_back(i - 1);
    while (in_flight_ > 0 || (failure_.ok() && !broken_ && !ready_.empty())) {
      if (failure_.ok() && !broken_) Prepare();
      Submit();
      Reap();
    }
    // Requests that stay in the submission queue would go out with the next
    // call, into memory that is no longer ours.
    if (!prepared_.empty()) broken_ = true;
    left->insert(left->end(), prepared_.begin(), prepared_.end());
    left->insert(left->end(), ready_.begin(), ready_.end());
    return failure_;
  }

 private:
  Ring() = default;

  void Prepare() {
    while (!ready_.empty() && in_flight_ + prepared_.size() < kRingDepth) {
      io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
      if (sqe == nullptr) return;
      const size_t index = ready_.back();
      ready_.pop_back();
      const Piece& piece = (*pieces_)[index];
      // Sizes fit: piece_bytes is at most kPieceBytesMax.
      const auto size = static_cast<unsigned>(piece.size());
      if (job_->write) {
        io_uring_prep_write(sqe, job_->file.fd.get(), piece.data(), size,
                            piece.offset());
      } else {
        io_uring_prep_read(sqe, job_->file.fd.get(), piece.data(), size,
                           piece.offset());
      }
      io_uring_sqe_set_data64(sqe, index);
      prepared_.push_back(index);
    }
  }

  // Hands over what is prepared and waits for at least one completion.
  void Submit() {
    const bool submit = !prepared_.empty() && failure_.ok() && !broken_;
    if (submit) {
      const int taken = io_uring_submit_and_wait(&ring_, 1);
      if (taken >= 0) {
        // The kernel takes requests in the order they were prepared in.
        prepared_.erase(prepared_.begin(), prepared_.begin() + taken);
        in_flight_ += static_cast<size_t>(taken);
        repeats_ = 0;
        return;
      }
      const bool repeat =
          taken == -EINTR || taken == -EAGAIN || taken == -EBUSY;
      if (!repeat || ++repeats_ >= kRepeatsMax) broken_ = true;
    }
    if (in_flight_ > 0) {
      io_uring_cqe* cqe = nullptr;
      const int waited = io_uring_wait_cqe(&ring_, &cqe);
      // Returning would leave the kernel writing into the caller's memory.
      CAIRN_CHECK(waited == 0 || waited == -EINTR || waited == -EAGAIN);
    }
  }

  void Reap() {
    io_uring_cqe* cqe = nullptr;
    while (in_flight_ > 0 && io_uring_peek_cqe(&ring_, &cqe) == 0 &&
           cqe != nullptr) {
      const uint64_t index = io_uring_cqe_get_data64(cqe);
      const int result = cqe->res;
      io_uring_cqe_seen(&ring_, cqe);
      --in_flight_;
      CAIRN_CHECK(index < pieces_->size());
      Settle(index, result);
    }
  }

  void Settle(size_t index, int result) {
    Piece& piece = (*pieces_)[index];
    const Outcome outcome = piece.Take(result);
    if (outcome == Outcome::kDone) return;
    if (outcome == Outcome::kContinue) {
      ready_.push_back(index);
    } else if (outcome == Outcome::kError && IsRingsOwnError(piece.error())) {
      left_->push_back(index);
    } else if (failure_.ok()) {
      failure_ = Failure(*job_, piece, outcome);
    }
  }

  io_uring ring_ = {};
  bool open_ = false;
  bool broken_ = false;
  int repeats_ = 0;
  size_t in_flight_ = 0;
  // Of the call that runs:
  const Job* job_ = nullptr;
  std::vector<Piece>* pieces_ = nullptr;
  std::vector<size_t>* left_ = nullptr;
  absl::Status failure_;
  std::vector<size_t> ready_;     // To be prepared, from the back.
  std::vector<size_t> prepared_;  // In the submission queue, not yet taken.
};

// Holds one ring for one call, and waits for its turn; without a ring where the
// kernel has no memory for one now.
class IoEngine::RingLease {
 public:
  explicit RingLease(IoEngine* engine) : engine_(engine) {
    {
      absl::MutexLock lock(&engine_->mutex_);
      engine_->mutex_.Await(absl::Condition(engine_, &IoEngine::RingAvailable));
      if (!engine_->idle_.empty()) {
        ring_ = std::move(engine_->idle_.back());
        engine_->idle_.pop_back();
        return;
      }
      ++engine_->rings_;
    }
    int error = 0;
    ring_ = Ring::Create(&error);
    if (ring_ == nullptr) GiveUp();
  }

  ~RingLease() {
    if (ring_ == nullptr) return;
    if (ring_->broken()) {
      ring_.reset();
      GiveUp();
      return;
    }
    absl::MutexLock lock(&engine_->mutex_);
    engine_->idle_.push_back(std::move(ring_));
  }

  RingLease(const RingLease&) = delete;
  RingLease& operator=(const RingLease&) = delete;

  Ring* ring() const { return ring_.get(); }

 private:
  void GiveUp() {
    absl::MutexLock lock(&engine_->mutex_);
    --engine_->rings_;
  }

  IoEngine* const engine_;
  std::unique_ptr<Ring> ring_;
};

namespace {

// A ring that was set up may still refuse to read: so it reads something.
int TryRead(io_uring* ring) {
  static constexpr char kText[] = "cairn";
  const UniqueFd file(memfd_create("cairn-probe", MFD_CLOEXEC));
  if (!file.ok()) return 0;  // Nothing to try it on.
  if (pwrite(file.get(), kText, sizeof(kText), 0) != sizeof(kText)) return 0;
  char read_back[sizeof(kText)] = {};
  io_uring_sqe* sqe = io_uring_get_sqe(ring);
  if (sqe == nullptr) return EAGAIN;
  io_uring_prep_read(sqe, file.get(), read_back, sizeof(read_back), 0);
  int result = 0;
  do {
    result = io_uring_submit(ring);
  } while (result == -EINTR);
  if (result < 0) return -result;
  io_uring_cqe* cqe = nullptr;
  do {
    result = io_uring_wait_cqe(ring, &cqe);
  } while (result == -EINTR);
  CAIRN_CHECK(result == 0);
  const int got = cqe->res;
  io_uring_cqe_seen(ring, cqe);
  if (got < 0) return -got;
  const bool same =
      got == sizeof(kText) && memcmp(kText, read_back, sizeof(kText)) == 0;
  return same ? 0 : EIO;
}

// 0, or the errno that says why io_uring cannot be used.
int ProbeIoUring() {
  io_uring ring = {};
  const int result = io_uring_queue_init(2, &ring, 0);
  if (result < 0) return -result;
  const int error = TryRead(&ring);
  io_uring_queue_exit(&ring);
  return error;
}

bool DisabledByEnvironment() {
  const char* value = getenv("CAIRN_IO");
  return value != nullptr && strcmp(value, "posix") == 0;
}

}  // namespace

std::unique_ptr<IoEngine> IoEngine::Create(IoEngineOptions options) {
  return std::unique_ptr<IoEngine>(new IoEngine(options));
}

IoEngine::IoEngine(IoEngineOptions options) : options_(options) {
  CAIRN_CHECK(options.piece_bytes > 0);
  CAIRN_CHECK(options.piece_bytes % kDirectAlignment == 0);
  CAIRN_CHECK(options.piece_bytes <= kPieceBytesMax);
  CAIRN_CHECK(options.rings_max > 0);
  if (!options_.allow_io_uring) {
    fallback_reason_ = "io_uring is switched off";
  } else if (DisabledByEnvironment()) {
    fallback_reason_ = "io_uring is switched off by CAIRN_IO=posix";
  } else if (const int error = ProbeIoUring(); error != 0) {
    fallback_reason_ = RefusalReason(error);
  } else {
    backend_ = IoBackend::kIoUring;
  }
}

IoEngine::~IoEngine() = default;

bool IoEngine::RingAvailable() const {
  return !idle_.empty() || rings_ < options_.rings_max;
}

absl::Status IoEngine::Read(const BlockFile& file, uint64_t offset,
                            uint64_t size, MutableByteView buffer) {
  return Transfer(file, /*write=*/false, offset, size, buffer);
}

absl::Status IoEngine::Write(const BlockFile& file, uint64_t offset,
                             uint64_t size, MutableByteView buffer) {
  if (file.direct) {
    const uint64_t padded = RoundUpToDirect(size);
    CAIRN_CHECK(padded <= buffer.size());
    memset(buffer.data() + size, 0, padded - size);
  }
  return Transfer(file, /*write=*/true, offset, size, buffer);
}

absl::Status IoEngine::Transfer(const BlockFile& file, bool write,
                                uint64_t offset, uint64_t size,
                                MutableByteView buffer) {
  if (size == 0) return absl::OkStatus();
  CAIRN_CHECK(size <= buffer.size());
  if (file.direct) {
    CAIRN_CHECK(offset % kDirectAlignment == 0);
    CAIRN_CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % kDirectAlignment ==
                0);
    CAIRN_CHECK(RoundUpToDirect(size) <= buffer.size());
  }
  if (offset > kOffsetMax || RoundUpToDirect(size) > kOffsetMax - offset) {
    return absl::OutOfRangeError(fmt::format(
        "cannot {} {}: no file reaches offset {} + {}",
        write ? "write" : "read", EscapeName(file.path), offset, size));
  }
  const Job job = {file, write, offset, buffer.data()};
  std::vector<Piece> pieces;
  pieces.reserve((size - 1) / options_.piece_bytes + 1);
  for (uint64_t start = 0; start < size; start += options_.piece_bytes) {
    pieces.emplace_back(job, start,
                        std::min<uint64_t>(options_.piece_bytes, size - start));
  }
  // A buffered write only copies memory, under the inode's lock: more requests
  // at once would only wait for one another.
  const bool use_ring =
      backend_ == IoBackend::kIoUring && (file.direct || !write);
  if (use_ring) {
    RingLease lease(this);
    if (lease.ring() != nullptr) {
      std::vector<size_t> left;
      CAIRN_RETURN_IF_ERROR(lease.ring()->Run(job, pieces, &left));
      std::sort(left.begin(), left.end());
      for (const size_t index : left) {
        CAIRN_RETURN_IF_ERROR(MoveWithSystemCalls(job, pieces[index]));
      }
      return absl::OkStatus();
    }
  }
  for (Piece& piece : pieces) {
    CAIRN_RETURN_IF_ERROR(MoveWithSystemCalls(job, piece));
  }
  return absl::OkStatus();
}

absl::Status IoEngine::Finish(const BlockFile& file, uint64_t size_bytes,
                              bool sync) {
  if (size_bytes > kOffsetMax) {
    return PosixError(EFBIG, "set the size of", file.path);
  }
  int result = 0;
  do {
    result = ftruncate(file.fd.get(), static_cast<off_t>(size_bytes));
  } while (result != 0 && errno == EINTR);
  if (result != 0) return PosixError(errno, "set the size of", file.path);
  // A failed fsync is not tried again: the kernel may have dropped the pages.
  if (sync && fsync(file.fd.get()) != 0) {
    return PosixError(errno, "sync", file.path);
  }
  return absl::OkStatus();
}

}  // namespace cairn
