#include "engine/checkpoint_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"

namespace cairn {
namespace {

ManifestNodeType ToManifestType(NodeType type) {
  switch (type) {
    case NodeType::kDirectory:
      return ManifestNodeType::kDirectory;
    case NodeType::kSymlink:
      return ManifestNodeType::kSymlink;
    default:
      return ManifestNodeType::kFile;
  }
}

void SortByPath(std::vector<LiveNode>& nodes) {
  std::sort(
      nodes.begin(), nodes.end(),
      [](const LiveNode& a, const LiveNode& b) { return a.path < b.path; });
}

template <typename T>
void HashInteger(Sha256Hasher& hasher, T value) {
  hasher.Update(std::as_bytes(std::span(&value, 1)));
}

// The extents of a file that has fewer blocks than bytes; nullopt: no holes.
absl::StatusOr<std::optional<std::vector<ManifestExtent>>> ExtentsOf(
    const Root& root, const std::string& path, const NodeStat& stat) {
  if (stat.allocated_bytes >= stat.size_bytes) return std::nullopt;
  CAIRN_ASSIGN_OR_RETURN(const BlockFile file, root.OpenForRead(path));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<DataExtent> extents,
                         Root::DataExtents(file, stat.size_bytes));
  const bool whole = extents.size() == 1 && extents[0].offset == 0 &&
                     extents[0].size_bytes == stat.size_bytes;
  if (whole) return std::nullopt;
  std::vector<ManifestExtent> result;
  for (const DataExtent& extent : extents) {
    result.push_back({extent.offset, extent.size_bytes});
  }
  return result;
}

}  // namespace

// --- What lies on the accelerator tier ---------------------------------------

std::string CheckpointShape::Base() const {
  return is_directory ? JoinPath(run, name) : run;
}

std::string CheckpointShape::Path() const { return JoinPath(run, name); }

absl::StatusOr<std::vector<LiveNode>> LookAt(const Root& accelerator,
                                             const CheckpointShape& shape) {
  std::vector<LiveNode> nodes;
  if (!shape.is_directory) {
    for (const std::string& file : shape.files) {
      absl::StatusOr<NodeStat> stat =
          accelerator.Stat(JoinPath(shape.run, file));
      if (absl::IsNotFound(stat.status())) continue;
      CAIRN_RETURN_IF_ERROR(stat.status());
      // Where the file was, something else is now: it is gone.
      if (stat->type == NodeType::kDirectory) continue;
      nodes.push_back({file, *stat});
    }
    if (nodes.empty()) {
      return absl::NotFoundError(fmt::format(
          "{} is not on the accelerator tier", EscapeName(shape.Path())));
    }
  } else {
    CAIRN_ASSIGN_OR_RETURN(const NodeStat base, accelerator.Stat(shape.Base()));
    if (base.type != NodeType::kDirectory) {
      return absl::NotFoundError(
          fmt::format("{} is no longer a directory", EscapeName(shape.Path())));
    }
    nodes.push_back({"", base});
    CAIRN_RETURN_IF_ERROR(accelerator.Walk(
        shape.Base(), [&](std::string_view path, const NodeStat& stat) {
          nodes.push_back({std::string(path), stat});
          return absl::OkStatus();
        }));
  }
  SortByPath(nodes);
  return nodes;
}

std::string FingerprintDigest(const std::vector<LiveNode>& nodes) {
  Sha256Hasher hasher;
  for (const LiveNode& node : nodes) {
    HashInteger(hasher, static_cast<uint64_t>(node.path.size()));
    hasher.Update(AsBytes(node.path));
    HashInteger(hasher, static_cast<uint32_t>(node.stat.type));
    if (node.stat.type == NodeType::kDirectory) continue;
    HashInteger(hasher, node.stat.size_bytes);
    HashInteger(hasher, node.stat.mtime_ns);
    HashInteger(hasher, node.stat.ctime_ns);
    HashInteger(hasher, node.stat.inode);
  }
  return ToHex(hasher.Finish());
}

FileFingerprint ToFingerprint(const LiveNode& node, int64_t known_ns) {
  return {.path = node.path,
          .size_bytes = node.stat.size_bytes,
          .mtime_ns = node.stat.mtime_ns,
          .ctime_ns = node.stat.ctime_ns,
          .inode = node.stat.inode,
          .known_ns = known_ns};
}

std::vector<FileFingerprint> ToFingerprints(const std::vector<LiveNode>& nodes,
                                            int64_t known_ns) {
  std::vector<FileFingerprint> result;
  for (const LiveNode& node : nodes) {
    if (node.stat.type == NodeType::kFile) {
      result.push_back(ToFingerprint(node, known_ns));
    }
  }
  return result;
}

bool SameFingerprint(const FileFingerprint& known, const NodeStat& stat) {
  return known.size_bytes == stat.size_bytes &&
         known.mtime_ns == stat.mtime_ns && known.ctime_ns == stat.ctime_ns &&
         known.inode == stat.inode;
}

bool Trusted(const FileFingerprint& known) {
  const int64_t touched = std::max(known.mtime_ns, known.ctime_ns);
  return known.known_ns - touched >= kFingerprintTrustNs;
}

absl::StatusOr<std::vector<ManifestNode>> NodesOf(
    Context& context, const CheckpointShape& shape,
    const std::vector<LiveNode>& live) {
  return NodesIn(context, *context.accelerator, shape.Base(), live);
}

absl::StatusOr<std::vector<ManifestNode>> NodesIn(Context& context,
                                                  const Root& root,
                                                  std::string_view base,
                                                  std::vector<LiveNode> live) {
  SortByPath(live);
  std::map<std::pair<uint64_t, uint64_t>, std::string> first_names;
  std::vector<ManifestNode> nodes;
  for (const LiveNode& node : live) {
    if (node.stat.type == NodeType::kOther) {
      context.observer->OnNotice(fmt::format(
          "{} is neither a file, a directory nor a symlink, and is left out",
          EscapeName(JoinPath(base, node.path))));
      continue;
    }
    ManifestNode entry;
    entry.path = node.path;
    entry.type = ToManifestType(node.stat.type);
    entry.mode = node.stat.mode;
    entry.uid = node.stat.uid;
    entry.gid = node.stat.gid;
    entry.mtime_ns = node.stat.mtime_ns;
    const std::string path = JoinPath(base, node.path);
    if (node.stat.type == NodeType::kSymlink) {
      CAIRN_ASSIGN_OR_RETURN(entry.target, root.ReadLink(path));
    } else if (node.stat.type == NodeType::kFile) {
      entry.size_bytes = node.stat.size_bytes;
      if (node.stat.links > 1) {
        const auto [first, is_new] = first_names.try_emplace(
            {node.stat.device, node.stat.inode}, node.path);
        if (!is_new) {
          entry.type = ManifestNodeType::kHardLink;
          entry.target = first->second;
          entry.size_bytes = 0;
        }
      }
      if (entry.type == ManifestNodeType::kFile) {
        CAIRN_ASSIGN_OR_RETURN(entry.extents, ExtentsOf(root, path, node.stat));
      }
    }
    nodes.push_back(std::move(entry));
  }
  return nodes;
}

// --- Keys on the core tier ---------------------------------------------------

std::string NaturalKey(const Manifest& manifest, const ManifestNode& node) {
  return JoinPath(manifest.BasePath(), node.path);
}

std::string KeyOf(const Manifest& manifest, const ManifestNode& node) {
  return node.key.empty() ? NaturalKey(manifest, node) : node.key;
}

bool IsNaturalKeySafe(std::string_view key) {
  constexpr size_t kComponentBytesMax = 255;
  if (key.empty() || key.size() > kKeyBytesMax) return false;
  std::string escaped_percent;
  for (const char c : key) {
    if (c == '\\') return false;  // Azure takes it for a slash.
    escaped_percent += c == '%' ? std::string("%25") : std::string(1, c);
  }
  if (EscapeName(key) != escaped_percent) return false;
  size_t begin = 0;
  while (begin <= key.size()) {
    const size_t end = std::min(key.find('/', begin), key.size());
    const std::string_view component = key.substr(begin, end - begin);
    if (component.empty() || component.size() > kComponentBytesMax ||
        component.back() == '.') {
      return false;
    }
    if (begin == 0 && component == ".cairn") return false;
    begin = end + 1;
  }
  return true;
}

// --- Records
// -------------------------------------------------------------------

CheckpointShape ShapeOf(const Manifest& manifest) {
  CheckpointShape shape{.run = manifest.head.run,
                        .name = manifest.head.name,
                        .is_directory = manifest.head.is_directory,
                        .files = {}};
  if (!shape.is_directory) {
    for (const ManifestNode& node : manifest.nodes) {
      shape.files.push_back(node.path);
    }
  }
  return shape;
}

CheckpointRecord RecordOf(const Manifest& manifest) {
  CheckpointRecord record;
  const ManifestHead& head = manifest.head;
  record.run = head.run;
  record.name = head.name;
  record.is_directory = head.is_directory;
  record.sequence = head.sequence;
  record.generation = head.generation;
  record.framework = head.framework;
  record.step = head.step;
  record.epoch = head.epoch;
  record.files = manifest.FileCount();
  record.bytes = manifest.TotalBytes();
  record.created_ns = head.created_ns;
  record.marker_mtime_ns = head.marker_mtime_ns;
  record.origin = head.origin;
  record.labels = head.labels;
  return record;
}

namespace {

State StateOf(const CheckpointRecord& record) {
  if (record.activity == "exporting") return State::kExporting;
  if (record.activity == "restoring") return State::kRestoring;
  if (!record.core.manifest) return State::kLocal;
  const bool away = record.released && !record.accelerator.present;
  return away ? State::kReleased : State::kArchived;
}

}  // namespace

CheckpointInfo ToInfo(const CheckpointRecord& record, bool newest_generation) {
  CheckpointInfo info;
  info.run = record.run;
  info.name = record.name;
  info.path = JoinPath(record.run, record.name);
  info.framework = record.framework;
  info.step = record.step;
  info.epoch = record.epoch;
  info.sequence = record.sequence;
  info.generation = record.generation;
  info.newest_generation = newest_generation;
  info.files = record.files;
  info.bytes = record.bytes;
  info.created_ns = record.created_ns;
  info.origin = record.origin;
  info.labels = record.labels;
  info.state = StateOf(record);
  info.present = record.accelerator.present;
  info.archived = record.core.manifest;
  info.dirty = record.dirty;
  info.pinned = record.pinned;
  info.hold_until_ns = record.hold_until_ns;
  info.damaged = record.accelerator.damaged || record.core.damaged;
  const bool good_accelerator = record.accelerator.present &&
                                !record.accelerator.damaged && !record.dirty;
  const bool good_core = record.core.manifest && !record.core.damaged;
  info.lost = !good_accelerator && !good_core;
  info.damage = record.accelerator.damage;
  if (!record.core.damage.empty()) {
    if (!info.damage.empty()) info.damage += "; ";
    info.damage += record.core.damage;
  }
  return info;
}

Outcome OutcomeOf(const CheckpointRecord& record, Outcome::Kind kind,
                  std::string message) {
  return {.path = JoinPath(record.run, record.name),
          .generation = record.generation,
          .kind = kind,
          .message = std::move(message)};
}

absl::StatusOr<CheckpointRecord> FindCheckpoint(Context& context,
                                                std::string_view path,
                                                std::string_view generation) {
  const std::string wanted(path);
  const size_t slash = wanted.rfind('/');
  // A name has one component nearly always; a rule of the user's may say more.
  for (size_t cut = slash;; cut = wanted.rfind('/', cut - 1)) {
    const std::string run =
        cut == std::string::npos ? "" : wanted.substr(0, cut);
    const std::string name =
        cut == std::string::npos ? wanted : wanted.substr(cut + 1);
    CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> found,
                           context.catalog->Generations(run, name));
    for (const CheckpointRecord& record : found) {
      if (generation.empty() || record.generation == generation) return record;
    }
    if (cut == std::string::npos || cut == 0) break;
  }
  if (!generation.empty()) {
    return absl::NotFoundError(fmt::format(
        "{} has no generation {}; `cairn show {}` lists those it has",
        EscapeName(path), generation, EscapeName(path)));
  }
  return absl::NotFoundError(fmt::format(
      "{} is no checkpoint that cairn knows; `cairn ls` lists them, and `cairn "
      "scan` looks for new ones",
      EscapeName(path)));
}

absl::StatusOr<std::vector<CheckpointRecord>> FindCheckpoints(
    Context& context, const std::vector<std::string>& paths) {
  std::vector<CheckpointRecord> result;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> all,
                         context.catalog->All());
  std::set<std::string> taken;
  for (const std::string& path : paths) {
    bool matched = false;
    std::set<std::pair<std::string, std::string>> newest_seen;
    for (const CheckpointRecord& record : all) {
      if (!newest_seen.emplace(record.run, record.name).second) continue;
      const std::string whole = JoinPath(record.run, record.name);
      const bool below = path.empty() || path == "." || whole == path ||
                         whole.starts_with(path + "/");
      if (!below) continue;
      matched = true;
      if (taken.insert(record.generation).second) result.push_back(record);
    }
    if (!matched) {
      return absl::NotFoundError(
          fmt::format("{} names no checkpoint, run or prefix that cairn knows; "
                      "`cairn ls` lists them",
                      EscapeName(path)));
    }
  }
  return result;
}

}  // namespace cairn
