// EncodeManifest: checks a manifest by the rules of docs/format.md, then writes
// it line by line into the compressor, so that only one line is in memory as
// text.

#include <string>
#include <utility>

#include "base/digest.h"
#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "catalog/compressed_lines.h"
#include "catalog/manifest.h"
#include "catalog/manifest_check.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace cairn {

namespace {

// Keeps the order of insertion, so code here inserts keys in byte order: it is
// several times as fast as the sorting kind.
using Json = nlohmann::ordered_json;

constexpr size_t kSha256Digits = 64;
constexpr size_t kCrc64Digits = 16;

const char* TypeName(ManifestNodeType type) {
  switch (type) {
    case ManifestNodeType::kFile:
      return "file";
    case ManifestNodeType::kDirectory:
      return "directory";
    case ManifestNodeType::kSymlink:
      return "symlink";
    case ManifestNodeType::kHardLink:
      return "hardlink";
  }
  return "";
}

// One line for the compressor and the digest in the tail.
class Lines {
 public:
  void Append(const Json& line) {
    const std::string text = line.dump();
    compressor_.Append(text);
    hasher_.Update(AsBytes(text));
    hasher_.Update(AsBytes("\n"));
    ++count_;
  }

  absl::StatusOr<std::string> Finish(uint64_t files, uint64_t bytes) {
    Json tail;
    tail["bytes"] = bytes;
    tail["end"] = true;
    tail["files"] = files;
    tail["lines"] = count_;
    tail["sha256"] = ToHex(hasher_.Finish());
    compressor_.Append(tail.dump());
    return compressor_.Finish();
  }

 private:
  LineCompressor compressor_;
  Sha256Hasher hasher_;
  uint64_t count_ = 0;
};

Json EncodeHead(const ManifestHead& head) {
  Json line;
  line["cairn"] = "manifest";
  line["created_ns"] = head.created_ns;
  if (head.epoch.has_value()) line["epoch"] = *head.epoch;
  line["framework"] = EscapeName(head.framework);
  line["generation"] = head.generation;
  Json& labels = line["labels"] = Json::object();
  for (const auto& [name, value] : head.labels) labels[name] = value;
  line["layout"] = head.is_directory ? "directory" : "files";
  line["marker"] = EscapeName(head.marker);
  line["marker_mtime_ns"] = head.marker_mtime_ns;
  line["name"] = EscapeName(head.name);
  line["origin"] = EscapeName(head.origin);
  Json& pointers = line["pointers"] = Json::array();
  for (const auto& [path, content] : head.pointers) {
    pointers.push_back(Json::array({EscapeName(path), EscapeName(content)}));
  }
  line["run"] = EscapeName(head.run);
  line["sequence"] = head.sequence;
  if (head.step.has_value()) line["step"] = *head.step;
  line["version"] = kManifestVersion;
  return line;
}

std::string Crc64Text(const ManifestNode& node) {
  std::string text;
  text.reserve(kCrc64Digits * node.blocks.size());
  for (const BlockDigest& block : node.blocks) text += ToHex(block.crc64_nvme);
  return text;
}

// "" if no block has one.
std::string Sha256Text(const ManifestNode& node) {
  std::string text;
  text.reserve(kSha256Digits * node.blocks.size());
  bool has_any = false;
  for (const BlockDigest& block : node.blocks) {
    has_any = has_any || block.sha256.has_value();
    if (block.sha256.has_value()) {
      text += ToHex(*block.sha256);
    } else {
      text.append(kSha256Digits, '-');
    }
  }
  return has_any ? text : "";
}

Json EncodeNode(const ManifestNode& node) {
  constexpr size_t kKeysMax = 12;
  Json line = Json::object();
  line.get_ref<Json::object_t&>().reserve(kKeysMax);
  std::string crc64 = Crc64Text(node);
  if (!crc64.empty()) line["crc64"] = std::move(crc64);
  if (node.extents.has_value()) {
    Json& extents = line["extents"] = Json::array();
    for (const ManifestExtent& extent : *node.extents) {
      extents.push_back(extent.offset);
      extents.push_back(extent.size_bytes);
    }
  }
  line["gid"] = node.gid;
  if (!node.key.empty()) line["key"] = EscapeName(node.key);
  line["mode"] = fmt::format("{:04o}", node.mode);
  line["mtime_ns"] = node.mtime_ns;
  line["path"] = EscapeName(node.path);
  std::string sha256 = Sha256Text(node);
  if (!sha256.empty()) line["sha256"] = std::move(sha256);
  if (node.type == ManifestNodeType::kFile) line["size"] = node.size_bytes;
  if (!node.target.empty()) line["target"] = EscapeName(node.target);
  line["type"] = TypeName(node.type);
  line["uid"] = node.uid;
  return line;
}

absl::StatusOr<std::string> EncodeChecked(const Manifest& manifest) {
  ManifestChecker checker(manifest);
  CAIRN_RETURN_IF_ERROR(checker.CheckHead());
  Lines lines;
  try {
    lines.Append(EncodeHead(manifest.head));
  } catch (const Json::exception&) {
    // All other text of the head is UTF-8 by its escaping.
    return absl::InvalidArgumentError("a label is not UTF-8 text");
  }
  for (const ManifestNode& node : manifest.nodes) {
    CAIRN_RETURN_IF_ERROR(checker.CheckNextNode());
    lines.Append(EncodeNode(node));
  }
  return lines.Finish(checker.files(), checker.bytes());
}

}  // namespace

absl::StatusOr<std::string> EncodeManifest(const Manifest& manifest) {
  absl::StatusOr<std::string> encoded = EncodeChecked(manifest);
  if (encoded.ok()) return encoded;
  return Annotate(encoded.status(),
                  fmt::format("checkpoint {} cannot be recorded",
                              EscapeName(manifest.CheckpointPath())));
}

}  // namespace cairn
