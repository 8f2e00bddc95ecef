#include "format/zip.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "format/wire.h"

namespace cairn {
namespace {

// APPNOTE.TXT 4.3: fixed parts of the records, and their signatures.
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kLocatorBytes = 20;
constexpr uint64_t kEntryBytes = 46;
constexpr uint64_t kLocalBytes = 30;
constexpr uint64_t kCommentBytesMax = 65535;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kLocatorSignature = 0x07064b50;
constexpr uint32_t kEntrySignature = 0x02014b50;
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint16_t kZip64ExtraId = 0x0001;
constexpr uint32_t kIn64 = 0xffffffff;  // "See the zip64 field."
constexpr uint16_t kCountIn64 = 0xffff;

constexpr uint64_t kWindowBytes = uint64_t{1} << 20;
constexpr uint64_t kEntryBytesMax = kEntryBytes + 3 * 65535;

uint64_t Field(std::string_view record, size_t offset, size_t width) {
  return LoadLittle(record.substr(offset), width);
}

// The last end record whose comment reaches exactly to the end of the file.
absl::StatusOr<uint64_t> FindEndRecord(ByteSource& file) {
  const uint64_t size = file.SizeBytes();
  if (size < kEndBytes) return Flaw(0, "too short for a zip archive");
  // Without a comment, which is nearly always, one small read is enough.
  for (const uint64_t reach : {kEndBytes, kEndBytes + kCommentBytesMax}) {
    const uint64_t begin = size - std::min(size, reach);
    CAIRN_ASSIGN_OR_RETURN(const std::string tail,
                           ReadPiece(file, begin, size - begin));
    for (uint64_t at = tail.size() - kEndBytes + 1; at-- > 0;) {
      const std::string_view record = std::string_view(tail).substr(at);
      if (Field(record, 0, 4) == kEndSignature &&
          Field(record, 20, 2) == record.size() - kEndBytes) {
        return begin + at;
      }
    }
  }
  return Flaw(size - kEndBytes,
              "no end-of-directory record: the file is cut off or its end was "
              "never written");
}

// The zip64 directory, if a locator stands before the end record.
absl::StatusOr<std::optional<ZipDirectory>> FindZip64(ByteSource& file,
                                                      uint64_t end_offset) {
  if (end_offset < kLocatorBytes + kEnd64Bytes) return std::nullopt;
  const uint64_t locator_offset = end_offset - kLocatorBytes;
  CAIRN_ASSIGN_OR_RETURN(const std::string locator,
                         ReadPiece(file, locator_offset, kLocatorBytes));
  if (Field(locator, 0, 4) != kLocatorSignature) return std::nullopt;
  const uint64_t offset = Field(locator, 8, 8);
  if (offset > locator_offset - kEnd64Bytes || Field(locator, 4, 4) != 0 ||
      Field(locator, 16, 4) > 1) {
    return Flaw(locator_offset, "zip64 locator points outside the file");
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string record,
                         ReadPiece(file, offset, kEnd64Bytes));
  // The size field leaves itself and the signature out.
  if (Field(record, 0, 4) != kEnd64Signature ||
      Field(record, 4, 8) != locator_offset - offset - 12) {
    return Flaw(offset, "no zip64 end-of-directory record");
  }
  ZipDirectory directory;
  directory.entry_count = Field(record, 32, 8);
  directory.size_bytes = Field(record, 40, 8);
  directory.offset = Field(record, 48, 8);
  if (Field(record, 24, 8) != directory.entry_count) {
    return Flaw(offset, "the archive is one of several parts");
  }
  if (directory.size_bytes > offset ||
      directory.offset != offset - directory.size_bytes) {
    return Flaw(offset, "the central directory does not end here");
  }
  return directory;
}

bool Agrees(uint64_t narrow, uint64_t in64, uint64_t wide) {
  return narrow == in64 || narrow == wide;
}

// Reads the central directory front to back.
class DirectoryWindow {
 public:
  DirectoryWindow(ByteSource& file, const ZipDirectory& directory)
      : file_(file),
        at_(directory.offset),
        end_(directory.offset + directory.size_bytes) {}

  uint64_t at() const { return at_; }
  bool done() const { return at_ == end_; }

  // The next `count` (at most kEntryBytesMax) bytes; they stay next.
  absl::StatusOr<std::string_view> Peek(uint64_t count) {
    if (count > end_ - at_) {
      return Flaw(at_, "the central directory ends inside an entry");
    }
    if (at_ < begin_ || at_ + count > begin_ + window_.size()) {
      begin_ = at_;
      CAIRN_ASSIGN_OR_RETURN(
          window_, ReadPiece(file_, at_, std::min(end_ - at_, kWindowBytes)));
    }
    return std::string_view(window_).substr(at_ - begin_, count);
  }
  void Skip(uint64_t count) { at_ += count; }

 private:
  static_assert(kWindowBytes >= kEntryBytesMax);
  ByteSource& file_;
  uint64_t at_;
  const uint64_t end_;
  uint64_t begin_ = 0;
  std::string window_;
};

// Takes the fields that say kIn64 from the zip64 extra field, in their order.
bool ReadZip64Extra(std::string_view extra, ZipEntry* entry) {
  uint64_t* const wide[] = {&entry->uncompressed_bytes,
                            &entry->compressed_bytes, &entry->header_offset};
  const bool needed = std::any_of(std::begin(wide), std::end(wide),
                                  [](uint64_t* f) { return *f == kIn64; });
  if (!needed) return true;
  while (extra.size() >= 4) {
    const uint64_t id = Field(extra, 0, 2);
    const uint64_t size = Field(extra, 2, 2);
    extra.remove_prefix(4);
    if (size > extra.size()) return false;
    if (id != kZip64ExtraId) {
      extra.remove_prefix(size);
      continue;
    }
    std::string_view field = extra.substr(0, size);
    for (uint64_t* const number : wide) {
      if (*number != kIn64) continue;
      if (field.size() < 8) return false;
      *number = Field(field, 0, 8);
      field.remove_prefix(8);
    }
    return true;
  }
  return false;
}

absl::StatusOr<ZipEntry> ReadEntry(DirectoryWindow& window,
                                   const ZipDirectory& directory) {
  const uint64_t at = window.at();
  CAIRN_ASSIGN_OR_RETURN(std::string_view record, window.Peek(kEntryBytes));
  if (Field(record, 0, 4) != kEntrySignature) {
    return Flaw(at, "no central directory entry where one has to be");
  }
  const uint64_t name_bytes = Field(record, 28, 2);
  const uint64_t extra_bytes = Field(record, 30, 2);
  const uint64_t size =
      kEntryBytes + name_bytes + extra_bytes + Field(record, 32, 2);
  CAIRN_ASSIGN_OR_RETURN(record, window.Peek(size));
  window.Skip(size);

  ZipEntry entry;
  entry.name = record.substr(kEntryBytes, name_bytes);
  entry.flags = static_cast<uint16_t>(Field(record, 8, 2));
  entry.method = static_cast<uint16_t>(Field(record, 10, 2));
  entry.crc32 = static_cast<uint32_t>(Field(record, 16, 4));
  entry.compressed_bytes = Field(record, 20, 4);
  entry.uncompressed_bytes = Field(record, 24, 4);
  entry.header_offset = Field(record, 42, 4);
  if (!ReadZip64Extra(record.substr(kEntryBytes + name_bytes, extra_bytes),
                      &entry)) {
    return Flaw(at, "directory entry without the zip64 field it needs");
  }
  const uint64_t header_bytes = kLocalBytes + name_bytes;
  if (entry.header_offset > directory.offset ||
      header_bytes > directory.offset - entry.header_offset ||
      entry.compressed_bytes >
          directory.offset - entry.header_offset - header_bytes) {
    return Flaw(at, fmt::format("entry {} reaches past the central directory",
                                ShownName(entry.name)));
  }
  return entry;
}

}  // namespace

absl::StatusOr<ZipDirectory> FindZipDirectory(ByteSource& file) {
  CAIRN_ASSIGN_OR_RETURN(const uint64_t end, FindEndRecord(file));
  CAIRN_ASSIGN_OR_RETURN(const std::string record,
                         ReadPiece(file, end, kEndBytes));
  const uint64_t count = Field(record, 10, 2);
  const uint64_t size = Field(record, 12, 4);
  const uint64_t offset = Field(record, 16, 4);
  CAIRN_ASSIGN_OR_RETURN(std::optional<ZipDirectory> directory,
                         FindZip64(file, end));
  if (directory.has_value()) {
    if (!Agrees(count, kCountIn64, directory->entry_count) ||
        !Agrees(size, kIn64, directory->size_bytes) ||
        !Agrees(offset, kIn64, directory->offset)) {
      return Flaw(end, "the two end-of-directory records differ");
    }
  } else {
    directory = ZipDirectory{count, offset, size};
    if (Field(record, 8, 2) != count || Field(record, 4, 4) != 0) {
      return Flaw(end, "the archive is one of several parts");
    }
    if (size > end || offset != end - size) {
      return Flaw(end, "the central directory does not end here");
    }
  }
  if (directory->entry_count > directory->size_bytes / kEntryBytes) {
    return Flaw(end,
                fmt::format("{} entries cannot fit into a directory of {} "
                            "bytes",
                            directory->entry_count, directory->size_bytes));
  }
  if (directory->entry_count > kZipEntriesMax) {
    return absl::ResourceExhaustedError(fmt::format(
        "an archive of more than {} entries is not read", kZipEntriesMax));
  }
  return *directory;
}

absl::Status ForEachZipEntry(
    ByteSource& file, const ZipDirectory& directory,
    absl::FunctionRef<absl::Status(const ZipEntry&)> visit) {
  DirectoryWindow window(file, directory);
  uint64_t used_bytes = 0;
  for (uint64_t i = 0; i < directory.entry_count; ++i) {
    const uint64_t at = window.at();
    CAIRN_ASSIGN_OR_RETURN(const ZipEntry entry, ReadEntry(window, directory));
    // No overflow: each term is below the directory's offset, and so is the
    // sum.
    used_bytes += kLocalBytes + entry.name.size() + entry.compressed_bytes;
    if (used_bytes > directory.offset) {
      return Flaw(at, "the entries overlap");
    }
    CAIRN_RETURN_IF_ERROR(visit(entry));
  }
  if (!window.done()) {
    return Flaw(
        window.at(),
        fmt::format("the central directory goes on after its {} entries",
                    directory.entry_count));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CheckLocalHeader(ByteSource& file,
                                          const ZipDirectory& directory,
                                          const ZipEntry& entry) {
  const uint64_t at = entry.header_offset;
  CAIRN_ASSIGN_OR_RETURN(const std::string header,
                         ReadPiece(file, at, kLocalBytes + entry.name.size()));
  if (Field(header, 0, 4) != kLocalSignature ||
      Field(header, 26, 2) != entry.name.size() ||
      std::string_view(header).substr(kLocalBytes) != entry.name) {
    return Flaw(at,
                fmt::format("no header of entry {}", ShownName(entry.name)));
  }
  const uint64_t size = Field(header, 18, 4);
  if (Field(header, 8, 2) != entry.method ||
      ((entry.flags & kZipFlagDescriptor) == 0 &&
       (Field(header, 14, 4) != entry.crc32 ||
        !Agrees(size, kIn64, entry.compressed_bytes)))) {
    return Flaw(at,
                fmt::format("the header of entry {} is not what the central "
                            "directory says",
                            ShownName(entry.name)));
  }
  const uint64_t payload = at + header.size() + Field(header, 28, 2);
  if (payload > directory.offset ||
      entry.compressed_bytes > directory.offset - payload) {
    return Flaw(at, fmt::format("entry {} reaches into the central directory",
                                ShownName(entry.name)));
  }
  return payload;
}

absl::Status CheckZip(ByteSource& file) {
  CAIRN_ASSIGN_OR_RETURN(const ZipDirectory directory, FindZipDirectory(file));
  const LocalHeaderSample sample(directory);
  uint64_t index = 0;
  return ForEachZipEntry(file, directory, [&](const ZipEntry& entry) {
    return sample.Has(index++)
               ? CheckLocalHeader(file, directory, entry).status()
               : absl::OkStatus();
  });
}

}  // namespace cairn
