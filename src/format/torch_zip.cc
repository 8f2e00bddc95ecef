#include "format/torch_zip.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/posix.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "format/crc32.h"
#include "format/wire.h"
#include "format/zip.h"

namespace cairn {
namespace {

constexpr uint32_t kDescriptorSignature = 0x08074b50;
constexpr uint64_t kDescriptorBytes = 16;    // Sizes of 32 bits.
constexpr uint64_t kDescriptor64Bytes = 24;  // Sizes of 64 bits.

bool SkipPrefix(std::string_view prefix, std::string_view* text) {
  if (text->substr(0, prefix.size()) != prefix) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// What the central directory told.
struct TorchArchive {
  ZipDirectory directory;
  std::string prefix;  // With its slash.
  bool has_version = false;
  bool is_script = false;  // TorchScript: its data.pkl follows other rules.

  bool has_pickle = false;
  uint64_t pickle_header_offset = 0;
  uint64_t pickle_bytes = 0;
  uint32_t pickle_crc32 = 0;
  uint64_t pickle_offset = 0;  // Of the payload.
};

// A record that torch reads in place, so it may not be compressed. (TorchScript
// deflates its code.)
bool IsReadInPlace(std::string_view record) {
  return record == "data.pkl" || record == "version" ||
         record.starts_with("data/");
}

absl::Status CheckDescriptor(ByteSource& file, const ZipDirectory& directory,
                             const ZipEntry& entry, uint64_t payload) {
  if ((entry.flags & kZipFlagDescriptor) == 0) return absl::OkStatus();
  const uint64_t at = payload + entry.compressed_bytes;
  const uint64_t room = directory.offset - at;
  CAIRN_ASSIGN_OR_RETURN(
      const std::string record,
      ReadPiece(file, at, std::min(room, kDescriptor64Bytes)));
  const auto matches = [&](uint64_t size, size_t width) {
    const std::string_view view(record);
    return view.size() >= size && LoadLittle(view, 4) == kDescriptorSignature &&
           LoadLittle(view.substr(4), 4) == entry.crc32 &&
           LoadLittle(view.substr(8), width) == entry.compressed_bytes &&
           LoadLittle(view.substr(8 + width), width) ==
               entry.uncompressed_bytes;
  };
  if (matches(kDescriptorBytes, 4) || matches(kDescriptor64Bytes, 8)) {
    return absl::OkStatus();
  }
  return Flaw(at, fmt::format("no data descriptor behind entry {}",
                              ShownName(entry.name)));
}

// One entry: its name, its method, and, if in the sample or read by us, its
// local header and descriptor.
absl::Status VisitEntry(ByteSource& file, bool in_sample, const ZipEntry& entry,
                        TorchArchive* archive) {
  if (archive->prefix.empty()) {
    const size_t slash = entry.name.find('/');
    if (slash == std::string_view::npos) {
      return Flaw(entry.header_offset,
                  fmt::format("a zip archive, but not torch's: entry {} is in "
                              "no directory",
                              ShownName(entry.name)));
    }
    archive->prefix = std::string(entry.name.substr(0, slash + 1));
  }
  std::string_view record = entry.name;
  if (!SkipPrefix(archive->prefix, &record)) {
    return Flaw(entry.header_offset,
                fmt::format("a zip archive, but not torch's: entry {} is not "
                            "in {}",
                            ShownName(entry.name), ShownName(archive->prefix)));
  }
  if ((entry.flags & kZipFlagEncrypted) != 0 ||
      (IsReadInPlace(record) &&
       (entry.method != 0 ||
        entry.compressed_bytes != entry.uncompressed_bytes))) {
    return Flaw(entry.header_offset,
                fmt::format("entry {} is compressed or encrypted",
                            ShownName(entry.name)));
  }
  const bool is_pickle = record == "data.pkl";
  const bool is_version = record == "version" || record == ".data/version";
  if (record == "constants.pkl") archive->is_script = true;
  if (is_version) archive->has_version = true;
  if (!in_sample && !is_pickle && !is_version) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(const uint64_t payload,
                         CheckLocalHeader(file, archive->directory, entry));
  if (is_pickle) {
    archive->has_pickle = true;
    archive->pickle_header_offset = entry.header_offset;
    archive->pickle_bytes = entry.uncompressed_bytes;
    archive->pickle_crc32 = entry.crc32;
    archive->pickle_offset = payload;
  }
  return CheckDescriptor(file, archive->directory, entry, payload);
}

// `with_headers`: look at the local headers in the sample, too.
absl::StatusOr<TorchArchive> ReadArchive(ByteSource& file, bool with_headers) {
  TorchArchive archive;
  CAIRN_ASSIGN_OR_RETURN(archive.directory, FindZipDirectory(file));
  const LocalHeaderSample sample(archive.directory);
  uint64_t index = 0;
  CAIRN_RETURN_IF_ERROR(
      ForEachZipEntry(file, archive.directory, [&](const ZipEntry& entry) {
        return VisitEntry(file, with_headers && sample.Has(index++), entry,
                          &archive);
      }));
  if (!archive.has_pickle || !archive.has_version) {
    return Flaw(archive.directory.offset,
                fmt::format("the archive lacks the record {}",
                            archive.has_pickle ? "version" : "data.pkl"));
  }
  return archive;
}

absl::StatusOr<std::string> ReadPickle(ByteSource& file,
                                       const TorchArchive& archive) {
  if (archive.pickle_bytes > kDataPickleBytesMax) {
    return absl::ResourceExhaustedError(fmt::format(
        "a data.pkl of more than {} bytes is not read", kDataPickleBytesMax));
  }
  CAIRN_ASSIGN_OR_RETURN(
      std::string content,
      ReadPiece(file, archive.pickle_offset, archive.pickle_bytes));
  // torch can be told not to compute any (then 0 is recorded).
  if (archive.pickle_crc32 != 0 &&
      Crc32(AsBytes(content)) != archive.pickle_crc32) {
    return Flaw(archive.pickle_offset,
                "the content of data.pkl does not match its CRC-32");
  }
  return content;
}

// Bytes per element of a storage class of torch; 0 for one not known.
uint64_t StorageElementBytes(std::string_view class_name) {
  static constexpr std::pair<std::string_view, uint64_t> kSizes[] = {
      {"UntypedStorage", 1},  {"ByteStorage", 1},
      {"CharStorage", 1},     {"BoolStorage", 1},
      {"ShortStorage", 2},    {"HalfStorage", 2},
      {"BFloat16Storage", 2}, {"IntStorage", 4},
      {"FloatStorage", 4},    {"LongStorage", 8},
      {"DoubleStorage", 8},   {"ComplexFloatStorage", 8},
      {"QUInt8Storage", 1},   {"ComplexDoubleStorage", 16},
      {"QInt8Storage", 1},    {"QInt32Storage", 4},
      {"QUInt4x2Storage", 1}, {"QUInt2x4Storage", 1},
  };
  for (const auto& [name, size] : kSizes) {
    if (name == class_name) return size;
  }
  return 0;
}

// Every storage is there, and as long as the pickle says.
absl::Status CheckStorages(ByteSource& file, const TorchArchive& archive,
                           const std::string& content) {
  const auto pickle = Pickle::Parse(content);
  if (absl::IsDataLoss(pickle.status()) ||
      absl::IsOutOfRange(pickle.status())) {
    return Flaw(archive.pickle_offset,
                "data.pkl is no pickle: " + Message(pickle.status()));
  }
  // Beyond what the parser reads: nothing more can be said.
  if (!pickle.ok()) return absl::OkStatus();
  StorageSizes missing = CollectStorages(*pickle);
  const std::string prefix = archive.prefix + "data/";
  CAIRN_RETURN_IF_ERROR(
      ForEachZipEntry(file, archive.directory, [&](const ZipEntry& entry) {
        std::string_view key = entry.name;
        if (!SkipPrefix(prefix, &key)) return absl::OkStatus();
        const auto found = missing.find(key);
        if (found == missing.end()) return absl::OkStatus();
        if (!found->second.Fits(entry.uncompressed_bytes)) {
          return Flaw(
              entry.header_offset,
              fmt::format("storage {} has {} bytes, but data.pkl says "
                          "{} elements of {} bytes",
                          ShownName(key), entry.uncompressed_bytes,
                          found->second.numel, found->second.element_bytes));
        }
        missing.erase(found);
        return absl::OkStatus();
      }));
  if (missing.empty()) return absl::OkStatus();
  return Flaw(archive.pickle_header_offset,
              fmt::format("data.pkl refers to {} storages that the archive "
                          "lacks, among them {}",
                          missing.size(), ShownName(missing.begin()->first)));
}

}  // namespace

StorageSizes CollectStorages(const Pickle& pickle) {
  StorageSizes storages;
  pickle.ForEachPersistentId([&](Pickle::Ref id) {
    if (pickle.TupleSize(id) < 5 ||
        pickle.AsString(*pickle.TupleItem(id, 0)) != "storage") {
      return true;
    }
    const auto name = pickle.NameOf(*pickle.TupleItem(id, 1));
    const auto key = pickle.AsString(*pickle.TupleItem(id, 2));
    const auto numel = pickle.AsInt(*pickle.TupleItem(id, 4));
    if (!name.has_value() || !key.has_value() || !numel.has_value() ||
        *numel < 0) {
      return true;
    }
    storages[*key] = {static_cast<uint64_t>(*numel),
                      StorageElementBytes(name->name)};
    return true;
  });
  return storages;
}

absl::Status CheckTorchZip(ByteSource& file) {
  CAIRN_ASSIGN_OR_RETURN(const TorchArchive archive,
                         ReadArchive(file, /*with_headers=*/true));
  if (archive.pickle_bytes > kDataPickleBytesMax) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(const std::string content, ReadPickle(file, archive));
  if (archive.is_script) return absl::OkStatus();
  return CheckStorages(file, archive, content);
}

absl::StatusOr<std::string> ReadTorchZipPickle(ByteSource& file) {
  CAIRN_ASSIGN_OR_RETURN(const TorchArchive archive,
                         ReadArchive(file, /*with_headers=*/false));
  return ReadPickle(file, archive);
}

}  // namespace cairn
