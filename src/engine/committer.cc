#include "engine/committer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/escape.h"
#include "base/kill_point.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "engine/locks.h"
#include "engine/root_tree_view.h"
#include "format/structure.h"

namespace cairn {
namespace {

CheckpointShape ShapeOfFinding(const Finding& finding) {
  return {.run = finding.run,
          .name = finding.name,
          .is_directory = finding.layout == Layout::kDirectory,
          .files = finding.files};
}

Manifest ManifestOf(const Finding& finding, std::string_view origin,
                    const std::map<std::string, std::string>& labels,
                    int64_t now_ns) {
  Manifest manifest;
  ManifestHead& head = manifest.head;
  head.run = finding.run;
  head.name = finding.name;
  head.is_directory = finding.layout == Layout::kDirectory;
  head.generation = NewGeneration();
  head.framework = finding.framework;
  head.step = finding.step;
  head.epoch = finding.epoch;
  head.created_ns = now_ns;
  head.marker_mtime_ns = finding.marker_mtime_ns;
  head.marker = finding.marker;
  head.origin = std::string(origin);
  head.labels = labels;
  for (const PointerFile& pointer : finding.pointers) {
    head.pointers.emplace_back(pointer.path, pointer.content);
  }
  return manifest;
}

// Manifests that the catalog does not know: a commit that was killed before it
// was recorded left them, and `head` is of the commit that made up for it. What
// cannot be read is left alone.
absl::Status RemoveUnrecorded(Context& context, const ManifestHead& head) {
  const std::string directory =
      ManifestDirectory(JoinPath(head.run, head.name));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries,
                         context.accelerator->List(directory));
  for (const DirectoryEntry& entry : entries) {
    const absl::StatusOr<ManifestFileId> id = ParseManifestFileName(entry.name);
    if (!id.ok() || id->generation == head.generation) continue;
    CheckpointRecord left;
    left.run = head.run;
    left.name = head.name;
    left.sequence = id->sequence;
    left.generation = id->generation;
    if (!ReadAcceleratorManifest(context, left).ok()) continue;
    CAIRN_RETURN_IF_ERROR(RemoveAcceleratorManifest(context, left));
  }
  return absl::OkStatus();
}

// The other generations of a checkpoint whose files have just been replaced.
absl::Status RetireOthers(Context& context, const ManifestHead& head) {
  CAIRN_ASSIGN_OR_RETURN(std::vector<CheckpointRecord> generations,
                         context.catalog->Generations(head.run, head.name));
  for (CheckpointRecord& other : generations) {
    if (other.generation == head.generation || !other.accelerator.manifest) {
      continue;
    }
    CAIRN_RETURN_IF_ERROR(RemoveAcceleratorManifest(context, other));
    if (!other.core.manifest) {
      CAIRN_RETURN_IF_ERROR(context.catalog->Remove(other.generation));
      continue;
    }
    other.accelerator = {};
    other.dirty = false;
    CAIRN_RETURN_IF_ERROR(context.catalog->Upsert(other));
    CAIRN_RETURN_IF_ERROR(
        context.catalog->SetFingerprints(other.generation, {}, ""));
  }
  return RemoveUnrecorded(context, head);
}

// Only its own commit record says that a directory of no convention is
// complete.
absl::StatusOr<Finding> FindingOnUsersWord(Context& context,
                                           std::string_view path) {
  CAIRN_ASSIGN_OR_RETURN(const NodeStat stat, context.accelerator->Stat(path));
  Finding finding;
  const size_t slash = path.rfind('/');
  finding.run = slash == std::string_view::npos ? "" : path.substr(0, slash);
  finding.name =
      slash == std::string_view::npos ? path : path.substr(slash + 1);
  finding.framework = "adopted";
  finding.verdict = Verdict::kUnknown;
  finding.marker_mtime_ns = stat.mtime_ns;
  if (stat.type == NodeType::kFile) {
    finding.layout = Layout::kFiles;
    finding.files = {finding.name};
  } else if (stat.type != NodeType::kDirectory) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is neither a directory nor a file; a checkpoint is one of these",
        EscapeName(path)));
  }
  return finding;
}

// Files of known formats must be whole, whatever the user says of the rest.
absl::StatusOr<std::string> FirstDamage(Context& context, TreeView& view,
                                        const CheckpointShape& shape) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<LiveNode> live,
                         LookAt(*context.accelerator, shape));
  for (const LiveNode& node : live) {
    if (node.stat.type != NodeType::kFile) continue;
    const std::string path = JoinPath(shape.Base(), node.path);
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source,
                           view.Open(path));
    CAIRN_ASSIGN_OR_RETURN(const StructureReport report,
                           CheckFile(node.path, *source));
    if (!report.status.ok()) {
      return fmt::format("{}: {}", EscapeName(path), Message(report.status));
    }
  }
  return std::string();
}

absl::Status CheckMayCommit(const Finding& finding, std::string_view path,
                            const CommitOptions& options,
                            const std::string& damage) {
  const std::string shown = EscapeName(path);
  if (options.adopt) {
    if (damage.empty() || options.force) return absl::OkStatus();
    return absl::DataLossError(fmt::format(
        "{} was not adopted: {}. If you want it as it is, add --force", shown,
        damage));
  }
  if (finding.verdict == Verdict::kComplete) return absl::OkStatus();
  const std::string why = fmt::format(
      "{} was not committed: {} ({}). `cairn adopt {}` takes it in on your "
      "word",
      shown, finding.reason, VerdictName(finding.verdict), shown);
  if (finding.verdict == Verdict::kDamaged) return absl::DataLossError(why);
  return absl::FailedPreconditionError(why);
}

}  // namespace

absl::StatusOr<uint64_t> NextSequence(Context& context, std::string_view run) {
  CAIRN_ASSIGN_OR_RETURN(const uint64_t largest,
                         context.catalog->LargestSequence(run));
  const int64_t now_us = absl::ToUnixMicros(context.clock->Now());
  return std::max(largest + 1,
                  static_cast<uint64_t>(std::max<int64_t>(now_us, 1)));
}

namespace {

// A generation under the completion marker of the one before, such as one that
// only gained a file, was finished when that one was: it keeps its place in the
// run, right behind it. Everything else is the newest.
absl::StatusOr<uint64_t> SequenceFor(Context& context, const Finding& finding) {
  CAIRN_ASSIGN_OR_RETURN(
      const std::vector<CheckpointRecord> before,
      context.catalog->Generations(finding.run, finding.name));
  const bool same_marker =
      !before.empty() && !finding.marker.empty() &&
      before.front().marker_mtime_ns == finding.marker_mtime_ns &&
      before.front().step == finding.step;
  if (!same_marker) return NextSequence(context, finding.run);
  const uint64_t behind = before.front().sequence + 1;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> run,
                         context.catalog->OfRun(finding.run));
  const bool taken = std::any_of(run.begin(), run.end(), [&](const auto& one) {
    return one.sequence == behind;
  });
  if (taken) return NextSequence(context, finding.run);
  return behind;
}

}  // namespace

absl::Status RecordPresent(Context& context, const Manifest& manifest,
                           const std::vector<LiveNode>& live,
                           int64_t known_ns) {
  CheckpointRecord record = RecordOf(manifest);
  absl::StatusOr<CheckpointRecord> known =
      context.catalog->Get(record.generation);
  if (known.ok()) {
    record.core = known->core;
  } else if (!absl::IsNotFound(known.status())) {
    return known.status();
  }
  CAIRN_ASSIGN_OR_RETURN(record, WithMarks(context, std::move(record)));
  record.accelerator.manifest = true;
  record.accelerator.present = true;
  // First: if this is cut short, the checkpoint looks new, and all of it is
  // done again.
  CAIRN_RETURN_IF_ERROR(RetireOthers(context, manifest.head));
  CAIRN_RETURN_IF_ERROR(context.catalog->Upsert(record));
  return context.catalog->SetFingerprints(record.generation,
                                          ToFingerprints(live, known_ns),
                                          FingerprintDigest(live));
}

absl::StatusOr<CheckpointRecord> CommitFinding(
    Context& context, const Finding& finding, std::string_view origin,
    const std::map<std::string, std::string>& labels) {
  const CheckpointShape shape = ShapeOfFinding(finding);
  Manifest manifest = ManifestOf(finding, origin, labels, context.NowNs());
  const int64_t known_ns = context.NowNs();
  CAIRN_ASSIGN_OR_RETURN(const std::vector<LiveNode> live,
                         LookAt(*context.accelerator, shape));
  CAIRN_ASSIGN_OR_RETURN(manifest.nodes, NodesOf(context, shape, live));
  {
    CAIRN_ASSIGN_OR_RETURN(const Lock lock,
                           Lock::OfCommits(context.options.state_dir));
    CAIRN_ASSIGN_OR_RETURN(manifest.head.sequence,
                           SequenceFor(context, finding));
    CAIRN_KILL_POINT("commit.before_manifest");
    CAIRN_RETURN_IF_ERROR(
        WriteAcceleratorManifest(context, manifest, /*replace=*/false));
    CAIRN_KILL_POINT("commit.after_manifest");
    CAIRN_RETURN_IF_ERROR(RecordPresent(context, manifest, live, known_ns));
  }
  return context.catalog->Get(manifest.head.generation);
}

absl::StatusOr<CheckpointRecord> CommitByHand(Context& context,
                                              std::string_view path,
                                              const CommitOptions& options) {
  CAIRN_RETURN_IF_ERROR(CheckRelativePath(path));
  CAIRN_ASSIGN_OR_RETURN(
      const Lock lock,
      Lock::OfCheckpoint(context.options.state_dir, path, "commit"));
  RootTreeView view(&context);
  absl::StatusOr<Finding> found =
      context.recogniser->ExamineOne(view, path, context.clock->Now());
  if (absl::IsNotFound(found.status())) {
    found = FindingOnUsersWord(context, path);
    if (found.ok()) found->reason = "no framework's rule knows this layout";
  }
  CAIRN_RETURN_IF_ERROR(found.status());
  Finding finding = *std::move(found);
  std::string damage;
  if (finding.verdict == Verdict::kDamaged) damage = finding.reason;
  if (options.adopt && damage.empty()) {
    CAIRN_ASSIGN_OR_RETURN(damage,
                           FirstDamage(context, view, ShapeOfFinding(finding)));
  }
  CAIRN_RETURN_IF_ERROR(CheckMayCommit(finding, path, options, damage));
  if (options.step.has_value()) finding.step = options.step;
  if (options.epoch.has_value()) finding.epoch = options.epoch;
  CAIRN_RETURN_IF_ERROR(context.accelerator->SyncFileSystem());
  return CommitFinding(context, finding, options.adopt ? "adopt" : "commit",
                       options.labels);
}

}  // namespace cairn
