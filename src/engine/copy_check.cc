// What became of a known checkpoint's accelerator copy (scanner.h, CheckCopy).

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "engine/scanner.h"
#include "format/structure.h"
#include "policy/selection.h"

namespace cairn {
namespace {

// The differences between what was committed and what lies there now.
struct Differences {
  std::vector<std::string> vanished;
  std::vector<std::string> added;
  std::vector<std::string> changed;  // Content read, and not equal.
  // Never read, of the size committed, and with another mtime: no content is
  // known that it could be compared with.
  std::vector<std::string> touched;
  std::vector<FileFingerprint>
      known;  // Of what lies there, as known after this.
  uint64_t bytes_read = 0;

  bool none() const { return only_touched() && touched.empty(); }
  bool never_read = false;  // A touched file has no digests to compare with.

  bool only_touched() const {
    return vanished.empty() && added.empty() && changed.empty();
  }
};

bool WasNeverRead(const ManifestNode& node) {
  return node.type == ManifestNodeType::kFile && node.size_bytes > 0 &&
         node.blocks.empty();
}

// Reads `node` again. A file whose content was never digested is taken for
// equal while its size and mtime are those committed: its first digest is made
// by the export, so nothing was promised of its content yet.
absl::StatusOr<bool> IsEqual(Context& context, const ManifestNode& node,
                             const LiveNode& live, const std::string& path,
                             uint64_t* bytes_read) {
  if (node.type == ManifestNodeType::kSymlink) {
    if (live.stat.type != NodeType::kSymlink) return false;
    CAIRN_ASSIGN_OR_RETURN(const std::string target,
                           context.accelerator->ReadLink(path));
    return target == node.target;
  }
  if (live.stat.type != NodeType::kFile) return false;
  if (live.stat.size_bytes != node.size_bytes) return false;
  if (node.blocks.empty()) {
    return node.size_bytes == 0 || live.stat.mtime_ns == node.mtime_ns;
  }
  absl::StatusOr<std::vector<BlockDigest>> blocks =
      DigestFile(context, path, node.size_bytes, nullptr);
  // Cut or unreadable by now: not what was committed.
  if (absl::IsOutOfRange(blocks.status()) ||
      absl::IsDataLoss(blocks.status()) || absl::IsNotFound(blocks.status())) {
    return false;
  }
  CAIRN_RETURN_IF_ERROR(blocks.status());
  *bytes_read += node.size_bytes;
  for (size_t i = 0; i < blocks->size(); ++i) {
    if (!DigestsMatch((*blocks)[i], node.blocks[i])) return false;
  }
  return true;
}

// The content of a hard link is that of its first name.
const ManifestNode& Resolve(
    const std::map<std::string, const ManifestNode*>& nodes,
    const ManifestNode& node) {
  if (node.type != ManifestNodeType::kHardLink) return node;
  const auto first = nodes.find(node.target);
  return first == nodes.end() ? node : *first->second;
}

absl::StatusOr<Differences> Compare(Context& context, const Manifest& manifest,
                                    const std::vector<LiveNode>& live,
                                    const std::vector<FileFingerprint>& known) {
  Differences result;
  std::map<std::string, const ManifestNode*> nodes;
  for (const ManifestNode& node : manifest.nodes) nodes[node.path] = &node;
  std::map<std::string, const FileFingerprint*> fingerprints;
  for (const FileFingerprint& one : known) fingerprints[one.path] = &one;

  std::map<std::string, const ManifestNode*> unseen = nodes;
  for (const LiveNode& node : live) {
    const auto recorded = nodes.find(node.path);
    if (recorded == nodes.end()) {
      if (node.stat.type != NodeType::kOther) result.added.push_back(node.path);
      continue;
    }
    unseen.erase(node.path);
    if (node.stat.type == NodeType::kDirectory) {
      if (recorded->second->type != ManifestNodeType::kDirectory) {
        result.changed.push_back(node.path);
      }
      continue;
    }
    const auto fingerprint = fingerprints.find(node.path);
    if (fingerprint != fingerprints.end() &&
        SameFingerprint(*fingerprint->second, node.stat)) {
      result.known.push_back(*fingerprint->second);
      continue;
    }
    const int64_t began_ns = context.NowNs();
    const std::string path = JoinPath(manifest.BasePath(), node.path);
    const ManifestNode& entry = Resolve(nodes, *recorded->second);
    if (WasNeverRead(entry) && node.stat.type == NodeType::kFile &&
        node.stat.size_bytes == entry.size_bytes &&
        node.stat.mtime_ns != entry.mtime_ns) {
      result.touched.push_back(node.path);
      result.known.push_back(ToFingerprint(node, began_ns));
      continue;
    }
    CAIRN_ASSIGN_OR_RETURN(const bool equal, IsEqual(context, entry, node, path,
                                                     &result.bytes_read));
    if (!equal) {
      result.changed.push_back(node.path);
    } else if (node.stat.type == NodeType::kFile) {
      const ManifestNode& first = Resolve(nodes, *recorded->second);
      result.never_read |= first.size_bytes > 0 && first.blocks.empty();
      result.known.push_back(ToFingerprint(node, began_ns));
    }
  }
  for (const auto& [path, node] : unseen) result.vanished.push_back(path);
  return result;
}

std::string Describe(const Differences& differences) {
  const auto list = [](const std::vector<std::string>& names,
                       std::string_view what) -> std::string {
    if (names.empty()) return "";
    std::string text = fmt::format("{} {}", EscapeName(names.front()), what);
    if (names.size() > 1)
      text += fmt::format(" (and {} more)", names.size() - 1);
    return text;
  };
  std::string result;
  for (const std::string& part :
       {list(differences.changed, "has other content"),
        list(differences.vanished, "is missing"),
        list(differences.touched, "was touched before it was ever read"),
        list(differences.added, "is new")}) {
    if (part.empty()) continue;
    result += result.empty() ? part : ", " + part;
  }
  return result;
}

const LiveNode* FindLive(const std::vector<LiveNode>& live,
                         std::string_view path) {
  const auto at =
      std::find_if(live.begin(), live.end(),
                   [&](const LiveNode& node) { return node.path == path; });
  return at == live.end() ? nullptr : &*at;
}

// Asks the recogniser what lies there now, and the format's own checksums where
// a single file is all there is to go by.
absl::StatusOr<ChangeVerdict> Judge(Context& context, RootTreeView& view,
                                    const Manifest& manifest,
                                    const Differences& differences,
                                    CopyCheck* check) {
  ChangeEvidence evidence;
  absl::StatusOr<Finding> finding = context.recogniser->ExamineOne(
      view, manifest.CheckpointPath(), context.clock->Now());
  if (finding.ok()) {
    evidence.complete = finding->verdict == Verdict::kComplete;
    evidence.malformed = finding->verdict == Verdict::kDamaged;
    check->finding = *std::move(finding);
  } else if (!absl::IsNotFound(finding.status())) {
    return finding.status();
  }
  evidence.content_changed = !differences.changed.empty();
  evidence.files_vanished = !differences.vanished.empty();
  evidence.marker_known = !manifest.head.marker.empty();
  if (evidence.marker_known) {
    const LiveNode* marker = FindLive(check->live, manifest.head.marker);
    evidence.marker_rewritten =
        marker != nullptr &&
        marker->stat.mtime_ns != manifest.head.marker_mtime_ns;
  }
  if (!manifest.head.is_directory) {
    for (const std::string& path : differences.changed) {
      absl::StatusOr<std::unique_ptr<ByteSource>> source =
          view.Open(JoinPath(manifest.BasePath(), path));
      if (!source.ok()) continue;
      absl::Status content = CheckFileChecksums(**source);
      evidence.checksum_failed |= absl::IsDataLoss(content);
    }
  }
  return JudgeChange(evidence);
}

// The right content lies there. It may also be back, whoever brought it: by a
// restore that was killed before it was recorded, or by its owner.
absl::Status Refresh(Context& context, CheckpointRecord record,
                     const Manifest& manifest, const Differences& differences,
                     const CopyCheck& check) {
  if (!record.accelerator.manifest) {
    CAIRN_RETURN_IF_ERROR(context.accelerator->SyncFileSystem());
    CAIRN_RETURN_IF_ERROR(
        WriteAcceleratorManifest(context, manifest, /*replace=*/true));
  }
  if (record.released) {
    CAIRN_RETURN_IF_ERROR(WriteMark(context, manifest.CheckpointPath(),
                                    {.kind = MarkKind::kPresent,
                                     .time_us = 0,
                                     .generation = record.generation,
                                     .until_ns = std::nullopt,
                                     .reason = "found",
                                     .user = ""}));
  }
  const CopyRecord& copy = record.accelerator;
  const bool as_known =
      copy.manifest && copy.present && !copy.damaged && !record.dirty;
  if (!as_known || record.released) {
    record.accelerator.manifest = true;
    record.accelerator.present = true;
    record.accelerator.damaged = false;
    record.accelerator.damage.clear();
    record.dirty = false;
    record.released = false;
    CAIRN_RETURN_IF_ERROR(context.catalog->Upsert(record));
  }
  return context.catalog->SetFingerprints(record.generation, differences.known,
                                          FingerprintDigest(check.live));
}

absl::Status RecordChange(Context& context, CheckpointRecord record,
                          const CopyCheck& check) {
  record.accelerator.present = true;
  record.dirty = check.verdict != CopyVerdict::kDamaged;
  if (check.verdict == CopyVerdict::kDamaged) {
    record.accelerator.damaged = true;
    record.accelerator.damage = "accelerator: " + check.reason;
  }
  CAIRN_RETURN_IF_ERROR(context.catalog->Upsert(record));
  // Without fingerprints of files, the next touch has everything read again.
  return context.catalog->SetFingerprints(record.generation, {},
                                          FingerprintDigest(check.live));
}

// Which files make it up, without reading a manifest where the catalog knows.
absl::StatusOr<CheckpointShape> KnownShape(Context& context,
                                           const CheckpointRecord& record) {
  CheckpointShape shape{.run = record.run,
                        .name = record.name,
                        .is_directory = record.is_directory,
                        .files = {}};
  if (record.is_directory) return shape;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<FileFingerprint> known,
                         context.catalog->GetFingerprints(record.generation));
  for (const FileFingerprint& file : known) shape.files.push_back(file.path);
  if (!known.empty()) return shape;
  CAIRN_ASSIGN_OR_RETURN(const Manifest manifest,
                         ReadBestManifest(context, record));
  return ShapeOf(manifest);
}

// Reads what was touched, judges what is different, and records it.
absl::Status LookClosely(Context& context, RootTreeView& view,
                         const CheckpointRecord& record,
                         const Manifest& manifest, CopyCheck* check) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<FileFingerprint> known,
                         context.catalog->GetFingerprints(record.generation));
  CAIRN_ASSIGN_OR_RETURN(const Differences differences,
                         Compare(context, manifest, check->live, known));
  check->bytes_read = differences.bytes_read;
  if (differences.none()) {
    check->verdict = CopyVerdict::kEqual;
    check->reason =
        differences.never_read
            ? "touched; sizes and times are as committed, and its content was "
              "never read yet"
            : fmt::format(
                  "touched, read again ({} bytes): the content is the "
                  "one committed",
                  differences.bytes_read);
    return Refresh(context, record, manifest, differences, *check);
  }
  CAIRN_ASSIGN_OR_RETURN(const ChangeVerdict verdict,
                         Judge(context, view, manifest, differences, check));
  const std::string what = Describe(differences);
  // Somebody said that it is complete, and no rule says otherwise.
  if (differences.only_touched() && verdict == ChangeVerdict::kWriting &&
      check->finding.verdict == Verdict::kUnknown) {
    check->verdict = CopyVerdict::kEqual;
    check->reason = what;
    return Refresh(context, record, manifest, differences, *check);
  }
  switch (verdict) {
    case ChangeVerdict::kRewritten:
      check->verdict = CopyVerdict::kRewritten;
      check->reason = "rewritten by its owner: " + what;
      return absl::OkStatus();
    case ChangeVerdict::kDamaged:
      check->verdict = CopyVerdict::kDamaged;
      check->reason = what;
      break;
    case ChangeVerdict::kWriting:
      check->verdict = CopyVerdict::kWriting;
      check->reason = "changed, and not complete: " + what;
      break;
  }
  return RecordChange(context, record, *check);
}

}  // namespace

absl::StatusOr<CopyCheck> CheckCopy(Context& context, RootTreeView& view,
                                    const CheckpointRecord& record) {
  CopyCheck check;
  CAIRN_ASSIGN_OR_RETURN(const CheckpointShape shape,
                         KnownShape(context, record));
  absl::StatusOr<std::vector<LiveNode>> live =
      LookAt(*context.accelerator, shape);
  if (absl::IsNotFound(live.status())) {
    check.verdict = CopyVerdict::kAbsent;
    return check;
  }
  CAIRN_RETURN_IF_ERROR(live.status());
  check.live = *std::move(live);
  const bool untouched =
      record.accelerator.present &&
      FingerprintDigest(check.live) == record.accelerator.fingerprint;
  if (untouched && record.accelerator.damaged) {
    check.verdict = CopyVerdict::kDamaged;
    check.reason = record.accelerator.damage;
    return check;
  }
  // What was found changed is looked at again: its rule may take it now.
  if (untouched && !record.dirty) return check;
  CAIRN_ASSIGN_OR_RETURN(const Manifest manifest,
                         ReadBestManifest(context, record));
  CAIRN_RETURN_IF_ERROR(LookClosely(context, view, record, manifest, &check));
  return check;
}

}  // namespace cairn
