// The `.metadata` of torch.distributed.checkpoint: a pickled Metadata, of which
// storage_data is a dict from MetadataIndex to
// _StorageInfo(relative_path, offset, length, ...). Other objects in it are of
// no interest, whatever their class.

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/posix.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "format/pickle.h"
#include "format/structure.h"
#include "format/wire.h"

namespace cairn {
namespace {

// A real item takes over a hundred bytes in the file, its path included (which
// the pickle need not repeat). Fewer would only come of values used again and
// again to make a small file stand for a huge table.
constexpr uint64_t kItemBytesMin = 32;
constexpr uint64_t kPathBytesPerFileByte = 2;

absl::Status BadItem(size_t index, std::string_view what) {
  return absl::DataLossError(
      fmt::format("item {} of storage_data {}", index, what));
}

absl::StatusOr<DcpExtent> ReadExtent(const Pickle& pickle, Pickle::Ref info,
                                     size_t index) {
  std::optional<std::string_view> path;
  std::optional<int64_t> offset;
  std::optional<int64_t> length;
  if (const auto value = pickle.Attribute(info, "relative_path")) {
    path = pickle.AsString(*value);
  }
  if (const auto value = pickle.Attribute(info, "offset")) {
    offset = pickle.AsInt(*value);
  }
  if (const auto value = pickle.Attribute(info, "length")) {
    length = pickle.AsInt(*value);
  }
  if (!path.has_value() || !offset.has_value() || !length.has_value()) {
    return BadItem(index, "lacks its path, offset or length");
  }
  if (!IsPlainRelativePath(*path)) {
    return BadItem(index, fmt::format("has the path {}, which leads out of the "
                                      "checkpoint",
                                      ShownName(*path)));
  }
  if (*offset < 0 || *length < 0) {
    return BadItem(index, "has a negative offset or length");
  }
  return DcpExtent{std::string(*path), static_cast<uint64_t>(*offset),
                   static_cast<uint64_t>(*length)};
}

absl::StatusOr<DcpMetadata> ReadExtents(const Pickle& pickle) {
  const auto name = pickle.NameOf(pickle.root());
  if (!name.has_value() || name->name != "Metadata") {
    return Flaw(0, "the pickle holds no DCP Metadata");
  }
  const auto storage_data = pickle.Attribute(pickle.root(), "storage_data");
  if (!storage_data.has_value() ||
      pickle.KindOf(*storage_data) != Pickle::Kind::kDict) {
    return Flaw(0, "the DCP Metadata has no storage_data");
  }
  DcpMetadata metadata;
  if (const auto version = pickle.Attribute(pickle.root(), "version")) {
    metadata.version = pickle.AsString(*version).value_or("");
  }
  const uint64_t size = pickle.consumed_bytes();
  uint64_t path_bytes = 0;
  absl::Status status;
  pickle.ForEachPair(*storage_data, [&](Pickle::Ref, Pickle::Ref info) {
    auto extent = ReadExtent(pickle, info, metadata.extents.size());
    if (!extent.ok()) {
      status = extent.status();
      return false;
    }
    path_bytes += extent->relative_path.size();
    metadata.extents.push_back(*std::move(extent));
    if (metadata.extents.size() > size / kItemBytesMin ||
        path_bytes > size * kPathBytesPerFileByte) {
      status = Flaw(0, "storage_data is larger than the file can hold");
    }
    return status.ok();
  });
  if (!status.ok()) return status;
  return metadata;
}

}  // namespace

absl::StatusOr<DcpMetadata> ReadDcpMetadata(ByteSource& file) {
  const uint64_t size = file.SizeBytes();
  if (size > kPickleBytesMax) {
    return absl::ResourceExhaustedError(fmt::format(
        "a .metadata of more than {} bytes is not read", kPickleBytesMax));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string content, ReadPiece(file, 0, size));
  const auto pickle = Pickle::Parse(content);
  if (!pickle.ok()) {
    if (absl::IsResourceExhausted(pickle.status())) return pickle.status();
    return absl::DataLossError(Message(pickle.status()));
  }
  if (pickle->consumed_bytes() != size) {
    return Flaw(pickle->consumed_bytes(),
                fmt::format("{} bytes behind the end of the pickle: a shorter "
                            "one was written over a longer one",
                            size - pickle->consumed_bytes()));
  }
  return ReadExtents(*pickle);
}

}  // namespace cairn
