#include "format/wire.h"

#include "base/escape.h"
#include "fmt/format.h"

namespace cairn {

absl::Status Flaw(uint64_t offset, std::string_view what) {
  return absl::DataLossError(fmt::format("at offset {}: {}", offset, what));
}

std::string ShownName(std::string_view name) {
  constexpr size_t kShownBytesMax = 200;
  if (name.size() <= kShownBytesMax) return EscapeName(name);
  return EscapeName(name.substr(0, kShownBytesMax)) + "...";
}

absl::StatusOr<std::string> ReadPiece(ByteSource& source, uint64_t offset,
                                      uint64_t count) {
  const uint64_t size = source.SizeBytes();
  if (offset > size || count > size - offset) {
    return Flaw(offset, fmt::format("needs {} bytes, but the file ends at {}",
                                    count, size));
  }
  std::string piece(count, '\0');
  const absl::Status read = source.ReadAt(
      offset, std::as_writable_bytes(std::span(piece.data(), piece.size())));
  if (!read.ok()) return read;
  return piece;
}

bool IsPlainRelativePath(std::string_view path) {
  if (path.size() > kRelativePathBytesMax ||
      path.find('\0') != std::string_view::npos) {
    return false;
  }
  for (;;) {
    const size_t slash = path.find('/');
    const std::string_view component = path.substr(0, slash);
    if (component.empty() || component == "." || component == "..") {
      return false;
    }
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace cairn
