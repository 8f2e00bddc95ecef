// Text lines under zstd, as docs/format.md has them: one frame with a checksum,
// every line ended by a line feed. Both sides work in a bounded window, so that
// memory follows the longest line and not the whole text.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace cairn {

// The digests of a file of 102 TiB: 80 hex digits for every 8 MiB.
inline constexpr uint64_t kLineBytesMax = uint64_t{1} << 30;

// Most that `encoded_bytes` may decompress to. Manifests compress 2 to 30
// times; the fixed part holds the digests of 6 TiB of holes, which compress
// without end.
inline constexpr uint64_t DecompressedBytesMax(uint64_t encoded_bytes) {
  return (uint64_t{64} << 20) + 128 * encoded_bytes;
}

// One thread at a time.
class LineCompressor {
 public:
  LineCompressor();
  ~LineCompressor();
  // `line` is without its line feed and has none in it.
  void Append(std::string_view line);
  // Once, last. kInvalidArgument: beyond a limit; no LineDecompressor would
  // read it.
  absl::StatusOr<std::string> Finish();

 private:
  void Compress(bool is_last);

  struct Deleter {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  const std::unique_ptr<ZSTD_CCtx_s, Deleter> context_;
  std::string pending_;
  std::string encoded_;
  uint64_t longest_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

// `encoded` must outlive it. One thread at a time.
class LineDecompressor {
 public:
  explicit LineDecompressor(ByteView encoded);
  ~LineDecompressor();
  // The next line without its line feed, valid until the next call; nullopt
  // after the last. kDataLoss: cut, damaged, beyond a limit, or followed by
  // more data.
  absl::StatusOr<std::optional<std::string_view>> Next();

 private:
  absl::Status DecompressMore();

  struct Deleter {
    void operator()(ZSTD_DCtx_s* context) const;
  };
  const std::unique_ptr<ZSTD_DCtx_s, Deleter> context_;
  const ByteView encoded_;
  size_t consumed_ = 0;  // Of encoded_.
  uint64_t total_bytes_ = 0;
  bool is_at_end_ = false;  // Of the frame.
  std::string buffer_;
  size_t line_begin_ = 0;  // In buffer_.
};

}  // namespace cairn
