// Makes checkpoints exist: the manifest on the accelerator tier and the
// catalog's record of it.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cairn/store.h"
#include "engine/checkpoint_files.h"
#include "engine/context.h"
#include "format/recogniser.h"

namespace cairn {

// Commits what lies at `finding` as a new generation: looks at the files, gives
// it the next sequence of its run, writes the manifest (no digests: nothing was
// read), records it. Generations that it supersedes lose their accelerator
// copy, and vanish where they had no other. REQUIRES: the files are durable
// (SyncFileSystem). kUnavailable: it changed meanwhile; look again.
absl::StatusOr<CheckpointRecord> CommitFinding(
    Context& context, const Finding& finding, std::string_view origin,
    const std::map<std::string, std::string>& labels);

// The next sequence of a run: more than any before, and not less than the wall
// clock in microseconds, so that runs without a catalog keep their order too.
// REQUIRES: Lock::OfCommits.
absl::StatusOr<uint64_t> NextSequence(Context& context, std::string_view run);

// Puts a generation that exists on the accelerator tier (its manifest is there)
// into the catalog, with the marks that apply, and retires the ones before it.
absl::Status RecordPresent(Context& context, const Manifest& manifest,
                           const std::vector<LiveNode>& live, int64_t known_ns);

// `cairn commit` and `cairn adopt`.
absl::StatusOr<CheckpointRecord> CommitByHand(Context& context,
                                              std::string_view path,
                                              const CommitOptions& options);

}  // namespace cairn
