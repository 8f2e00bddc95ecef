// The checksums that formats bring along (structure.h, CheckFileChecksums), and
// the CRC-32 that zip uses.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "base/escape.h"
#include "base/status_macros.h"
#include "format/crc32.h"
#include "format/structure.h"
#include "format/zip.h"

namespace cairn {
namespace {

constexpr size_t kWindowBytes = size_t{1} << 20;

constexpr std::array<uint32_t, 256> kCrc32Table = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
    }
    table[i] = crc;
  }
  return table;
}();

absl::Status CheckEntry(ByteSource& file, const ZipDirectory& directory,
                        const ZipEntry& entry, std::vector<std::byte>* window) {
  // Not stored as it is, or written with checksums turned off: nothing to
  // compare.
  if (entry.method != 0 || entry.crc32 == 0) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(const uint64_t begin,
                         CheckLocalHeader(file, directory, entry));
  uint32_t crc = 0;
  for (uint64_t done = 0; done < entry.uncompressed_bytes;) {
    const uint64_t size =
        std::min<uint64_t>(window->size(), entry.uncompressed_bytes - done);
    const MutableByteView piece = MutableByteView(*window).first(size);
    CAIRN_RETURN_IF_ERROR(file.ReadAt(begin + done, piece));
    crc = Crc32(piece, crc);
    done += size;
  }
  if (crc == entry.crc32) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("the record {} at offset {} does not match its own CRC-32",
                  EscapeName(entry.name), begin));
}

bool IsZip(ByteSource& file) {
  std::array<std::byte, 4> head;
  return file.SizeBytes() >= head.size() && file.ReadAt(0, head).ok() &&
         AsText(head) == "PK\x03\x04";
}

}  // namespace

uint32_t Crc32(ByteView data, uint32_t crc) {
  crc = ~crc;
  for (const std::byte byte : data) {
    crc = (crc >> 8) ^ kCrc32Table[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  }
  return ~crc;
}

absl::Status CheckFileChecksums(ByteSource& file) {
  if (!IsZip(file)) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(const ZipDirectory directory, FindZipDirectory(file));
  std::vector<std::byte> window(kWindowBytes);
  return ForEachZipEntry(file, directory, [&](const ZipEntry& entry) {
    return CheckEntry(file, directory, entry, &window);
  });
}

}  // namespace cairn
