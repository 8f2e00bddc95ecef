#include "engine/restorer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/escape.h"
#include "base/kill_point.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "engine/checkpoint_files.h"
#include "engine/committer.h"
#include "engine/locks.h"
#include "engine/scanner.h"

namespace cairn {
namespace {

// Refuses before anything is written what could not fit.
absl::Status CheckSpace(const Root& root, const Manifest& manifest) {
  uint64_t needed = 0;
  for (const ManifestNode& node : manifest.nodes) {
    if (node.type != ManifestNodeType::kFile) continue;
    if (!node.extents.has_value()) {
      needed += node.size_bytes;
      continue;
    }
    for (const ManifestExtent& extent : *node.extents) {
      needed += extent.size_bytes;
    }
  }
  CAIRN_ASSIGN_OR_RETURN(const Root::Space space, root.FreeSpace());
  if (needed <= space.free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "{} needs {}, and {} has {} free; release older checkpoints (`cairn "
      "release`) "
      "or free space otherwise",
      EscapeName(manifest.CheckpointPath()), FormatBytesBoth(needed),
      EscapeName(root.path()), FormatBytesBoth(space.free_bytes)));
}

// The record after its files are back; pins and holds stay as they are.
absl::Status RecordRestored(Context& context, const Manifest& manifest) {
  CAIRN_RETURN_IF_ERROR(MarkPresent(context, manifest));
  const int64_t known_ns = context.NowNs();
  CAIRN_ASSIGN_OR_RETURN(const std::vector<LiveNode> live,
                         LookAt(*context.accelerator, ShapeOf(manifest)));
  return RecordPresent(context, manifest, live, known_ns);
}

class CoreSource final : public ContentSource {
 public:
  CoreSource(Context* context, const Manifest* manifest)
      : context_(*context), manifest_(*manifest) {}

  absl::Status Read(const ManifestNode& node, uint64_t offset,
                    MutableByteView out) override {
    absl::Status read =
        context_.core->ReadAt(KeyOf(manifest_, node), offset, out);
    if (absl::IsNotFound(read) || absl::IsOutOfRange(read)) {
      return absl::DataLossError(
          fmt::format("{} is damaged at offset {}: {}", Describe(node), offset,
                      absl::IsNotFound(read) ? "the object is missing"
                                             : "the object is cut short"));
    }
    return read;
  }

  std::string Describe(const ManifestNode& node) const override {
    return fmt::format("the archived copy of {} (object {})",
                       EscapeName(NaturalKey(manifest_, node)),
                       EscapeName(KeyOf(manifest_, node)));
  }

 private:
  Context& context_;
  const Manifest& manifest_;
};

struct Restored {
  uint64_t bytes = 0;
  uint64_t bytes_skipped = 0;
  std::vector<std::string> warnings;
};

// Fetches into staging, publishes (over a copy known to be bad if need be) and
// records.
absl::StatusOr<Restored> Fetch(Context& context, const Manifest& manifest,
                               bool replace) {
  const std::string attempt = "restore-" + manifest.head.generation;
  CAIRN_ASSIGN_OR_RETURN(Staging staging, Staging::Take(context, attempt));
  if (!staging.resumed()) {
    absl::Status space = CheckSpace(*context.accelerator, manifest);
    if (!space.ok()) CAIRN_RETURN_IF_ERROR(staging.Discard());
    CAIRN_RETURN_IF_ERROR(space);
  }
  CoreSource source(&context, &manifest);
  TreeRestore tree(&context, &manifest, &staging, &source);
  context.observer->OnStart("restore " + EscapeName(manifest.CheckpointPath()),
                            manifest.TotalBytes(), manifest.FileCount());
  absl::Status filled = tree.Run();
  context.observer->OnFinish();
  if (absl::IsResourceExhausted(filled)) {
    // Space is what others need now; the next try starts from the beginning.
    CAIRN_RETURN_IF_ERROR(staging.Discard());
  }
  CAIRN_RETURN_IF_ERROR(filled);
  CAIRN_KILL_POINT("restore.before_publish");
  CAIRN_RETURN_IF_ERROR(staging.Publish(manifest, replace));
  CAIRN_RETURN_IF_ERROR(RecordRestored(context, manifest));
  CAIRN_RETURN_IF_ERROR(staging.Discard());
  Restored result;
  result.bytes = tree.bytes_fetched();
  result.bytes_skipped = tree.bytes_skipped();
  if (tree.owner_refused()) {
    result.warnings.push_back(
        "owners and groups were not restored, as that takes root; set-id bits "
        "were left off");
  }
  return result;
}

absl::Status MarkCoreDamaged(Context& context, CheckpointRecord record,
                             const absl::Status& damage) {
  record.core.damaged = true;
  record.core.damage = "core: " + Message(damage);
  return context.catalog->Upsert(record);
}

// What lies at the place of `record`; `occupied` if that is another generation.
absl::StatusOr<CopyCheck> LookAtPlace(Context& context,
                                      const CheckpointRecord& record,
                                      bool occupied) {
  if (occupied) {
    CopyCheck check;
    check.verdict = CopyVerdict::kRewritten;
    check.reason = "another generation";
    return check;
  }
  RootTreeView view(&context);
  return CheckCopy(context, view, record);
}

// One generation, whatever lies at its place.
absl::StatusOr<RestoreReport> RestoreRecord(Context& context,
                                            const CheckpointRecord& record,
                                            bool occupied,
                                            const RestoreOptions& options) {
  RestoreReport report;
  const std::string path = JoinPath(record.run, record.name);
  report.location = context.accelerator->FullPath(path);
  CAIRN_ASSIGN_OR_RETURN(const CopyCheck check,
                         LookAtPlace(context, record, occupied));
  const bool good = check.verdict == CopyVerdict::kUnchanged ||
                    check.verdict == CopyVerdict::kEqual;
  const bool changed = check.verdict == CopyVerdict::kRewritten ||
                       check.verdict == CopyVerdict::kWriting;
  if (good) {
    report.already_there = true;
    report.checkpoint = ToInfo(record, true);
    return report;
  }
  if (changed && !options.force) {
    return absl::FailedPreconditionError(fmt::format(
        "{} holds other content than the archived generation ({}); nothing was "
        "overwritten. Export it first, or add --force to lose it",
        EscapeName(path), check.reason));
  }
  if (!record.core.manifest) {
    return absl::DataLossError(fmt::format(
        "{} is damaged on the accelerator tier ({}) and was never archived",
        EscapeName(path), check.reason));
  }
  absl::StatusOr<Manifest> manifest = ReadCoreManifest(context, record);
  if (absl::IsNotFound(manifest.status())) {
    manifest = absl::DataLossError(
        fmt::format("the archived copy of {} has lost its manifest: {}",
                    EscapeName(path), Message(manifest.status())));
  }
  if (absl::IsDataLoss(manifest.status())) {
    CAIRN_RETURN_IF_ERROR(MarkCoreDamaged(context, record, manifest.status()));
  }
  CAIRN_RETURN_IF_ERROR(manifest.status());
  if (options.dry_run) {
    report.checkpoint = ToInfo(record, true);
    report.bytes = record.bytes;
    return report;
  }
  if (check.verdict == CopyVerdict::kDamaged) {
    report.warnings.push_back("the damaged copy on the accelerator tier (" +
                              check.reason + ") was replaced");
  }
  absl::StatusOr<Restored> restored = Fetch(
      context, *manifest, /*replace=*/check.verdict != CopyVerdict::kAbsent);
  if (absl::IsDataLoss(restored.status())) {
    CAIRN_RETURN_IF_ERROR(MarkCoreDamaged(context, record, restored.status()));
  }
  CAIRN_RETURN_IF_ERROR(restored.status());
  CAIRN_ASSIGN_OR_RETURN(const CheckpointRecord now,
                         context.catalog->Get(record.generation));
  report.checkpoint = ToInfo(now, true);
  report.bytes = restored->bytes;
  report.bytes_skipped = restored->bytes_skipped;
  for (std::string& warning : restored->warnings) {
    report.warnings.push_back(std::move(warning));
  }
  return report;
}

// A manifest comes from storage: it may name those pointer files only that the
// frameworks have, and the user's own rules.
bool IsPointerName(const Options& options, std::string_view path) {
  for (const char* known : {"latest", "latest_checkpointed_iteration.txt",
                            "checkpoint", "latest.txt"}) {
    if (path == known) return true;
  }
  return std::any_of(
      options.frameworks.begin(), options.frameworks.end(),
      [path](const FrameworkRule& rule) { return rule.pointer == path; });
}

}  // namespace

absl::Status MarkPresent(Context& context, const Manifest& manifest) {
  const std::string path = manifest.CheckpointPath();
  CAIRN_ASSIGN_OR_RETURN(const std::vector<Mark> marks,
                         ReadMarks(context, path));
  if (!SummariseMarks(marks, manifest.head.generation).released) {
    return absl::OkStatus();
  }
  CAIRN_RETURN_IF_ERROR(WriteMark(context, path,
                                  {.kind = MarkKind::kPresent,
                                   .time_us = 0,
                                   .generation = manifest.head.generation,
                                   .until_ns = std::nullopt,
                                   .reason = "restored",
                                   .user = ""}));
  CAIRN_KILL_POINT("restore.after_mark");
  return absl::OkStatus();
}

absl::Status WritePointers(Context& context, const Manifest& manifest) {
  for (const auto& [path, content] : manifest.head.pointers) {
    if (!IsPointerName(context.options, path)) {
      return absl::DataLossError(fmt::format(
          "the manifest of {} names {} as a pointer file, which no rule does; "
          "it was not written",
          EscapeName(manifest.CheckpointPath()), EscapeName(path)));
    }
    CAIRN_RETURN_IF_ERROR(context.accelerator->WriteFileDurably(
        JoinPath(manifest.head.run, path), AsBytes(content), /*replace=*/true));
    CAIRN_KILL_POINT("restore.after_pointer");
  }
  return absl::OkStatus();
}

absl::StatusOr<RestoreReport> RestoreCheckpoint(Context& context,
                                                std::string_view path,
                                                const RestoreOptions& options) {
  CAIRN_ASSIGN_OR_RETURN(
      const Lock lock,
      Lock::OfCheckpoint(context.options.state_dir, path, "restore"));
  CAIRN_ASSIGN_OR_RETURN(const CheckpointRecord wanted,
                         FindCheckpoint(context, path, options.generation));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> generations,
                         context.catalog->Generations(wanted.run, wanted.name));
  std::vector<std::string> warnings;
  absl::Status first_error;
  for (const CheckpointRecord& record : generations) {
    if (!options.generation.empty() &&
        record.generation != options.generation) {
      continue;
    }
    const bool occupied =
        std::any_of(generations.begin(), generations.end(),
                    [&record](const CheckpointRecord& other) {
                      return other.accelerator.present &&
                             other.generation != record.generation;
                    });
    absl::StatusOr<RestoreReport> report =
        RestoreRecord(context, record, occupied, options);
    if (!report.ok()) {
      if (first_error.ok()) first_error = report.status();
      // Only damage makes the generation before it the right answer.
      if (!absl::IsDataLoss(report.status())) return report.status();
      warnings.push_back(fmt::format("generation {} was passed over: {}",
                                     record.generation,
                                     Message(report.status())));
      continue;
    }
    if (options.set_latest && !options.dry_run) {
      CAIRN_ASSIGN_OR_RETURN(const Manifest manifest,
                             ReadBestManifest(context, record));
      CAIRN_RETURN_IF_ERROR(WritePointers(context, manifest));
    }
    report->warnings.insert(report->warnings.begin(), warnings.begin(),
                            warnings.end());
    return report;
  }
  return first_error;
}

}  // namespace cairn
