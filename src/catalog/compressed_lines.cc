#include "catalog/compressed_lines.h"

#include <zstd.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr int kLevel = 3;
// 8 MiB; level 3 needs 2 MiB.
constexpr int kWindowLogMax = 23;
constexpr size_t kPieceBytes = size_t{128} << 10;

// What only wrong use or lack of memory can make fail.
void CheckZstd(size_t result) { CAIRN_CHECK(!ZSTD_isError(result)); }

}  // namespace

void LineCompressor::Deleter::operator()(ZSTD_CCtx_s* context) const {
  ZSTD_freeCCtx(context);
}

LineCompressor::LineCompressor() : context_(ZSTD_createCCtx()) {
  CAIRN_CHECK(context_ != nullptr);
  CheckZstd(
      ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, kLevel));
  CheckZstd(ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1));
}

LineCompressor::~LineCompressor() = default;

void LineCompressor::Append(std::string_view line) {
  pending_ += line;
  pending_ += '\n';
  longest_bytes_ = std::max<uint64_t>(longest_bytes_, line.size());
  total_bytes_ += line.size() + 1;
  if (pending_.size() >= kPieceBytes) Compress(/*is_last=*/false);
}

void LineCompressor::Compress(bool is_last) {
  ZSTD_inBuffer in = {pending_.data(), pending_.size(), 0};
  const ZSTD_EndDirective mode = is_last ? ZSTD_e_end : ZSTD_e_continue;
  for (bool is_done = false; !is_done;) {
    const size_t size = encoded_.size();
    encoded_.resize(size + kPieceBytes);
    ZSTD_outBuffer out = {encoded_.data() + size, kPieceBytes, 0};
    const size_t left = ZSTD_compressStream2(context_.get(), &out, &in, mode);
    CheckZstd(left);
    encoded_.resize(size + out.pos);
    is_done = is_last ? left == 0 : in.pos == in.size;
  }
  pending_.clear();
}

absl::StatusOr<std::string> LineCompressor::Finish() {
  Compress(/*is_last=*/true);
  if (longest_bytes_ > kLineBytesMax) {
    return absl::InvalidArgumentError(
        fmt::format("a line of {} bytes is longer than {} bytes; split the "
                    "largest file of the checkpoint",
                    longest_bytes_, kLineBytesMax));
  }
  if (total_bytes_ > DecompressedBytesMax(encoded_.size())) {
    return absl::InvalidArgumentError(
        "it compresses too well to be told from a decompression bomb: the "
        "checkpoint has more than 6 TiB of holes or of equal content");
  }
  return std::move(encoded_);
}

void LineDecompressor::Deleter::operator()(ZSTD_DCtx_s* context) const {
  ZSTD_freeDCtx(context);
}

LineDecompressor::LineDecompressor(ByteView encoded)
    : context_(ZSTD_createDCtx()), encoded_(encoded) {
  CAIRN_CHECK(context_ != nullptr);
  CheckZstd(ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax,
                                   kWindowLogMax));
}

LineDecompressor::~LineDecompressor() = default;

absl::StatusOr<std::optional<std::string_view>> LineDecompressor::Next() {
  size_t searched = line_begin_;
  while (true) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      const std::string_view line =
          std::string_view(buffer_).substr(line_begin_, end - line_begin_);
      line_begin_ = end + 1;
      return line;
    }
    buffer_.erase(0, line_begin_);
    line_begin_ = 0;
    searched = buffer_.size();
    if (buffer_.size() > kLineBytesMax) {
      return absl::DataLossError("longer than any line may be");
    }
    if (is_at_end_) {
      if (buffer_.empty()) return std::nullopt;
      return absl::DataLossError("cut: the line has no end");
    }
    CAIRN_RETURN_IF_ERROR(DecompressMore());
  }
}

absl::Status LineDecompressor::DecompressMore() {
  const size_t size = buffer_.size();
  buffer_.resize(size + kPieceBytes);
  ZSTD_inBuffer in = {encoded_.data(), encoded_.size(), consumed_};
  ZSTD_outBuffer out = {buffer_.data() + size, kPieceBytes, 0};
  const size_t left = ZSTD_decompressStream(context_.get(), &out, &in);
  buffer_.resize(size + out.pos);
  if (ZSTD_isError(left)) {
    return absl::DataLossError(fmt::format(
        "the compressed data is damaged ({})", ZSTD_getErrorName(left)));
  }
  is_at_end_ = left == 0;
  const bool has_advanced = in.pos > consumed_ || out.pos > 0;
  if (!is_at_end_ && !has_advanced) {
    return absl::DataLossError(fmt::format(
        "cut: the compressed data ends after {} bytes", encoded_.size()));
  }
  consumed_ = in.pos;
  total_bytes_ += out.pos;
  if (total_bytes_ > DecompressedBytesMax(encoded_.size())) {
    return absl::DataLossError(
        fmt::format("{} compressed bytes expand to more than {} bytes",
                    encoded_.size(), DecompressedBytesMax(encoded_.size())));
  }
  if (is_at_end_ && consumed_ != encoded_.size()) {
    return absl::DataLossError(fmt::format(
        "{} bytes follow the end of the compressed data; nothing may",
        encoded_.size() - consumed_));
  }
  return absl::OkStatus();
}

}  // namespace cairn
