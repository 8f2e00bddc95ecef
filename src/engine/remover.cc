// `cairn remove --tier core` (releaser.h, RemoveCoreCopy).

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/escape.h"
#include "base/kill_point.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "engine/checkpoint_files.h"
#include "engine/locks.h"
#include "engine/releaser.h"

namespace cairn {
namespace {

// Keys that the other archived generations of this checkpoint need. An
// unreadable manifest among them stops the removal: we can't tell what it
// needs.
absl::StatusOr<std::set<std::string>> KeysOfOthers(
    Context& context, const CheckpointRecord& record) {
  std::set<std::string> keys;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> generations,
                         context.catalog->Generations(record.run, record.name));
  for (const CheckpointRecord& other : generations) {
    if (other.generation == record.generation || !other.core.manifest) continue;
    CAIRN_ASSIGN_OR_RETURN(const Manifest manifest,
                           ReadCoreManifest(context, other));
    for (const ManifestNode& node : manifest.nodes) {
      if (node.type == ManifestNodeType::kFile) {
        keys.insert(KeyOf(manifest, node));
      }
    }
  }
  return keys;
}

// The keys to remove, the framework's marker first. Objects stored by content
// may serve any other checkpoint, and are the sweep's business.
std::vector<std::string> KeysToRemove(const Manifest& manifest,
                                      const std::set<std::string>& kept) {
  std::vector<std::string> keys;
  for (const ManifestNode& node : manifest.nodes) {
    if (node.type != ManifestNodeType::kFile) continue;
    const std::string key = KeyOf(manifest, node);
    if (kept.contains(key) || key.starts_with(".cairn/objects/")) continue;
    const bool marker =
        !manifest.head.marker.empty() && node.path == manifest.head.marker;
    keys.insert(marker ? keys.begin() : keys.end(), key);
  }
  return keys;
}

absl::Status CheckMayRemove(const CheckpointRecord& record, int64_t now_ns,
                            bool force) {
  if (force) return absl::OkStatus();
  if (record.pinned || record.hold_until_ns.value_or(0) > now_ns) {
    return absl::FailedPreconditionError(
        "kept: pinned; `cairn unpin` it first");
  }
  const bool other_copy = record.accelerator.present && !record.dirty &&
                          !record.accelerator.damaged;
  if (!other_copy) {
    return absl::FailedPreconditionError(
        "kept: this is the only copy; `cairn restore` it first, or add --force "
        "to "
        "lose the checkpoint");
  }
  return absl::OkStatus();
}

// What is recorded once the archived copy is gone.
absl::Status RecordRemoved(Context& context, const CheckpointRecord& record) {
  if (!record.accelerator.manifest) {
    return context.catalog->Remove(record.generation);
  }
  CheckpointRecord updated = record;
  updated.core = {};
  return context.catalog->Upsert(updated);
}

// What a removal takes away, kept on this host from before it begins until it
// is done: without its manifest, a removal that was killed could not go on.
class Note {
 public:
  static absl::StatusOr<Note> Open(const Context& context,
                                   std::string_view generation) {
    CAIRN_ASSIGN_OR_RETURN(Root root, Root::Open(context.options.state_dir));
    return Note(std::move(root),
                fmt::format("removing/{}.jsonl.zst", std::string(generation)));
  }

  absl::Status Write(const Manifest& manifest) const {
    CAIRN_ASSIGN_OR_RETURN(const std::string text, EncodeManifest(manifest));
    return root_.WriteFileDurably(path_, AsBytes(text), /*replace=*/true);
  }

  absl::StatusOr<Manifest> Read() const {
    CAIRN_ASSIGN_OR_RETURN(const std::string text,
                           root_.ReadSmallFile(path_, kNoteBytesMax));
    return DecodeManifest(AsBytes(text));
  }

  absl::Status Remove() const { return root_.RemoveFile(path_); }

 private:
  static constexpr uint64_t kNoteBytesMax = uint64_t{4} << 30;

  Note(Root root, std::string path)
      : root_(std::move(root)), path_(std::move(path)) {}

  Root root_;
  std::string path_;
};

absl::StatusOr<Outcome> TryRemove(Context& context,
                                  const CheckpointRecord& selected, bool force,
                                  bool dry_run) {
  const std::string path = JoinPath(selected.run, selected.name);
  CAIRN_ASSIGN_OR_RETURN(
      const Lock lock,
      Lock::OfCheckpoint(context.options.state_dir, path, "remove"));
  CAIRN_ASSIGN_OR_RETURN(CheckpointRecord known,
                         context.catalog->Get(selected.generation));
  CAIRN_ASSIGN_OR_RETURN(const CheckpointRecord record,
                         WithMarks(context, std::move(known)));
  if (!record.core.manifest) {
    return OutcomeOf(record, Outcome::Kind::kNothingToDo, "not archived");
  }
  CAIRN_RETURN_IF_ERROR(CheckMayRemove(record, context.NowNs(), force));
  CAIRN_ASSIGN_OR_RETURN(const Note note,
                         Note::Open(context, record.generation));
  absl::StatusOr<Manifest> manifest = ReadCoreManifest(context, record);
  if (absl::IsNotFound(manifest.status())) {
    // A removal that was killed got this far.
    absl::StatusOr<Manifest> noted = note.Read();
    if (noted.ok()) manifest = *std::move(noted);
  }
  // Without its own manifest, what it names is found by the sweep.
  const bool readable = manifest.ok();
  if (!readable && !absl::IsDataLoss(manifest.status()) &&
      !absl::IsNotFound(manifest.status())) {
    return manifest.status();
  }
  CAIRN_ASSIGN_OR_RETURN(const std::set<std::string> kept,
                         KeysOfOthers(context, record));
  const std::vector<std::string> keys =
      readable ? KeysToRemove(*manifest, kept) : std::vector<std::string>();
  Outcome outcome =
      OutcomeOf(record, Outcome::Kind::kDone,
                fmt::format("{}removed from the core tier: {} objects",
                            dry_run ? "would be " : "", keys.size()));
  outcome.bytes = record.bytes;
  outcome.files = keys.size();
  if (dry_run) return outcome;
  if (readable) CAIRN_RETURN_IF_ERROR(note.Write(*manifest));
  CAIRN_RETURN_IF_ERROR(context.core->Remove(
      ManifestDirectory(path) + "/" +
      ManifestFileName(record.sequence, record.generation)));
  CAIRN_KILL_POINT("remove.after_manifest");
  for (const std::string& key : keys) {
    CAIRN_RETURN_IF_ERROR(context.core->Remove(key));
    CAIRN_KILL_POINT("remove.after_object");
  }
  // Last: until then, the same command goes on with it.
  CAIRN_RETURN_IF_ERROR(RecordRemoved(context, record));
  CAIRN_RETURN_IF_ERROR(note.Remove());
  return outcome;
}

}  // namespace

Outcome RemoveCoreCopy(Context& context, const CheckpointRecord& record,
                       bool force, bool dry_run) {
  absl::StatusOr<Outcome> outcome = TryRemove(context, record, force, dry_run);
  if (outcome.ok()) return *outcome;
  const bool refused = absl::IsFailedPrecondition(outcome.status());
  return OutcomeOf(record,
                   refused ? Outcome::Kind::kRefused : Outcome::Kind::kFailed,
                   Message(outcome.status()));
}

}  // namespace cairn
