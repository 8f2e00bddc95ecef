// Finds checkpoints on the accelerator tier, commits the complete ones, and
// notices what became of those already known.
//
// A known checkpoint whose fingerprint is unchanged costs one statx a file and
// nothing else. One that was touched is *unknown*: what was touched is read
// again; equal digests refresh the fingerprint, and only different content is a
// rewrite or damage (policy/selection.h, JudgeChange). Absence under a valid
// tier id without a release record is its owner's delete.

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cairn/store.h"
#include "engine/checkpoint_files.h"
#include "engine/context.h"
#include "engine/root_tree_view.h"

namespace cairn {

// What a look at a known checkpoint's accelerator copy says.
enum class CopyVerdict {
  kUnchanged,  // Same fingerprint.
  kEqual,      // Touched, read again, same content: fingerprint refreshed.
  kAbsent,     // Not there.
  kRewritten,  // Other content, complete: a new generation to be committed.
  kWriting,    // Other content, not complete (yet).
  kDamaged,    // Other content that its owner did not write.
};
struct CopyCheck {
  CopyVerdict verdict = CopyVerdict::kUnchanged;
  std::string reason;  // For people; "" if unchanged.
  uint64_t bytes_read = 0;
  Finding finding;  // For kRewritten.
  std::vector<LiveNode> live;
};

// Looks at the accelerator copy of `record` and puts what it learns into the
// catalog (fingerprints, present, dirty, damaged); commits and removes nothing.
absl::StatusOr<CopyCheck> CheckCopy(Context& context, RootTreeView& view,
                                    const CheckpointRecord& record);

// One thread at a time; once.
class Scanner {
 public:
  explicit Scanner(Context* context) : context_(*context), view_(context) {}

  absl::StatusOr<ScanReport> Run();

 private:
  absl::Status LoadKnown();
  absl::Status Visit(const std::string& directory);
  absl::Status VisitKnown(const CheckpointRecord& record);
  absl::Status TakeFinding(Finding finding);
  absl::Status Disappeared(const CheckpointRecord& record);
  absl::Status CommitNew();
  absl::StatusOr<CheckpointRecord> CommitFound(const Finding& finding,
                                               const std::string& path);
  void Note(const CheckpointRecord& record, Outcome::Kind kind,
            std::string message);
  void Count(const std::vector<LiveNode>& live);

  Context& context_;
  RootTreeView view_;
  ScanReport report_;
  // Newest generation of each known checkpoint: by path for directories, by run
  // for file checkpoints.
  std::map<std::string, CheckpointRecord> known_directories_;
  std::map<std::string, std::vector<CheckpointRecord>> known_files_;
  std::vector<std::string> queue_;
  std::vector<std::string> unreadable_;  // Directories, each with a slash.
  std::vector<Finding> found_;
};

}  // namespace cairn
