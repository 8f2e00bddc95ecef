// DecodeManifest: reads a manifest line by line and believes nothing: every
// value is checked for its type and range, every node by the rules of
// docs/format.md against those before it, and all lines by the digest in the
// last.

#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/digest.h"
#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "catalog/compressed_lines.h"
#include "catalog/json_line.h"
#include "catalog/manifest.h"
#include "catalog/manifest_check.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr size_t kSha256Digits = 64;
constexpr size_t kCrc64Digits = 16;

enum HeadKey : size_t {
  kCairn,
  kVersion,
  kRun,
  kName,
  kLayout,
  kSequence,
  kGeneration,
  kFramework,
  kStep,
  kEpoch,
  kCreated,
  kMarkerMtime,
  kMarker,
  kOrigin,
  kLabels,
  kPointers
};
constexpr std::string_view kHeadKeys[] = {
    "cairn",  "version",  "run",        "name",
    "layout", "sequence", "generation", "framework",
    "step",   "epoch",    "created_ns", "marker_mtime_ns",
    "marker", "origin",   "labels",     "pointers"};

// Of nodes and of the tail, which "end" tells apart.
enum NodeKey : size_t {
  kPath,
  kType,
  kMode,
  kUid,
  kGid,
  kMtime,
  kTarget,
  kSize,
  kCrc64,
  kSha256,
  kExtents,
  kKey,
  kEnd,
  kLineCount,
  kFileCount,
  kByteCount
};
constexpr std::string_view kNodeKeys[] = {
    "path",  "type",   "mode",    "uid", "gid", "mtime_ns", "target", "size",
    "crc64", "sha256", "extents", "key", "end", "lines",    "files",  "bytes"};

absl::Status AsDataLoss(const absl::Status& status) {
  return status.ok() ? status : absl::DataLossError(Message(status));
}

absl::StatusOr<ManifestNodeType> NodeType(const JsonLine& line) {
  CAIRN_ASSIGN_OR_RETURN(const std::string_view name, line.Text(kType));
  if (name == "file") return ManifestNodeType::kFile;
  if (name == "directory") return ManifestNodeType::kDirectory;
  if (name == "symlink") return ManifestNodeType::kSymlink;
  if (name == "hardlink") return ManifestNodeType::kHardLink;
  return line.Fault(kType, "is none of file, directory, symlink, hardlink");
}

absl::StatusOr<uint32_t> Mode(const JsonLine& line) {
  CAIRN_ASSIGN_OR_RETURN(const std::string_view text, line.Text(kMode));
  const bool is_sound =
      text.size() == 4 &&
      text.find_first_not_of("01234567") == std::string_view::npos;
  if (!is_sound) return line.Fault(kMode, "is not four octal digits");
  uint32_t mode = 0;
  for (const char digit : text) {
    mode = mode << 3 | static_cast<uint32_t>(digit - '0');
  }
  return mode;
}

absl::StatusOr<std::optional<int64_t>> OptionalInteger(const JsonLine& line,
                                                       size_t key) {
  if (!line.Has(key)) return std::nullopt;
  return line.Integer(key);
}

// kUnimplemented if a newer cairn wrote it.
absl::Status CheckVersion(const JsonLine& line) {
  absl::StatusOr<std::string_view> magic = line.Text(kCairn);
  if (!magic.ok() || *magic != "manifest") {
    return absl::DataLossError("not the head of a cairn manifest");
  }
  CAIRN_ASSIGN_OR_RETURN(const uint64_t version,
                         line.Unsigned(kVersion, kInt64Max));
  if (version > kManifestVersion) {
    return absl::UnimplementedError(fmt::format(
        "manifest version {} was written by a newer cairn; this one reads "
        "version {}: use the newer one",
        version, kManifestVersion));
  }
  if (version < 1) return line.Fault(kVersion, "is 0; the first is 1");
  return absl::OkStatus();
}

absl::Status ReadLayout(const JsonLine& line, ManifestHead* head) {
  CAIRN_ASSIGN_OR_RETURN(const std::string_view layout, line.Text(kLayout));
  head->is_directory = layout == "directory";
  if (head->is_directory || layout == "files") return absl::OkStatus();
  return line.Fault(kLayout, "is neither directory nor files");
}

absl::Status ReadLists(const JsonLine& line, ManifestHead* head) {
  CAIRN_ASSIGN_OR_RETURN(const auto labels, line.TextObject(kLabels));
  for (size_t i = 0; i < labels.size(); i += 2) {
    if (!head->labels.emplace(labels[i], labels[i + 1]).second) {
      return line.Fault(kLabels, "has a key twice");
    }
  }
  CAIRN_ASSIGN_OR_RETURN(const auto pointers, line.TextPairs(kPointers));
  for (size_t i = 0; i < pointers.size(); i += 2) {
    absl::StatusOr<std::string> path = UnescapeName(pointers[i]);
    absl::StatusOr<std::string> content = UnescapeName(pointers[i + 1]);
    if (!path.ok() || !content.ok()) {
      return line.Fault(kPointers, "is not in the escaped form of names");
    }
    head->pointers.emplace_back(*std::move(path), *std::move(content));
  }
  return absl::OkStatus();
}

absl::StatusOr<ManifestHead> DecodeHead(const JsonLine& line) {
  CAIRN_RETURN_IF_ERROR(CheckVersion(line));
  ManifestHead head;
  CAIRN_ASSIGN_OR_RETURN(head.run, line.Name(kRun));
  CAIRN_ASSIGN_OR_RETURN(head.name, line.Name(kName));
  CAIRN_RETURN_IF_ERROR(ReadLayout(line, &head));
  CAIRN_ASSIGN_OR_RETURN(head.sequence, line.Unsigned(kSequence, kInt64Max));
  CAIRN_ASSIGN_OR_RETURN(head.generation, line.Text(kGeneration));
  CAIRN_ASSIGN_OR_RETURN(head.framework, line.Name(kFramework));
  CAIRN_ASSIGN_OR_RETURN(head.step, OptionalInteger(line, kStep));
  CAIRN_ASSIGN_OR_RETURN(head.epoch, OptionalInteger(line, kEpoch));
  CAIRN_ASSIGN_OR_RETURN(head.created_ns, line.Integer(kCreated));
  CAIRN_ASSIGN_OR_RETURN(head.marker_mtime_ns, line.Integer(kMarkerMtime));
  CAIRN_ASSIGN_OR_RETURN(head.marker, line.Name(kMarker));
  CAIRN_ASSIGN_OR_RETURN(head.origin, line.Name(kOrigin));
  CAIRN_RETURN_IF_ERROR(ReadLists(line, &head));
  return head;
}

absl::Status ReadDigests(const JsonLine& line, ManifestNode* node) {
  if (!line.Has(kCrc64)) {
    if (line.Has(kSha256)) return line.Fault(kSha256, "is there without crc64");
    return absl::OkStatus();
  }
  const uint64_t count = DigestBlockCount(node->size_bytes);
  CAIRN_ASSIGN_OR_RETURN(const std::string_view crc64, line.Text(kCrc64));
  // Memory is asked for only now that the digits are known to be there.
  if (count == 0 || crc64.size() / kCrc64Digits != count ||
      crc64.size() % kCrc64Digits != 0) {
    return line.Fault(kCrc64, fmt::format("has {} digits for {} blocks",
                                          crc64.size(), count));
  }
  std::string_view sha256;
  if (line.Has(kSha256)) {
    CAIRN_ASSIGN_OR_RETURN(sha256, line.Text(kSha256));
    if (sha256.size() != kSha256Digits * count) {
      return line.Fault(kSha256, fmt::format("has {} digits for {} blocks",
                                             sha256.size(), count));
    }
  }
  node->blocks.resize(count);
  for (size_t i = 0; i < count; ++i) {
    BlockDigest& block = node->blocks[i];
    CAIRN_ASSIGN_OR_RETURN(
        block.crc64_nvme,
        Crc64FromHex(crc64.substr(kCrc64Digits * i, kCrc64Digits)));
    if (sha256.empty()) continue;
    const auto digits = sha256.substr(kSha256Digits * i, kSha256Digits);
    if (digits.find_first_not_of('-') == std::string_view::npos) continue;
    CAIRN_ASSIGN_OR_RETURN(block.sha256, Sha256FromHex(digits));
  }
  return absl::OkStatus();
}

absl::Status ReadExtents(const JsonLine& line, ManifestNode* node) {
  if (!line.Has(kExtents)) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(const auto numbers, line.Unsigneds(kExtents));
  if (numbers.size() % 2 != 0) return line.Fault(kExtents, "is not in pairs");
  auto& extents = node->extents.emplace();
  extents.reserve(numbers.size() / 2);
  for (size_t i = 0; i < numbers.size(); i += 2) {
    extents.push_back({numbers[i], numbers[i + 1]});
  }
  return absl::OkStatus();
}

absl::StatusOr<ManifestNode> DecodeNode(const JsonLine& line) {
  constexpr uint64_t kIdMax = std::numeric_limits<uint32_t>::max();
  ManifestNode node;
  CAIRN_ASSIGN_OR_RETURN(node.path, line.Name(kPath));
  CAIRN_ASSIGN_OR_RETURN(node.type, NodeType(line));
  CAIRN_ASSIGN_OR_RETURN(node.mode, Mode(line));
  CAIRN_ASSIGN_OR_RETURN(const uint64_t uid, line.Unsigned(kUid, kIdMax));
  CAIRN_ASSIGN_OR_RETURN(const uint64_t gid, line.Unsigned(kGid, kIdMax));
  node.uid = static_cast<uint32_t>(uid);
  node.gid = static_cast<uint32_t>(gid);
  CAIRN_ASSIGN_OR_RETURN(node.mtime_ns, line.Integer(kMtime));
  const bool is_file = node.type == ManifestNodeType::kFile;
  const bool is_link = !is_file && node.type != ManifestNodeType::kDirectory;
  if (is_link) {
    CAIRN_ASSIGN_OR_RETURN(node.target, line.Name(kTarget));
  } else if (line.Has(kTarget)) {
    return line.Fault(kTarget, "is there for what is no link");
  }
  if (!is_file) {
    for (const size_t key : {kSize, kCrc64, kSha256, kExtents, kKey}) {
      if (line.Has(key)) return line.Fault(key, "is there for what is no file");
    }
    return node;
  }
  CAIRN_ASSIGN_OR_RETURN(node.size_bytes, line.Unsigned(kSize, kInt64Max));
  CAIRN_RETURN_IF_ERROR(ReadDigests(line, &node));
  CAIRN_RETURN_IF_ERROR(ReadExtents(line, &node));
  if (line.Has(kKey)) {
    CAIRN_ASSIGN_OR_RETURN(node.key, line.Name(kKey));
    if (node.key.empty()) return line.Fault(kKey, "is empty");
  }
  return node;
}

// Goes through the lines of one manifest, once.
class Decoder {
 public:
  explicit Decoder(ByteView encoded) : lines_(encoded) {}

  absl::StatusOr<Manifest> Run() {
    absl::Status status = ReadAll();
    if (!status.ok()) {
      return Annotate(status, fmt::format("manifest line {}", line_number_));
    }
    return std::move(manifest_);
  }

 private:
  absl::StatusOr<std::string_view> NextLine() {
    ++line_number_;
    CAIRN_ASSIGN_OR_RETURN(const auto line, lines_.Next());
    if (line.has_value()) return *line;
    return absl::DataLossError("cut: the last line is missing");
  }

  void Hash(std::string_view line) {
    hasher_.Update(AsBytes(line));
    hasher_.Update(AsBytes("\n"));
  }

  absl::Status ReadAll() {
    CAIRN_ASSIGN_OR_RETURN(const std::string_view head_line, NextLine());
    JsonLine head(kHeadKeys);
    CAIRN_RETURN_IF_ERROR(head.Parse(head_line));
    CAIRN_ASSIGN_OR_RETURN(manifest_.head, DecodeHead(head));
    CAIRN_RETURN_IF_ERROR(AsDataLoss(checker_.CheckHead()));
    Hash(head_line);
    JsonLine json(kNodeKeys);
    while (true) {
      CAIRN_ASSIGN_OR_RETURN(const std::string_view line, NextLine());
      CAIRN_RETURN_IF_ERROR(json.Parse(line));
      if (json.Has(kEnd)) return CheckTail(json);
      absl::StatusOr<ManifestNode> node = DecodeNode(json);
      if (!node.ok()) return AsDataLoss(node.status());
      manifest_.nodes.push_back(*std::move(node));
      CAIRN_RETURN_IF_ERROR(AsDataLoss(checker_.CheckNextNode()));
      Hash(line);
    }
  }

  absl::Status CheckTail(const JsonLine& tail) {
    CAIRN_ASSIGN_OR_RETURN(const bool end, tail.Bool(kEnd));
    if (!end) return tail.Fault(kEnd, "is not true");
    const std::pair<size_t, uint64_t> counts[] = {
        {kLineCount, line_number_ - 1},
        {kFileCount, checker_.files()},
        {kByteCount, checker_.bytes()}};
    for (const auto& [key, counted] : counts) {
      CAIRN_ASSIGN_OR_RETURN(const uint64_t recorded,
                             tail.Unsigned(key, kInt64Max));
      if (recorded == counted) continue;
      return tail.Fault(
          key, fmt::format("is {}, but there are {}", recorded, counted));
    }
    CAIRN_ASSIGN_OR_RETURN(const std::string_view recorded, tail.Text(kSha256));
    if (recorded != ToHex(hasher_.Finish())) {
      return tail.Fault(kSha256, "is not that of the lines before it");
    }
    CAIRN_ASSIGN_OR_RETURN(const auto more, lines_.Next());
    if (!more.has_value()) return absl::OkStatus();
    return absl::DataLossError("something follows the last line");
  }

  LineDecompressor lines_;
  Sha256Hasher hasher_;
  Manifest manifest_;
  ManifestChecker checker_{manifest_};
  uint64_t line_number_ = 0;
};

}  // namespace

absl::StatusOr<Manifest> DecodeManifest(ByteView encoded) {
  return Decoder(encoded).Run();
}

}  // namespace cairn
