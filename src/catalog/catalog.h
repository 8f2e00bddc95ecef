// The index over both tiers: what exists where, as last seen. It can be deleted
// at any time; `cairn rebuild` makes it again from manifests and marks.
//
// SQL through SOCI, in the subset that SQLite and PostgreSQL share;
// testing/catalog_contract is the executable form of the comments below and
// takes a connection string. Names are stored escaped (base/escape.h), so that
// any tool can read them; this interface takes and gives raw bytes.
//
// Thread-safe (one connection, one mutex). Every method is one transaction.
// Errors: kUnavailable (busy too long), kDataLoss (the file is not a catalog or
// is damaged: delete it and rebuild), kResourceExhausted (disk full).

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cairn {

enum class Tier { kAccelerator, kCore };
const char* TierName(Tier tier);

// What is known of one generation's copy on one tier.
struct CopyRecord {
  bool manifest = false;  // Its manifest is on this tier.
  bool present = false;   // Its files were there when last looked at.
  bool damaged = false;  // A digest did not match, or a file is missing or cut.
  std::string damage;    // What and where, for people.
  int64_t verified_ns = 0;  // When every byte was last compared; 0 never.
  std::string fingerprint;  // Digest of all fingerprints; "" unknown.
  int64_t fingerprint_known_ns = 0;  // Time at which the content was known.

  bool operator==(const CopyRecord&) const = default;
};

// One generation of a checkpoint.
struct CheckpointRecord {
  std::string run;
  std::string name;
  bool is_directory = true;
  uint64_t sequence = 0;
  std::string generation;  // Primary key.
  std::string framework;
  std::optional<int64_t> step;
  std::optional<int64_t> epoch;
  uint64_t files = 0;
  uint64_t bytes = 0;
  int64_t created_ns = 0;
  int64_t marker_mtime_ns = 0;
  std::string origin;
  std::map<std::string, std::string> labels;
  CopyRecord accelerator;
  CopyRecord core;
  bool dirty = false;     // The accelerator's content differs from this one.
  bool released = false;  // By marks.
  bool pinned = false;
  std::optional<int64_t> hold_until_ns;
  std::string activity;  // "", "exporting", "restoring", "releasing".

  bool operator==(const CheckpointRecord&) const = default;
};

// What is known of one file's content on the accelerator tier.
struct FileFingerprint {
  std::string path;  // Relative to the checkpoint's base.
  uint64_t size_bytes = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  uint64_t inode = 0;
  // Wall time at which reading the content began (or it was published).
  int64_t known_ns = 0;

  bool operator==(const FileFingerprint&) const = default;
};

// Something in the accelerator tier that is no checkpoint (yet), as last
// scanned.
struct CandidateRecord {
  std::string run;
  std::string name;
  std::string framework;
  std::optional<int64_t> step;
  std::string verdict;  // VerdictName().
  std::string reason;
  int64_t first_seen_ns = 0;

  bool operator==(const CandidateRecord&) const = default;
};

// A failure somebody should look at, until the same thing succeeds.
struct FailureRecord {
  std::string operation;  // "export", "verify", ...
  std::string subject;    // Checkpoint path, or "" for the store.
  std::string message;
  int64_t time_ns = 0;

  bool operator==(const FailureRecord&) const = default;
};

class Catalog {
 public:
  // "sqlite3:///dir/catalog.db": made if missing (its directory must exist).
  // kDataLoss, kUnimplemented (a newer schema).
  static absl::StatusOr<std::unique_ptr<Catalog>> Open(
      const std::string& connection);
  ~Catalog();

  // --- Tier ids and other settings ------------------------------------------
  absl::StatusOr<std::string> GetSetting(
      std::string_view key);  // "" if absent.
  absl::Status SetSetting(std::string_view key, std::string_view value);

  // --- Checkpoints ----------------------------------------------------------
  absl::Status Upsert(const CheckpointRecord& record);
  absl::Status UpsertAll(const std::vector<CheckpointRecord>& records);
  // Removes it with its fingerprints and uploads. OK if absent.
  absl::Status Remove(std::string_view generation);
  absl::StatusOr<CheckpointRecord> Get(
      std::string_view generation);  // kNotFound
  // Generations of one checkpoint, newest (highest sequence) first.
  absl::StatusOr<std::vector<CheckpointRecord>> Generations(
      std::string_view run, std::string_view name);
  // Generations of one run, newest first.
  absl::StatusOr<std::vector<CheckpointRecord>> OfRun(std::string_view run);
  // All, by run (bytes), then newest first.
  absl::StatusOr<std::vector<CheckpointRecord>> All();
  // Largest sequence in the run; 0 if it has none.
  absl::StatusOr<uint64_t> LargestSequence(std::string_view run);

  // --- Fingerprints of the accelerator copy ---------------------------------
  // Replaces those of `generation`, and its record's accelerator.fingerprint
  // and fingerprint_known_ns (the earliest known_ns). kNotFound: no record of
  // that generation.
  absl::Status SetFingerprints(std::string_view generation,
                               const std::vector<FileFingerprint>& files,
                               std::string_view digest);
  absl::StatusOr<std::vector<FileFingerprint>> GetFingerprints(
      std::string_view generation);  // By path; empty if there are none.

  // --- Journal of unfinished uploads ----------------------------------------
  absl::Status RecordUpload(std::string_view generation, std::string_view key,
                            std::string_view token);
  absl::StatusOr<std::string> FindUpload(std::string_view generation,
                                         std::string_view key);  // "" if none.
  absl::Status ForgetUpload(std::string_view generation, std::string_view key);

  // --- What a scan saw that is no checkpoint; failures ----------------------
  // Replaces all; keeps first_seen_ns of those seen before.
  absl::Status ReplaceCandidates(
      const std::vector<CandidateRecord>& candidates);
  absl::StatusOr<std::vector<CandidateRecord>> Candidates();
  absl::Status RecordFailure(
      const FailureRecord& failure);  // One per (op, subject).
  absl::Status ClearFailure(std::string_view operation,
                            std::string_view subject);
  absl::StatusOr<std::vector<FailureRecord>> Failures();  // Newest first.

  // Flushes and closes; then the file may be renamed. No method may follow.
  absl::Status Close();

 private:
  struct Impl;
  explicit Catalog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
