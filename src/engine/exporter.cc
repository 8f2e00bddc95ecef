#include "engine/exporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/crc64.h"
#include "base/escape.h"
#include "base/kill_point.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "engine/checkpoint_files.h"
#include "engine/committer.h"
#include "engine/locks.h"
#include "engine/scanner.h"
#include "engine/workers.h"
#include "policy/selection.h"

namespace cairn {
namespace {}  // namespace

Exporter::Exporter(Context* context, const ExportOptions& options)
    : context_(*context),
      options_(options),
      limiter_(options.bytes_per_second_max.value_or(
                   context->options.export_bytes_per_second_max),
               context->clock) {}

absl::StatusOr<std::vector<CheckpointRecord>> Exporter::Select(
    const std::vector<std::string>& paths) {
  std::vector<CheckpointRecord> records;
  if (!paths.empty()) {
    CAIRN_ASSIGN_OR_RETURN(records, FindCheckpoints(context_, paths));
  } else {
    CAIRN_ASSIGN_OR_RETURN(records, context_.catalog->All());
    const auto wanted = [this](const CheckpointRecord& record) {
      const std::vector<std::string>& prefixes =
          context_.options.export_prefixes;
      const std::string path = JoinPath(record.run, record.name);
      const bool below =
          prefixes.empty() || std::any_of(prefixes.begin(), prefixes.end(),
                                          [&](const std::string& prefix) {
                                            return path.starts_with(prefix);
                                          });
      const bool to_do = !record.core.manifest || record.dirty;
      return below && to_do && record.accelerator.present;
    };
    std::erase_if(records, [&](const auto& record) { return !wanted(record); });
  }
  SortNewestFirst(records);
  return records;
}

Outcome Exporter::Export(const CheckpointRecord& selected) {
  absl::StatusOr<Outcome> outcome = TryExport(selected);
  const std::string path = JoinPath(selected.run, selected.name);
  if (!outcome.ok()) {
    const bool damaged = absl::IsDataLoss(outcome.status());
    outcome = OutcomeOf(
        selected, damaged ? Outcome::Kind::kDamaged : Outcome::Kind::kFailed,
        Message(outcome.status()));
  }
  const bool failed = outcome->kind == Outcome::Kind::kFailed ||
                      outcome->kind == Outcome::Kind::kDamaged;
  absl::Status recorded =
      failed ? context_.catalog->RecordFailure({.operation = "export",
                                                .subject = path,
                                                .message = outcome->message,
                                                .time_ns = context_.NowNs()})
             : context_.catalog->ClearFailure("export", path);
  if (!recorded.ok()) context_.observer->OnNotice(Message(recorded));
  return *outcome;
}

absl::StatusOr<Outcome> Exporter::TryExport(const CheckpointRecord& selected) {
  const std::string path = JoinPath(selected.run, selected.name);
  CAIRN_ASSIGN_OR_RETURN(
      const Lock lock,
      Lock::OfCheckpoint(context_.options.state_dir, path, "export"));
  CAIRN_ASSIGN_OR_RETURN(CheckpointRecord record,
                         context_.catalog->Get(selected.generation));
  CAIRN_ASSIGN_OR_RETURN(const std::optional<Outcome> settled,
                         SettleWithout(&record));
  if (settled.has_value()) return *settled;
  CAIRN_ASSIGN_OR_RETURN(Manifest manifest,
                         ReadAcceleratorManifest(context_, record));
  const uint64_t sent_before = counters_.bytes_sent;
  const uint64_t skipped_before = counters_.bytes_skipped;
  const absl::Time began = context_.clock->Now();
  context_.observer->OnStart("export " + EscapeName(path), record.bytes,
                             record.files);
  std::vector<LiveNode> live;
  int64_t known_ns = 0;
  absl::Status archived = Archive(&manifest, &live, &known_ns);
  context_.observer->OnFinish();
  CAIRN_RETURN_IF_ERROR(archived);
  CAIRN_RETURN_IF_ERROR(RecordArchived(manifest, record, live, known_ns));

  const absl::Duration took = context_.clock->Now() - began;
  Outcome outcome = OutcomeOf(record, Outcome::Kind::kDone, "");
  outcome.bytes = counters_.bytes_sent - sent_before;
  outcome.bytes_skipped = counters_.bytes_skipped - skipped_before;
  outcome.files = manifest.FileCount();
  outcome.message = fmt::format("archived and verified in {}, {}",
                                cairn::FormatDuration(took),
                                FormatRate(manifest.TotalBytes(), took));
  return outcome;
}

// The outcome where nothing is to be copied, or may be. Else `record` is what
// to archive: a new generation, if its owner rewrote it.
absl::StatusOr<std::optional<Outcome>> Exporter::SettleWithout(
    CheckpointRecord* record) {
  if (record->core.manifest && record->core.damaged) {
    return OutcomeOf(*record, Outcome::Kind::kDamaged,
                     "its archived copy is damaged (" + record->core.damage +
                         "); `cairn remove --tier core` it, then export again");
  }
  if (!record->accelerator.present) {
    return OutcomeOf(*record, Outcome::Kind::kNothingToDo,
                     record->core.manifest ? "already archived"
                                           : "not on the accelerator tier");
  }
  RootTreeView view(&context_);
  CAIRN_ASSIGN_OR_RETURN(const CopyCheck check,
                         CheckCopy(context_, view, *record));
  const bool rewritten = check.verdict == CopyVerdict::kRewritten;
  switch (check.verdict) {
    case CopyVerdict::kUnchanged:
    case CopyVerdict::kEqual:
    case CopyVerdict::kRewritten:
      break;
    case CopyVerdict::kAbsent:
      return OutcomeOf(*record, Outcome::Kind::kFailed,
                       "no longer on the accelerator tier; run `cairn scan`");
    case CopyVerdict::kDamaged:
      return OutcomeOf(*record, Outcome::Kind::kDamaged, check.reason);
    case CopyVerdict::kWriting:
      return OutcomeOf(*record, Outcome::Kind::kFailed, check.reason);
  }
  if (record->core.manifest && !rewritten) {
    return OutcomeOf(*record, Outcome::Kind::kNothingToDo, "already archived");
  }
  if (options_.dry_run) {
    Outcome outcome =
        OutcomeOf(*record, Outcome::Kind::kDone,
                  "would be archived: " + FormatBytesBoth(record->bytes));
    outcome.bytes = record->bytes;
    outcome.files = record->files;
    return outcome;
  }
  if (rewritten) {
    CAIRN_RETURN_IF_ERROR(context_.accelerator->SyncFileSystem());
    CAIRN_ASSIGN_OR_RETURN(*record,
                           CommitFinding(context_, check.finding, "scan", {}));
  }
  return std::nullopt;
}

absl::Status Exporter::RecordArchived(const Manifest& manifest,
                                      const CheckpointRecord& record,
                                      const std::vector<LiveNode>& live,
                                      int64_t known_ns) {
  CheckpointRecord archived = RecordOf(manifest);
  archived.accelerator = record.accelerator;
  // Marks may have come meanwhile, from other processes.
  CAIRN_ASSIGN_OR_RETURN(archived, WithMarks(context_, std::move(archived)));
  archived.core.manifest = true;
  archived.core.present = true;
  archived.core.verified_ns = context_.NowNs();
  CAIRN_RETURN_IF_ERROR(context_.catalog->Upsert(archived));
  return context_.catalog->SetFingerprints(archived.generation,
                                           ToFingerprints(live, known_ns),
                                           FingerprintDigest(live));
}

// Sends everything, makes sure that nothing changed meanwhile, publishes. A
// checkpoint that changed is not tried again here: the next export looks at it
// anew.
absl::Status Exporter::Archive(Manifest* manifest, std::vector<LiveNode>* live,
                               int64_t* known_ns) {
  const CheckpointShape shape = ShapeOf(*manifest);
  *known_ns = context_.NowNs();
  CAIRN_ASSIGN_OR_RETURN(*live, LookAt(*context_.accelerator, shape));
  CAIRN_ASSIGN_OR_RETURN(manifest->nodes, NodesOf(context_, shape, *live));
  CAIRN_RETURN_IF_ERROR(SendFiles(manifest, live));
  return Publish(*manifest);
}

absl::Status Exporter::SendFiles(Manifest* manifest,
                                 std::vector<LiveNode>* live) {
  CAIRN_ASSIGN_OR_RETURN(const bool natural, NaturalKeysFree(*manifest));
  FileExport files(&context_, manifest, natural, &limiter_, &counters_);
  Workers workers(context_.threads);
  ManifestNode* marker = nullptr;
  absl::Status submitted;
  for (ManifestNode& node : manifest->nodes) {
    if (node.type != ManifestNodeType::kFile) continue;
    if (workers.failed() || !submitted.ok()) break;
    if (!manifest->head.marker.empty() && node.path == manifest->head.marker) {
      marker = &node;
      continue;
    }
    submitted = files.Submit(workers, &node);
  }
  CAIRN_RETURN_IF_ERROR(workers.Wait());
  CAIRN_RETURN_IF_ERROR(submitted);
  CAIRN_RETURN_IF_ERROR(ConfirmUnchanged(*manifest, live));
  // The framework's own marker last: whoever reads the container without cairn
  // sees a complete checkpoint or an incomplete one.
  if (marker == nullptr) return absl::OkStatus();
  CAIRN_KILL_POINT("export.before_marker");
  CAIRN_RETURN_IF_ERROR(files.Submit(workers, marker));
  return workers.Wait();
}

// What was touched while we read is read once more: time stamps may jump on
// some file systems, so the content decides.
absl::Status Exporter::ConfirmUnchanged(const Manifest& manifest,
                                        std::vector<LiveNode>* live) {
  CAIRN_ASSIGN_OR_RETURN(std::vector<LiveNode> now,
                         LookAt(*context_.accelerator, ShapeOf(manifest)));
  if (FingerprintDigest(now) == FingerprintDigest(*live))
    return absl::OkStatus();
  const auto changed = [](const std::string& path) {
    return absl::UnavailableError(fmt::format(
        "{} changed while it was being copied; it is archived once it rests",
        EscapeName(path)));
  };
  std::map<std::string, const LiveNode*> before;
  for (const LiveNode& node : *live) before[node.path] = &node;
  std::map<std::string, const ManifestNode*> recorded;
  for (const ManifestNode& node : manifest.nodes) recorded[node.path] = &node;
  if (now.size() != live->size()) return changed(manifest.CheckpointPath());
  for (const LiveNode& node : now) {
    const auto old = before.find(node.path);
    if (old == before.end()) return changed(node.path);
    if (node.stat.type != NodeType::kFile ||
        SameFingerprint(ToFingerprint(*old->second, 0), node.stat)) {
      continue;
    }
    const ManifestNode& entry = *recorded.at(node.path);
    if (entry.type != ManifestNodeType::kFile || entry.blocks.empty()) continue;
    CAIRN_ASSIGN_OR_RETURN(const std::vector<BlockDigest> blocks,
                           DigestFile(context_, NaturalKey(manifest, entry),
                                      entry.size_bytes, nullptr));
    if (blocks != entry.blocks) return changed(node.path);
  }
  *live = std::move(now);
  return absl::OkStatus();
}

absl::Status Exporter::Publish(const Manifest& manifest) {
  CAIRN_ASSIGN_OR_RETURN(const std::string encoded, EncodeManifest(manifest));
  const std::string path = ManifestPath(manifest.head);
  CAIRN_KILL_POINT("export.before_manifest");
  absl::Status put =
      context_.core->Put(path, AsBytes(encoded),
                         {.metadata = {},
                          .crc64_nvme = Crc64Nvme(AsBytes(encoded)),
                          .barrier = true});
  // An earlier attempt of this generation may have got this far.
  if (absl::IsAlreadyExists(put)) {
    CAIRN_ASSIGN_OR_RETURN(const Manifest stored,
                           ReadCoreManifest(context_, RecordOf(manifest)));
    for (size_t i = 0; i < stored.nodes.size(); ++i) {
      if (stored.nodes.size() != manifest.nodes.size() ||
          stored.nodes[i].blocks != manifest.nodes[i].blocks) {
        return absl::DataLossError(fmt::format(
            "{}: the core tier has another manifest of this very generation",
            EscapeName(manifest.CheckpointPath())));
      }
    }
    put = absl::OkStatus();
  }
  CAIRN_RETURN_IF_ERROR(put);
  CAIRN_KILL_POINT("export.after_manifest");
  // Marks made before the core tier knew of the checkpoint are there already:
  // WriteMark writes to both. The accelerator's manifest gains the digests.
  CAIRN_RETURN_IF_ERROR(
      WriteAcceleratorManifest(context_, manifest, /*replace=*/true));
  CAIRN_KILL_POINT("export.after_accelerator_manifest");
  return absl::OkStatus();
}

// False if a key of somebody else's stands where our natural keys need a
// directory, or below where they need a file.
absl::StatusOr<bool> Exporter::NaturalKeysFree(const Manifest& manifest) {
  const std::string path = manifest.CheckpointPath();
  std::vector<std::string> ancestors;
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    ancestors.push_back(path.substr(0, slash));
  }
  if (manifest.head.is_directory) ancestors.push_back(path);
  for (const std::string& ancestor : ancestors) {
    absl::StatusOr<ObjectInfo> there = context_.core->Stat(ancestor);
    if (there.ok()) return false;
    if (!absl::IsNotFound(there.status()) &&
        !absl::IsInvalidArgument(there.status())) {
      return there.status();
    }
  }
  if (manifest.head.is_directory) return true;
  for (const ManifestNode& node : manifest.nodes) {
    bool below = false;
    absl::Status listed = context_.core->List(NaturalKey(manifest, node) + "/",
                                              [&below](const ObjectInfo&) {
                                                below = true;
                                                return absl::CancelledError();
                                              });
    if (below) return false;
    CAIRN_RETURN_IF_ERROR(listed);
  }
  return true;
}

}  // namespace cairn
