// Accelerator tier -> core tier, one checkpoint at a time.
//
// Every object is stored and verified before the manifest, which goes up last
// and behind a barrier; only then does the checkpoint count as archived. One
// that changes while it is read is reported, and not archived. After a crash
// the same call goes on with what the store holds.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/rate_limiter.h"
#include "cairn/store.h"
#include "engine/checkpoint_files.h"
#include "engine/context.h"
#include "engine/file_export.h"

namespace cairn {

// One thread at a time.
class Exporter {
 public:
  Exporter(Context* context, const ExportOptions& options);

  // What is to be exported, newest first: the newest generations under `paths`
  // (all, if empty), without those archived already unless named.
  absl::StatusOr<std::vector<CheckpointRecord>> Select(
      const std::vector<std::string>& paths);

  // Never a Status: whatever happens to one checkpoint is its outcome.
  Outcome Export(const CheckpointRecord& selected);

 private:
  absl::StatusOr<Outcome> TryExport(const CheckpointRecord& selected);
  absl::StatusOr<std::optional<Outcome>> SettleWithout(
      CheckpointRecord* record);
  absl::Status RecordArchived(const Manifest& manifest,
                              const CheckpointRecord& record,
                              const std::vector<LiveNode>& live,
                              int64_t known_ns);
  absl::Status Archive(Manifest* manifest, std::vector<LiveNode>* live,
                       int64_t* known_ns);
  absl::Status SendFiles(Manifest* manifest, std::vector<LiveNode>* live);
  absl::Status ConfirmUnchanged(const Manifest& manifest,
                                std::vector<LiveNode>* live);
  absl::Status Publish(const Manifest& manifest);
  absl::StatusOr<bool> NaturalKeysFree(const Manifest& manifest);

  Context& context_;
  const ExportOptions options_;
  RateLimiter limiter_;
  ExportCounters counters_;
};

}  // namespace cairn
