// Partial work on the accelerator tier: restores and saves that are not
// published.
//
// .cairn/staging/<attempt>/ holds `lock` (flock'ed while its owner lives),
// `tree/` (the files being made, at their paths relative to the checkpoint's
// base) and, from the moment when all is durable and the decision to publish
// has fallen, `publish.jsonl.zst` (the manifest). From then on publishing only
// goes forward: every file or the directory is renamed to its place, then the
// manifest is written at its place, then the attempt is removed; Recover()
// finishes what a dead process left at that stage and leaves everything earlier
// for resuming or sweeping.

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "catalog/manifest.h"
#include "engine/context.h"

namespace cairn {

// One attempt, owned. One thread at a time (its tree may be filled by several).
class Staging {
 public:
  // Takes `attempt` ("restore-<generation>", "save-<generation>"), new or left
  // over by a dead process. kUnavailable: its owner is alive.
  static absl::StatusOr<Staging> Take(Context& context,
                                      std::string_view attempt);
  Staging(Staging&&) = default;

  // Path of a node, relative to the accelerator's root. "" is the tree itself.
  std::string TreePath(std::string_view node) const;
  // True if an earlier owner left files in the tree.
  bool resumed() const { return resumed_; }

  // REQUIRES: every file in the tree has its content, attributes and is
  // durable. Publishes as described above. With `replace`, what lies at the
  // checkpoint's place is moved into the attempt first and removed with it at
  // the end; else it is kAlreadyExists. Records nothing in the catalog: the
  // attempt stays until the caller has done that and calls Discard(), so that a
  // kill between is made up for by RecoverStaging().
  absl::Status Publish(const Manifest& manifest, bool replace);

  // Removes the attempt with all it holds. Without it, destruction leaves the
  // files for a later attempt of the same name.
  absl::Status Discard();

 private:
  Staging(Context* context, std::string directory, UniqueFd lock, bool resumed);
  Context* context_;
  std::string directory_;
  UniqueFd lock_;
  bool resumed_;
};

struct StagingLeftover {
  std::string directory;  // Relative to the root.
  uint64_t bytes = 0;
  int64_t newest_mtime_ns = 0;
};

// Finishes every publication that a dead process had begun, and calls `record`
// with the manifest of each before its attempt is removed.
absl::Status RecoverStaging(
    Context& context, absl::FunctionRef<absl::Status(const Manifest&)> record);

// Attempts whose owner is dead, after RecoverStaging().
absl::StatusOr<std::vector<StagingLeftover>> ListStagingLeftovers(
    Context& context);
// kUnavailable: it came to life.
absl::Status RemoveStagingLeftover(Context& context,
                                   const StagingLeftover& leftover);

}  // namespace cairn
