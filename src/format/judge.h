// From a rule and a content to a verdict: which markers are there, what the
// checks say, how long nothing has changed.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "format/checkpoint_content.h"
#include "format/content_checks.h"
#include "format/framework_rules.h"
#include "format/recogniser.h"
#include "format/tree_view.h"

namespace cairn {

// A file without a marker that fails its check is still being written when it
// changed less than this ago (a plain torch.save writes its directory last),
// and damaged otherwise.
inline constexpr absl::Duration kFreshFor = absl::Seconds(60);

// A checkpoint without its completion marker is being written while anything in
// it has changed within this; after that nobody can tell (a killed save, a copy
// that left the marker out).
inline constexpr absl::Duration kAbandonedAfter = absl::Hours(1);

// `text` with each of `values` put in for its key.
std::string Expand(
    std::string_view text,
    const std::vector<std::pair<std::string_view, std::string>>& values);

// One examination. One thread at a time.
class Judge {
 public:
  // `tree` must outlive it.
  Judge(TreeView& tree, absl::Time now,
        std::optional<absl::Duration> generic_quiet)
      : tree_(tree), now_(now), generic_quiet_(generic_quiet) {}

  TreeView& tree() const { return tree_; }

  // Sets what `finding` says of the content; its run, name, layout, framework
  // and numbers by name are set already.
  absl::Status Decide(const Completion& completion,
                      const CheckpointContent& content, Finding& finding) const;

  // The same for a directory with the name of a save that has not ended.
  void Staging(const std::vector<TreeEntry>& entries, Finding& finding) const;

  // By its content; false too where it cannot be read.
  absl::StatusOr<bool> NamesShardedBackend(std::string_view path) const;
  absl::StatusOr<bool> BeginsAsTorch(std::string_view path) const;

 private:
  struct Markers;

  Markers FindMarkers(const Completion& completion,
                      const CheckpointContent& content,
                      const std::string& key) const;
  absl::StatusOr<std::optional<Problem>> FindProblem(
      const Completion& completion, const CheckpointContent& content,
      const Markers& markers, CheckContext& context) const;
  void Weigh(const Problem& problem, Proof proof,
             const CheckpointContent& content, Finding& finding) const;
  void WeighSound(const Completion& completion, Proof proof,
                  const CheckpointContent& content, const CheckContext& context,
                  Finding& finding) const;
  void WeighQuiet(std::optional<absl::Duration> quiet,
                  const CheckpointContent& content, Finding& finding) const;
  absl::Duration Age(int64_t mtime_ns) const;
  bool ChangedWithin(int64_t mtime_ns, absl::Duration duration) const;

  TreeView& tree_;
  const absl::Time now_;
  const std::optional<absl::Duration> generic_quiet_;
};

}  // namespace cairn
