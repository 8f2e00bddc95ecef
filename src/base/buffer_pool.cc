#include "base/buffer_pool.h"

#include <sys/mman.h>

#include <cstdlib>
#include <utility>

#include "base/check.h"

namespace cairn {

namespace {

constexpr size_t kPageBytes = 4096;  // The smallest page there is; never less.
constexpr size_t kHugePageBytes = size_t{2} << 20;

// Makes the kernel find the pages now, so that the copy into them later runs at
// full speed.
void Prefault(std::byte* data, size_t size) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(data, size, MADV_POPULATE_WRITE) == 0) return;
#endif
  // Kernels before 5.14, and sandboxes that do not know the call.
  volatile std::byte* const pages = data;
  for (size_t at = 0; at < size; at += kPageBytes) pages[at] = std::byte{0};
}

// nullptr where there is no memory.
std::byte* Allocate(size_t size) {
  const bool huge = size >= kHugePageBytes;
  void* memory = nullptr;
  if (posix_memalign(&memory, huge ? kHugePageBytes : kBufferAlignment, size) !=
      0) {
    return nullptr;
  }
  // Advice only: where huge pages are off, ordinary ones do.
  if (huge) madvise(memory, size, MADV_HUGEPAGE);
  std::byte* const data = static_cast<std::byte*>(memory);
  Prefault(data, size);
  return data;
}

}  // namespace

Buffer::Buffer(Buffer&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  if (data_ != nullptr) pool_->Put(data_);
  pool_ = std::exchange(other.pool_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) pool_->Put(data_);
}

BufferPool::BufferPool(size_t buffer_bytes, size_t buffers_max)
    : buffer_bytes_(buffer_bytes), buffers_max_(buffers_max) {
  CAIRN_CHECK(buffer_bytes > 0 && buffer_bytes % kBufferAlignment == 0);
  CAIRN_CHECK(buffers_max > 0);
  free_.reserve(buffers_max);
}

BufferPool::~BufferPool() {
  absl::MutexLock lock(&mutex_);
  CAIRN_CHECK(free_.size() == allocated_);
  for (std::byte* const data : free_) std::free(data);
}

Buffer BufferPool::Get() {
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &BufferPool::CanGet));
    if (!free_.empty()) {
      std::byte* const data = free_.back();  // The one that is warmest.
      free_.pop_back();
      return Buffer(this, data, buffer_bytes_);
    }
    ++allocated_;
  }
  // Outside the lock: pre-faulting takes milliseconds.
  if (std::byte* const data = Allocate(buffer_bytes_); data != nullptr) {
    return Buffer(this, data, buffer_bytes_);
  }
  // Less memory than was configured: go on with the buffers that there are.
  absl::MutexLock lock(&mutex_);
  --allocated_;
  CAIRN_CHECK(allocated_ > 0 && "no memory for the first buffer");
  mutex_.Await(absl::Condition(this, &BufferPool::HasFree));
  std::byte* const data = free_.back();
  free_.pop_back();
  return Buffer(this, data, buffer_bytes_);
}

void BufferPool::Put(std::byte* data) {
  absl::MutexLock lock(&mutex_);
  free_.push_back(data);
}

}  // namespace cairn
