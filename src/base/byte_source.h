// Content that can be read at any offset: a file, an object, a buffer.

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "base/bytes.h"

namespace cairn {

// Thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t SizeBytes() const = 0;

  // Fills all of `out` from `offset`, or fails with kOutOfRange if the content
  // ends before. Never short.
  virtual absl::Status ReadAt(uint64_t offset, MutableByteView out) = 0;
};

// Over bytes that must outlive it.
class MemoryByteSource final : public ByteSource {
 public:
  explicit MemoryByteSource(ByteView content) : content_(content) {}
  uint64_t SizeBytes() const override { return content_.size(); }
  absl::Status ReadAt(uint64_t offset, MutableByteView out) override;

 private:
  const ByteView content_;
};

}  // namespace cairn
