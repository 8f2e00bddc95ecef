// A checkpoint's files on the accelerator tier and its records on both: the
// building blocks that the verbs share.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "catalog/catalog.h"
#include "catalog/manifest.h"
#include "catalog/mark.h"
#include "engine/context.h"
#include "io/root.h"

namespace cairn {

// --- What lies on the accelerator tier ---------------------------------------

struct LiveNode {
  std::string path;  // Relative to the base.
  NodeStat stat;
};

// Base directory ("run/name" or "run") and, for Layout::kFiles, which files.
struct CheckpointShape {
  std::string run;
  std::string name;
  bool is_directory = true;
  std::vector<std::string> files;  // kFiles only; relative to the run.

  std::string Base() const;
  std::string Path() const;  // run/name.
};

// Every node of it as it is now, sorted by path; with the base itself as "" for
// a directory. kNotFound: the base (or, for files, every file) is absent.
absl::StatusOr<std::vector<LiveNode>> LookAt(const Root& accelerator,
                                             const CheckpointShape& shape);

// One digest over all of `nodes` (path, type, size, mtime, ctime, inode): equal
// while nothing was touched. Directories count by their path alone.
std::string FingerprintDigest(const std::vector<LiveNode>& nodes);

FileFingerprint ToFingerprint(const LiveNode& node, int64_t known_ns);
// Of the regular files among `nodes`.
std::vector<FileFingerprint> ToFingerprints(const std::vector<LiveNode>& nodes,
                                            int64_t known_ns);
// Same size, mtime, ctime and inode.
bool SameFingerprint(const FileFingerprint& known, const NodeStat& stat);
// Was the content old enough when it was read that a later change must show?
bool Trusted(const FileFingerprint& known);
inline constexpr int64_t kFingerprintTrustNs = 2'000'000'000;  // Truth 5.

// Manifest nodes without digests from what lies at `base` below `root` now,
// sorted. Special files are left out and named to the observer.
absl::StatusOr<std::vector<ManifestNode>> NodesIn(Context& context,
                                                  const Root& root,
                                                  std::string_view base,
                                                  std::vector<LiveNode> live);
absl::StatusOr<std::vector<ManifestNode>> NodesOf(
    Context& context, const CheckpointShape& shape,
    const std::vector<LiveNode>& live);

// --- Content
// -------------------------------------------------------------------

// Where content first differs from its digests, or cannot be read in full.
struct Mismatch {
  std::string file;  // Relative to the base.
  uint64_t offset = 0;
  std::string kind;  // "corrupt", "truncated", "missing", "zero-filled".
  std::string message;
};

// Reads `path` (relative to the accelerator's root) and digests its blocks,
// with SHA-256. `on_bytes` hears of progress; may be null.
absl::StatusOr<std::vector<BlockDigest>> DigestFile(
    Context& context, std::string_view path, uint64_t size_bytes,
    const std::function<void(uint64_t)>& on_bytes);

// Compares the files at `base` on the accelerator tier with the manifest's
// digests, in parallel; stops looking at a file at its first bad block. A file
// without digests is only compared in size. Returns every mismatch, by file.
absl::StatusOr<std::vector<Mismatch>> CompareContent(Context& context,
                                                     const Manifest& manifest,
                                                     std::string_view base);

// The same over the objects of the core tier. `quick`: presence and size only.
absl::StatusOr<std::vector<Mismatch>> CompareCore(Context& context,
                                                  const Manifest& manifest,
                                                  bool quick);

// --- Keys on the core tier ---------------------------------------------------

// The natural key of a node: the path of the file below the tier's root.
std::string NaturalKey(const Manifest& manifest, const ManifestNode& node);
std::string KeyOf(const Manifest& manifest, const ManifestNode& node);
// Could every object store and tool carry this as it is? (Printable UTF-8, at
// most kKeyBytesMax, no component that is too long, ends in a dot or is
// reserved.)
bool IsNaturalKeySafe(std::string_view key);

// --- Manifests and marks on the tiers ----------------------------------------

absl::StatusOr<Manifest> ReadAcceleratorManifest(
    Context& context, const CheckpointRecord& record);
absl::StatusOr<Manifest> ReadCoreManifest(Context& context,
                                          const CheckpointRecord& record);
// The one with the most digests that can be had: core, then accelerator.
absl::StatusOr<Manifest> ReadBestManifest(Context& context,
                                          const CheckpointRecord& record);
// Durable when it returns. `replace`: the same generation with digests added.
absl::Status WriteAcceleratorManifest(Context& context,
                                      const Manifest& manifest, bool replace);
absl::Status RemoveAcceleratorManifest(Context& context,
                                       const CheckpointRecord& record);

// Writes `mark` durably on both tiers, the core tier first (it outlives the
// other).
absl::Status WriteMark(Context& context, std::string_view checkpoint_path,
                       Mark mark);
// Every mark on both tiers, without doubles.
absl::StatusOr<std::vector<Mark>> ReadMarks(Context& context,
                                            std::string_view checkpoint_path);

// The record with pins, holds and releases as the tiers' marks say now. For
// whoever is about to remove something: the catalog may be behind another
// process.
absl::StatusOr<CheckpointRecord> WithMarks(Context& context,
                                           CheckpointRecord record);

// --- Records
// -------------------------------------------------------------------

CheckpointShape ShapeOf(const CheckpointRecord& record,
                        const Manifest* manifest);
CheckpointShape ShapeOf(const Manifest& manifest);
CheckpointRecord RecordOf(const Manifest& manifest);
// What happened to it, for a report.
Outcome OutcomeOf(const CheckpointRecord& record, Outcome::Kind kind,
                  std::string message);
CheckpointInfo ToInfo(const CheckpointRecord& record, bool newest_generation);

// Resolves what a user typed (escaped) to a record's newest generation, or to
// `generation` if that is not "". kNotFound says what there is instead.
absl::StatusOr<CheckpointRecord> FindCheckpoint(Context& context,
                                                std::string_view path,
                                                std::string_view generation);
// Newest generations under a path: a checkpoint, a run, or a prefix directory.
absl::StatusOr<std::vector<CheckpointRecord>> FindCheckpoints(
    Context& context, const std::vector<std::string>& paths);

}  // namespace cairn
