#include "engine/releaser.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/escape.h"
#include "base/kill_point.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "engine/checkpoint_files.h"
#include "engine/locks.h"
#include "engine/staging.h"
#include "io/write_lease.h"
#include "policy/selection.h"

namespace cairn {
namespace {

constexpr char kAttempt[] = "release-";  // And the generation.

absl::Status Refuse(std::string why) {
  return absl::FailedPreconditionError("kept: " + std::move(why));
}

// Is the content of `path` (wherever it lies now) still that of `node`?
absl::Status CompareFile(Context& context, const ManifestNode& node,
                         const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<BlockDigest> blocks,
                         DigestFile(context, path, node.size_bytes, nullptr));
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (!DigestsMatch(blocks[i], node.blocks[i])) {
      return Refuse(EscapeName(node.path) +
                    " has changed since it was archived");
    }
  }
  return absl::OkStatus();
}

// Decides for one file that it may go. A lease proves that nobody on this host
// has it open; its absence on this file system is made up for by a grace time
// and a read.
class FileGuard {
 public:
  FileGuard(Context* context, const Manifest* manifest)
      : context_(*context), manifest_(*manifest) {}

  absl::Status Load() {
    CAIRN_ASSIGN_OR_RETURN(
        const std::vector<FileFingerprint> known,
        context_.catalog->GetFingerprints(manifest_.head.generation));
    for (const FileFingerprint& one : known) known_[one.path] = one;
    return absl::OkStatus();
  }

  absl::Status MayGo(const ManifestNode& node) {
    const std::string path = NaturalKey(manifest_, node);
    CAIRN_ASSIGN_OR_RETURN(const NodeStat stat,
                           context_.accelerator->Stat(path));
    if (stat.size_bytes != node.size_bytes) {
      return Refuse(EscapeName(node.path) +
                    " has changed since it was archived");
    }
    bool leased = false;
    {
      // Given back at once: we could not open the file ourselves against it.
      const absl::StatusOr<WriteLease> lease =
          WriteLease::Take(*context_.accelerator, path);
      if (absl::IsFailedPrecondition(lease.status())) {
        return Refuse(EscapeName(node.path) + " is open in another process");
      }
      leased = lease.ok();
      if (!leased && !absl::IsUnavailable(lease.status())) {
        return lease.status();
      }
    }
    if (!leased) CAIRN_RETURN_IF_ERROR(CheckGrace(node, stat));
    const auto known = known_.find(node.path);
    const bool unchanged = known != known_.end() &&
                           SameFingerprint(known->second, stat) &&
                           Trusted(known->second);
    if (leased && unchanged) return absl::OkStatus();
    CAIRN_RETURN_IF_ERROR(CompareFile(context_, node, path));
    CAIRN_ASSIGN_OR_RETURN(const NodeStat now,
                           context_.accelerator->Stat(path));
    if (!SameFingerprint(ToFingerprint({node.path, stat}, 0), now)) {
      return Refuse(EscapeName(node.path) + " was written to just now");
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckGrace(const ManifestNode& node, const NodeStat& stat) {
    const absl::Time touched =
        absl::FromUnixNanos(std::max(stat.mtime_ns, stat.ctime_ns));
    const absl::Duration rested = context_.clock->Now() - touched;
    if (rested >= context_.options.release_grace) return absl::OkStatus();
    return Refuse(
        fmt::format("{} changed {} ago, and this file system cannot tell who "
                    "has it open; it "
                    "may go after {}",
                    EscapeName(node.path), cairn::FormatDuration(rested),
                    cairn::FormatDuration(context_.options.release_grace)));
  }

  Context& context_;
  const Manifest& manifest_;
  std::map<std::string, FileFingerprint> known_;
};

std::vector<std::string> NamesToMove(const Manifest& manifest) {
  if (manifest.head.is_directory) return {""};
  // The framework's marker first: what is left then says that it is incomplete.
  std::vector<std::string> names;
  if (!manifest.head.marker.empty()) names.push_back(manifest.head.marker);
  for (const ManifestNode& node : manifest.nodes) {
    if (node.path != manifest.head.marker) names.push_back(node.path);
  }
  return names;
}

// What is at its goal already stays there: it was moved before, or its owner
// has made a new one meanwhile.
absl::Status MoveAll(const Root& root, const Manifest& manifest,
                     const Staging& staging, bool back) {
  for (const std::string& name : NamesToMove(manifest)) {
    std::string from = JoinPath(manifest.BasePath(), name);
    std::string to = staging.TreePath(name);
    if (back) std::swap(from, to);
    CAIRN_ASSIGN_OR_RETURN(const bool there, root.Exists(from));
    CAIRN_ASSIGN_OR_RETURN(const bool taken, root.Exists(to));
    if (!there || taken) continue;
    const size_t slash = to.rfind('/');
    const std::string parent =
        slash == std::string::npos ? "" : to.substr(0, slash);
    CAIRN_RETURN_IF_ERROR(root.MakeDirectories(parent));
    CAIRN_RETURN_IF_ERROR(root.Rename(from, to, /*replace=*/false));
    CAIRN_KILL_POINT("release.after_rename");
  }
  return root.SyncFileSystem();
}

// A time stamp may be this much older than the write that left it.
constexpr int64_t kTimeStampStepNs = 20'000'000;

// Out of reach of any path, nobody can open the files any more: whoever has one
// open now had it before, and whoever wrote since the guards looked
// (`guarded_ns`) left a newer time stamp.
absl::Status NobodyHasIt(Context& context, const Manifest& manifest,
                         const Staging& staging, int64_t guarded_ns) {
  for (const ManifestNode& node : manifest.nodes) {
    if (node.type != ManifestNodeType::kFile) continue;
    CAIRN_ASSIGN_OR_RETURN(
        const NodeStat stat,
        context.accelerator->Stat(staging.TreePath(node.path)));
    const bool written = stat.mtime_ns > guarded_ns - kTimeStampStepNs &&
                         stat.mtime_ns < context.NowNs() + kTimeStampStepNs;
    if (written || stat.size_bytes != node.size_bytes) {
      return Refuse(EscapeName(node.path) + " was written to just now");
    }
    absl::StatusOr<WriteLease> lease =
        WriteLease::Take(*context.accelerator, staging.TreePath(node.path));
    if (absl::IsFailedPrecondition(lease.status())) {
      return Refuse(EscapeName(node.path) + " is open in another process");
    }
  }
  return absl::OkStatus();
}

Mark MarkOf(MarkKind kind, std::string_view generation, std::string reason) {
  return {.kind = kind,
          .time_us = 0,
          .generation = std::string(generation),
          .until_ns = std::nullopt,
          .reason = std::move(reason),
          .user = ""};
}

// Undoes what a release has done; safe to repeat from any point.
absl::Status GiveUp(Context& context, const CheckpointRecord& record,
                    const Manifest& manifest, Staging& staging,
                    const std::string& why) {
  CAIRN_RETURN_IF_ERROR(
      MoveAll(*context.accelerator, manifest, staging, /*back=*/true));
  CAIRN_RETURN_IF_ERROR(
      WriteAcceleratorManifest(context, manifest, /*replace=*/true));
  CAIRN_RETURN_IF_ERROR(WriteMark(context, manifest.CheckpointPath(),
                                  MarkOf(MarkKind::kPresent, record.generation,
                                         "release given up: " + why)));
  if (record.released || !record.accelerator.present) {
    CheckpointRecord kept = record;
    kept.accelerator.manifest = true;
    kept.accelerator.present = true;  // Its content is looked at when needed.
    kept.released = false;
    CAIRN_RETURN_IF_ERROR(context.catalog->Upsert(kept));
  }
  return staging.Discard();
}

// From the mark and the removed manifest on; safe to repeat from any point.
absl::Status FinishRelease(Context& context, const CheckpointRecord& record,
                           const Manifest& manifest, Staging& staging,
                           int64_t guarded_ns) {
  CAIRN_RETURN_IF_ERROR(
      MoveAll(*context.accelerator, manifest, staging, /*back=*/false));
  absl::Status free = NobodyHasIt(context, manifest, staging, guarded_ns);
  if (!free.ok()) {
    CAIRN_RETURN_IF_ERROR(GiveUp(context, record, manifest, staging, "in use"));
    return free;
  }
  CheckpointRecord released = record;
  released.accelerator = {};
  released.released = true;
  CAIRN_RETURN_IF_ERROR(context.catalog->Upsert(released));
  CAIRN_RETURN_IF_ERROR(
      context.catalog->SetFingerprints(record.generation, {}, ""));
  CAIRN_KILL_POINT("release.before_remove");
  return staging.Discard();
}

absl::Status TakeAway(Context& context, const CheckpointRecord& record,
                      const Manifest& manifest, int64_t guarded_ns) {
  CAIRN_ASSIGN_OR_RETURN(Staging staging,
                         Staging::Take(context, kAttempt + record.generation));
  CAIRN_KILL_POINT("release.before_mark");
  CAIRN_RETURN_IF_ERROR(
      WriteMark(context, manifest.CheckpointPath(),
                MarkOf(MarkKind::kRelease, record.generation, "released")));
  CAIRN_KILL_POINT("release.after_mark");
  CAIRN_RETURN_IF_ERROR(RemoveAcceleratorManifest(context, record));
  CAIRN_KILL_POINT("release.after_manifest");
  return FinishRelease(context, record, manifest, staging, guarded_ns);
}

// How far a release came: what lies at the place, and what in the attempt.
struct Progress {
  bool any_moved = false;
  bool any_at_place = false;
};

absl::StatusOr<Progress> ProgressOf(const Root& root, const Manifest& manifest,
                                    const Staging& staging) {
  Progress progress;
  for (const std::string& name : NamesToMove(manifest)) {
    CAIRN_ASSIGN_OR_RETURN(const bool moved,
                           root.Exists(staging.TreePath(name)));
    CAIRN_ASSIGN_OR_RETURN(const bool at_place,
                           root.Exists(JoinPath(manifest.BasePath(), name)));
    progress.any_moved |= moved;
    progress.any_at_place |= at_place;
  }
  return progress;
}

// Of a checkpoint that is several files: are those still at the place what was
// archived? Its owner may have written there since.
absl::StatusOr<bool> RestIsAsArchived(Context& context,
                                      const Manifest& manifest) {
  if (manifest.head.is_directory) return true;
  for (const ManifestNode& node : manifest.nodes) {
    if (node.type != ManifestNodeType::kFile) continue;
    absl::Status same = CompareFile(context, node, NaturalKey(manifest, node));
    if (absl::IsNotFound(same)) continue;
    if (absl::IsFailedPrecondition(same) || absl::IsOutOfRange(same)) {
      return false;
    }
    CAIRN_RETURN_IF_ERROR(same);
  }
  return true;
}

absl::Status RecoverRelease(Context& context, const std::string& generation) {
  absl::StatusOr<CheckpointRecord> record = context.catalog->Get(generation);
  if (absl::IsNotFound(record.status())) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(record.status());
  const std::string path = JoinPath(record->run, record->name);
  CAIRN_ASSIGN_OR_RETURN(const Lock lock,
                         Lock::OfCheckpoint(context.options.state_dir, path,
                                            "recovery of a release"));
  CAIRN_ASSIGN_OR_RETURN(record, context.catalog->Get(generation));
  CAIRN_ASSIGN_OR_RETURN(Staging staging,
                         Staging::Take(context, kAttempt + generation));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<Mark> marks,
                         ReadMarks(context, path));
  if (!SummariseMarks(marks, generation).released) return staging.Discard();
  CAIRN_ASSIGN_OR_RETURN(const Manifest manifest,
                         ReadCoreManifest(context, *record));
  CAIRN_ASSIGN_OR_RETURN(const Progress progress,
                         ProgressOf(*context.accelerator, manifest, staging));
  if (progress.any_at_place) {
    CAIRN_ASSIGN_OR_RETURN(const bool as_archived,
                           RestIsAsArchived(context, manifest));
    if (!progress.any_moved || !as_archived) {
      return GiveUp(context, *record, manifest, staging, "interrupted");
    }
  }
  // When its guards looked is not known; a write since is told by size alone.
  absl::Status finished = FinishRelease(context, *record, manifest, staging,
                                        std::numeric_limits<int64_t>::max());
  // In use, so it was brought back: as it should be.
  return absl::IsFailedPrecondition(finished) ? absl::OkStatus() : finished;
}

absl::StatusOr<Outcome> TryRelease(Context& context,
                                   const CheckpointRecord& selected,
                                   bool dry_run) {
  const std::string path = JoinPath(selected.run, selected.name);
  CAIRN_ASSIGN_OR_RETURN(
      const Lock lock,
      Lock::OfCheckpoint(context.options.state_dir, path, "release"));
  CAIRN_ASSIGN_OR_RETURN(CheckpointRecord known,
                         context.catalog->Get(selected.generation));
  CAIRN_ASSIGN_OR_RETURN(const CheckpointRecord record,
                         WithMarks(context, std::move(known)));
  if (!record.accelerator.present && record.released) {
    return OutcomeOf(record, Outcome::Kind::kNothingToDo, "already released");
  }
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> run,
                         context.catalog->OfRun(record.run));
  const ReleaseDecision decision = DecideRelease(record, run, context.NowNs());
  if (!decision.allowed) {
    return OutcomeOf(record, Outcome::Kind::kRefused, decision.reason);
  }
  // The core copy is looked at now, not believed from the catalog.
  CAIRN_ASSIGN_OR_RETURN(const Manifest manifest,
                         ReadCoreManifest(context, record));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<Mismatch> missing,
                         CompareCore(context, manifest, /*quick=*/true));
  if (!missing.empty()) {
    return Refuse(
        "its archived copy is damaged: " + EscapeName(missing.front().file) +
        " " + missing.front().message);
  }
  const int64_t guarded_ns = context.NowNs();
  FileGuard guard(&context, &manifest);
  CAIRN_RETURN_IF_ERROR(guard.Load());
  for (const ManifestNode& node : manifest.nodes) {
    if (node.type != ManifestNodeType::kFile) continue;
    CAIRN_RETURN_IF_ERROR(guard.MayGo(node));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::vector<LiveNode> live,
                         LookAt(*context.accelerator, ShapeOf(manifest)));
  std::set<std::string_view> archived;
  for (const ManifestNode& node : manifest.nodes) archived.insert(node.path);
  for (const LiveNode& node : live) {
    if (!archived.contains(node.path)) {
      return Refuse(EscapeName(node.path) + " is not in the archived copy");
    }
  }
  Outcome outcome =
      OutcomeOf(record, Outcome::Kind::kDone,
                dry_run ? "would be " + decision.reason : decision.reason);
  outcome.bytes = record.bytes;
  outcome.files = record.files;
  if (!dry_run)
    CAIRN_RETURN_IF_ERROR(TakeAway(context, record, manifest, guarded_ns));
  return outcome;
}

}  // namespace

Outcome ReleaseCheckpoint(Context& context, const CheckpointRecord& record,
                          bool dry_run) {
  absl::StatusOr<Outcome> outcome = TryRelease(context, record, dry_run);
  if (outcome.ok()) return *outcome;
  const absl::Status& status = outcome.status();
  Outcome::Kind kind = Outcome::Kind::kFailed;
  if (absl::IsFailedPrecondition(status)) kind = Outcome::Kind::kRefused;
  if (absl::IsDataLoss(status)) kind = Outcome::Kind::kDamaged;
  return OutcomeOf(record, kind, Message(status));
}

absl::Status RecoverReleases(Context& context) {
  absl::StatusOr<std::vector<DirectoryEntry>> attempts =
      context.accelerator->List(kStagingDirectory);
  if (absl::IsNotFound(attempts.status())) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(attempts.status());
  for (const DirectoryEntry& attempt : *attempts) {
    if (!attempt.name.starts_with(kAttempt)) continue;
    absl::Status recovered =
        RecoverRelease(context, attempt.name.substr(sizeof(kAttempt) - 1));
    if (absl::IsUnavailable(recovered)) continue;  // Its owner is alive.
    if (!recovered.ok()) {
      context.observer->OnNotice(fmt::format(
          "an interrupted release was left as it is: {}", Message(recovered)));
    }
  }
  return absl::OkStatus();
}

}  // namespace cairn
