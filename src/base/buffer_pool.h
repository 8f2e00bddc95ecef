// Aligned memory that is paid for once: first touch of fresh memory is the
// slowest copy there is on a virtual machine, so buffers are reused.

#pragma once

#include <cstddef>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/bytes.h"

namespace cairn {

inline constexpr size_t kBufferAlignment = 4096;

class BufferPool;

// A buffer on loan; goes back to its pool when destroyed. The pool must outlive
// it. One thread at a time.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();
  MutableByteView bytes() const { return {data_, size_}; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  friend class BufferPool;
  Buffer(BufferPool* pool, std::byte* data, size_t size)
      : pool_(pool), data_(data), size_(size) {}
  BufferPool* pool_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// At most `buffers_max` buffers of `buffer_bytes` (a multiple of
// kBufferAlignment), allocated when first needed, kept until the pool dies.
// Thread-safe.
class BufferPool {
 public:
  BufferPool(size_t buffer_bytes, size_t buffers_max);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();  // REQUIRES: every buffer is back.

  // Waits until a buffer is free: this is the back-pressure.
  Buffer Get();
  size_t buffer_bytes() const { return buffer_bytes_; }

 private:
  friend class Buffer;
  void Put(std::byte* data);
  bool CanGet() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !free_.empty() || allocated_ < buffers_max_;
  }
  bool HasFree() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !free_.empty();
  }

  const size_t buffer_bytes_;
  const size_t buffers_max_;
  absl::Mutex mutex_;
  std::vector<std::byte*> free_ ABSL_GUARDED_BY(mutex_);
  size_t allocated_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cairn
