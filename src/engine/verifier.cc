#include "engine/verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "engine/checkpoint_files.h"
#include "engine/root_tree_view.h"
#include "format/structure.h"

namespace cairn {
namespace {

VerifyOutcome Begin(const CheckpointRecord& record, Tier tier) {
  VerifyOutcome outcome;
  outcome.path = JoinPath(record.run, record.name);
  outcome.generation = record.generation;
  outcome.tier = TierName(tier);
  return outcome;
}

void AddDamages(const Manifest& manifest, const std::vector<Mismatch>& found,
                VerifyOutcome* outcome) {
  for (const Mismatch& mismatch : found) {
    outcome->damages.push_back(
        {.tier = outcome->tier,
         .file = JoinPath(manifest.BasePath(), mismatch.file),
         .offset = mismatch.offset,
         .kind = mismatch.kind,
         .message = mismatch.message});
  }
}

void Conclude(const Manifest& manifest, bool content_read,
              VerifyOutcome* outcome) {
  outcome->good = outcome->damages.empty();
  outcome->content_read = content_read;
  outcome->files = manifest.FileCount();
  outcome->bytes = manifest.TotalBytes();
  if (!outcome->good) {
    const Damage& first = outcome->damages.front();
    outcome->message =
        fmt::format("{} {}", EscapeName(first.file), first.message);
    if (outcome->damages.size() > 1) {
      outcome->message +=
          fmt::format(" (and {} more files)", outcome->damages.size() - 1);
    }
    if (!content_read) outcome->message += "; content not read";
  } else if (outcome->message.empty()) {
    outcome->message =
        content_read ? "every byte matches" : "sizes match; content not read";
  }
}

// A manifest that is itself unreadable is damage of the tier it lies on.
VerifyOutcome ManifestDamage(const CheckpointRecord& record, Tier tier,
                             const absl::Status& status) {
  VerifyOutcome outcome = Begin(record, tier);
  outcome.damages.push_back(
      {.tier = outcome.tier,
       .file = ManifestDirectory(outcome.path) + "/" +
               ManifestFileName(record.sequence, record.generation),
       .offset = 0,
       .kind = absl::IsNotFound(status) ? "missing" : "corrupt",
       .message = Message(status)});
  outcome.message = Message(status);
  return outcome;
}

bool IsManifestDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status);
}

// Without digests the formats' own structure is all there is to check.
absl::Status CheckStructure(Context& context, const Manifest& manifest,
                            VerifyOutcome* outcome) {
  RootTreeView view(&context);
  for (const ManifestNode& node : manifest.nodes) {
    if (node.type != ManifestNodeType::kFile) continue;
    const std::string path = NaturalKey(manifest, node);
    absl::StatusOr<std::unique_ptr<ByteSource>> source = view.Open(path);
    if (absl::IsNotFound(source.status())) continue;  // Found missing already.
    CAIRN_RETURN_IF_ERROR(source.status());
    CAIRN_ASSIGN_OR_RETURN(const StructureReport report,
                           CheckFile(node.path, **source));
    if (report.status.ok()) continue;
    outcome->damages.push_back({.tier = outcome->tier,
                                .file = path,
                                .offset = 0,
                                .kind = "corrupt",
                                .message = Message(report.status)});
  }
  return absl::OkStatus();
}

absl::StatusOr<VerifyOutcome> VerifyAccelerator(Context& context,
                                                const CheckpointRecord& record,
                                                bool quick) {
  VerifyOutcome outcome = Begin(record, Tier::kAccelerator);
  absl::StatusOr<Manifest> own = ReadAcceleratorManifest(context, record);
  if (IsManifestDamage(own.status())) {
    return ManifestDamage(record, Tier::kAccelerator, own.status());
  }
  CAIRN_RETURN_IF_ERROR(own.status());
  Manifest manifest = *std::move(own);
  const bool digested = manifest.FullyDigested();
  const bool read = digested && !quick;
  if (!read) {
    for (ManifestNode& node : manifest.nodes) node.blocks.clear();
  }
  const int64_t began_ns = context.NowNs();
  CAIRN_ASSIGN_OR_RETURN(
      const std::vector<Mismatch> found,
      CompareContent(context, manifest, manifest.BasePath()));
  const auto missing = [](const Mismatch& one) {
    return one.kind == "missing";
  };
  if (found.size() == manifest.nodes.size() &&
      std::all_of(found.begin(), found.end(), missing)) {
    // Not damage: under a valid tier id, that is how its owner deletes it.
    outcome.message =
        "no longer on the accelerator tier; `cairn scan` takes note of that";
    return outcome;
  }
  AddDamages(manifest, found, &outcome);
  if (!digested && !quick) {
    CAIRN_RETURN_IF_ERROR(CheckStructure(context, manifest, &outcome));
    outcome.message =
        "files are whole by their format; not archived yet, so there are no "
        "digests to compare with";
  }
  Conclude(manifest, read, &outcome);
  CheckpointRecord updated = record;
  if (!outcome.good) {
    updated.accelerator.damaged = true;
    updated.accelerator.damage = "accelerator: " + outcome.message;
    CAIRN_RETURN_IF_ERROR(context.catalog->Upsert(updated));
    // Nothing is known of its files any more: the next look reads them again.
    CAIRN_RETURN_IF_ERROR(
        context.catalog->SetFingerprints(record.generation, {}, ""));
    return outcome;
  }
  if (!read) return outcome;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<LiveNode> live,
                         LookAt(*context.accelerator, ShapeOf(manifest)));
  updated.accelerator.damaged = false;
  updated.accelerator.damage.clear();
  updated.accelerator.present = true;
  updated.accelerator.verified_ns = began_ns;
  updated.dirty = false;
  CAIRN_RETURN_IF_ERROR(context.catalog->Upsert(updated));
  CAIRN_RETURN_IF_ERROR(context.catalog->SetFingerprints(
      record.generation, ToFingerprints(live, began_ns),
      FingerprintDigest(live)));
  return outcome;
}

absl::StatusOr<VerifyOutcome> VerifyCore(Context& context,
                                         const CheckpointRecord& record,
                                         bool quick) {
  VerifyOutcome outcome = Begin(record, Tier::kCore);
  CheckpointRecord updated = record;
  const int64_t began_ns = context.NowNs();
  absl::StatusOr<Manifest> manifest = ReadCoreManifest(context, record);
  if (IsManifestDamage(manifest.status())) {
    outcome = ManifestDamage(record, Tier::kCore, manifest.status());
  } else {
    CAIRN_RETURN_IF_ERROR(manifest.status());
    CAIRN_ASSIGN_OR_RETURN(const std::vector<Mismatch> found,
                           CompareCore(context, *manifest, quick));
    AddDamages(*manifest, found, &outcome);
    Conclude(*manifest, !quick, &outcome);
  }
  if (!outcome.good) {
    updated.core.damaged = true;
    updated.core.damage = "core: " + outcome.message;
  } else if (!quick) {
    updated.core.damaged = false;
    updated.core.damage.clear();
    updated.core.verified_ns = began_ns;
  }
  CAIRN_RETURN_IF_ERROR(context.catalog->Upsert(updated));
  return outcome;
}

}  // namespace

absl::StatusOr<std::vector<VerifyOutcome>> VerifyCheckpoint(
    Context& context, const CheckpointRecord& record,
    const VerifyOptions& options) {
  std::vector<VerifyOutcome> outcomes;
  context.observer->OnStart(
      "verify " + EscapeName(JoinPath(record.run, record.name)), 0, 0);
  if (options.tier != TierChoice::kCore && record.accelerator.manifest) {
    CAIRN_ASSIGN_OR_RETURN(VerifyOutcome outcome,
                           VerifyAccelerator(context, record, options.quick));
    outcomes.push_back(std::move(outcome));
  }
  if (options.tier != TierChoice::kAccelerator && record.core.manifest) {
    CAIRN_ASSIGN_OR_RETURN(const CheckpointRecord now,
                           context.catalog->Get(record.generation));
    CAIRN_ASSIGN_OR_RETURN(VerifyOutcome outcome,
                           VerifyCore(context, now, options.quick));
    outcomes.push_back(std::move(outcome));
  }
  context.observer->OnFinish();
  bool good = true;
  const std::string path = JoinPath(record.run, record.name);
  for (const VerifyOutcome& outcome : outcomes) {
    if (outcome.good) continue;
    good = false;
    CAIRN_RETURN_IF_ERROR(context.catalog->RecordFailure(
        {.operation = "verify",
         .subject = path,
         .message = outcome.tier + ": " + outcome.message,
         .time_ns = context.NowNs()}));
  }
  if (good)
    CAIRN_RETURN_IF_ERROR(context.catalog->ClearFailure("verify", path));
  return outcomes;
}

}  // namespace cairn
