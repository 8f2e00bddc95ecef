// What cairn says about checkpoints: plain values, no behaviour.
//
// Paths of checkpoints ("run/name") and files are raw bytes; print them with
// cairn::EscapeForDisplay (or `--json`, where they are escaped already). Sizes
// are bytes, times are nanoseconds since 1970 UTC. docs/format.md defines the
// words.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

// Where a checkpoint is in its life; names follow Lustre HSM where they can.
enum class State {
  kWriting,    // In progress, or incomplete: not a checkpoint yet.
  kLocal,      // Committed on the accelerator tier only.
  kExporting,  // On its way to the core tier.
  kArchived,   // Committed on the core tier (and, if `present`, on both).
  kReleased,   // On the core tier only, because cairn released it.
  kRestoring,  // On its way back.
};
const char* StateName(State state);

enum class Durability { kStaged, kNode, kLocal, kArchived };
const char* DurabilityName(Durability durability);

enum class TierChoice { kAccelerator, kCore, kBoth };

// One generation of a checkpoint.
struct CheckpointInfo {
  std::string run;
  std::string name;
  std::string path;  // run/name.
  std::string framework;
  std::optional<int64_t> step;
  std::optional<int64_t> epoch;
  uint64_t sequence = 0;
  std::string generation;  // 32 hex digits.
  bool newest_generation = true;
  uint64_t files = 0;
  uint64_t bytes = 0;
  int64_t created_ns = 0;
  std::string origin;  // "scan", "commit", "adopt", "save".
  std::map<std::string, std::string> labels;

  State state = State::kLocal;
  bool present = false;   // Its files are on the accelerator tier.
  bool archived = false;  // Its manifest is on the core tier.
  bool dirty = false;  // The files on the accelerator tier have changed since.
  bool pinned = false;
  std::optional<int64_t> hold_until_ns;
  bool damaged = false;  // A copy did not match its digests.
  bool lost = false;     // No good copy is known.
  std::string damage;    // What and where.
};

// Something on the accelerator tier that is no checkpoint (yet).
struct CandidateInfo {
  std::string path;
  std::string framework;
  std::optional<int64_t> step;
  std::string verdict;  // "writing", "damaged", "unknown".
  std::string reason;
};

struct FailureInfo {
  std::string operation;
  std::string path;
  std::string message;
  int64_t time_ns = 0;
};

// What happened to one checkpoint in a verb that takes several.
struct Outcome {
  enum class Kind { kDone, kNothingToDo, kRefused, kFailed, kDamaged };
  std::string path;
  std::string generation;
  Kind kind = Kind::kDone;
  std::string message;         // One sentence: done what, or why not.
  uint64_t bytes = 0;          // Moved, freed or compared.
  uint64_t bytes_skipped = 0;  // Already safely there.
  uint64_t files = 0;
};
const char* OutcomeName(Outcome::Kind kind);

struct BatchReport {
  std::vector<Outcome> outcomes;
  bool dry_run = false;
};

struct ScanReport {
  std::vector<CheckpointInfo> committed;  // New ones, oldest first.
  std::vector<CandidateInfo> candidates;  // Not complete, and why.
  std::vector<Outcome> changes;           // Known ones that changed, and how.
  std::vector<std::pair<std::string, std::string>> ignored;  // Path, why.
  uint64_t checkpoints = 0;  // Complete ones seen on the accelerator tier.
  uint64_t files = 0;
  uint64_t bytes = 0;
};

// One bad spot.
struct Damage {
  std::string tier;  // "accelerator" or "core".
  std::string file;  // Path relative to the tier.
  uint64_t offset = 0;
  std::string kind;  // "corrupt", "truncated", "missing", "zero-filled".
  std::string message;
};

struct VerifyOutcome {
  std::string path;
  std::string generation;
  std::string tier;
  bool good = false;
  bool content_read = false;  // False with --quick, or where no digest exists.
  std::string message;
  std::vector<Damage> damages;
  uint64_t files = 0;
  uint64_t bytes = 0;
};

struct VerifyReport {
  std::vector<VerifyOutcome> outcomes;
};

struct LatestReport {
  CheckpointInfo checkpoint;
  std::string location;  // Absolute path to hand to the framework.
  bool restored = false;
  // Newer ones that were passed over, newest first: path and reason.
  std::vector<std::pair<std::string, std::string>> passed_over;
  std::vector<std::string> warnings;
};

struct RestoreReport {
  CheckpointInfo checkpoint;
  std::string location;
  bool already_there = false;
  uint64_t bytes = 0;          // Fetched.
  uint64_t bytes_skipped = 0;  // Found in an interrupted restore, and verified.
  std::vector<std::string> warnings;
};

struct SweepItem {
  std::string what;  // "staging", "upload", "object", "unreferenced".
  std::string name;
  uint64_t bytes = 0;
  std::string reason;
  bool removed = false;
};
struct SweepReport {
  std::vector<SweepItem> items;
  bool dry_run = false;
};

struct RebuildReport {
  uint64_t manifests_accelerator = 0;
  uint64_t manifests_core = 0;
  uint64_t checkpoints = 0;
  uint64_t marks = 0;
  std::vector<std::string> warnings;  // Damaged manifests, by name.
};

struct StatusReport {
  std::string accelerator_path;
  std::string accelerator_id;
  std::vector<std::string> core_urls;
  std::string core_id;
  uint64_t accelerator_total_bytes = 0;
  uint64_t accelerator_free_bytes = 0;
  std::map<std::string, uint64_t> count_by_state;
  std::map<std::string, uint64_t> bytes_by_state;
  uint64_t unarchived = 0;
  uint64_t unarchived_bytes = 0;
  int64_t oldest_unarchived_ns = 0;  // 0: none.
  uint64_t pinned = 0;
  uint64_t damaged = 0;
  uint64_t lost = 0;
  uint64_t staging_bytes = 0;
  std::vector<CandidateInfo> candidates;
  std::vector<FailureInfo> failures;
};

struct FileInfo {
  std::string path;
  std::string type;  // "file", "directory", "symlink", "hardlink".
  uint64_t size_bytes = 0;
  uint32_t mode = 0;
  int64_t mtime_ns = 0;
  std::string target;
  std::string key;     // Object key on the core tier; "" if not archived.
  std::string sha256;  // Content's name (docs/format.md); "" if not read yet.
};

struct ShowReport {
  CheckpointInfo checkpoint;
  std::vector<CheckpointInfo> generations;  // All, newest first.
  std::vector<FileInfo> files;
  std::vector<std::pair<std::string, std::string>> pointers;
  std::string marker;
  int64_t verified_accelerator_ns = 0;
  int64_t verified_core_ns = 0;
  std::string release;  // "may be released", or why not, in one line.
};

// A line of `cairn doctor`.
struct DoctorItem {
  enum class Level { kGood, kNote, kBad };
  Level level = Level::kGood;
  std::string subject;
  std::string finding;
  std::string advice;  // "" if nothing is to be done.
};
struct DoctorReport {
  std::vector<DoctorItem> items;
};

}  // namespace cairn
