// What the parsers of foreign files share: little-endian numbers, reading a
// piece of a source, and how a flaw is reported. Nothing here trusts a length.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_source.h"
#include "base/bytes.h"

namespace cairn {

// The unsigned number in the first `width` (at most 8) bytes of `bytes`.
// REQUIRES: there are that many.
inline uint64_t LoadLittle(std::string_view bytes, size_t width) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) {
    value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  }
  return value;
}

// kDataLoss: "at offset <offset>: <what>".
absl::Status Flaw(uint64_t offset, std::string_view what);

// A name for a message: escaped, and cut where it is absurdly long.
std::string ShownName(std::string_view name);

// `count` bytes from `offset`. kDataLoss if the source ends before; the caller
// has bounded `count`.
absl::StatusOr<std::string> ReadPiece(ByteSource& source, uint64_t offset,
                                      uint64_t count);

// True for "a" and "a/b": relative, without empty, "." or ".." components,
// without NUL, at most kRelativePathBytesMax long. Such a name cannot leave the
// directory it is looked up in.
inline constexpr size_t kRelativePathBytesMax = 4096;
bool IsPlainRelativePath(std::string_view path);

}  // namespace cairn
