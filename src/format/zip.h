// zip archives, as far as a check needs them: the end record, the central
// directory as a stream, local headers. Payloads are not read and nothing is
// inflated. zip64 is understood; split and encrypted archives are not.
//
// The directory is read through a window of bounded size, whatever it claims.
// All errors about the content are kDataLoss with the offset, except
// kResourceExhausted: more entries than kZipEntriesMax.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_source.h"

namespace cairn {

inline constexpr uint64_t kZipEntriesMax = uint64_t{1} << 24;
// Each local header costs a small read somewhere in the file, so in a larger
// archive only so many are looked at, spread evenly; the first and the last are
// among them.
inline constexpr uint64_t kZipLocalHeadersMax = 4096;

inline constexpr uint16_t kZipFlagEncrypted = 0x0001;
inline constexpr uint16_t kZipFlagDescriptor = 0x0008;  // Sizes come after.

// Where the central directory is. It ends where the end records begin, and the
// archive begins where the file does.
struct ZipDirectory {
  uint64_t entry_count = 0;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

// What the directory says of one entry.
struct ZipEntry {
  std::string_view name;  // Valid during the visit.
  uint16_t flags = 0;
  uint16_t method = 0;  // 0: stored.
  uint32_t crc32 = 0;
  uint64_t compressed_bytes = 0;
  uint64_t uncompressed_bytes = 0;
  uint64_t header_offset = 0;
};

absl::StatusOr<ZipDirectory> FindZipDirectory(ByteSource& file);

// Visits every entry in the directory's order; stops at the first failure. Each
// entry has been found to lie before the directory, all of them together to fit
// there, and their number to be right.
absl::Status ForEachZipEntry(
    ByteSource& file, const ZipDirectory& directory,
    absl::FunctionRef<absl::Status(const ZipEntry&)> visit);

// Compares the entry's local header with the directory; returns where its
// payload begins. The payload ends before the directory.
absl::StatusOr<uint64_t> CheckLocalHeader(ByteSource& file,
                                          const ZipDirectory& directory,
                                          const ZipEntry& entry);

// Which local headers are looked at: all, or a sample.
class LocalHeaderSample {
 public:
  explicit LocalHeaderSample(const ZipDirectory& directory)
      : last_(directory.entry_count == 0 ? 0 : directory.entry_count - 1),
        stride_(directory.entry_count / kZipLocalHeadersMax + 1) {}
  bool Has(uint64_t index) const {
    return index % stride_ == 0 || index == last_;
  }

 private:
  const uint64_t last_;
  const uint64_t stride_;
};

// The end record, the directory, and the local headers in the sample.
absl::Status CheckZip(ByteSource& file);

}  // namespace cairn
