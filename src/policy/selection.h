// Which checkpoint: pure decisions over what the catalog knows. No I/O, no
// clock.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog.h"

namespace cairn {

// May the accelerator copy of `record` be released? `reason` in one line for
// people, either way: "released: archived and verified" / "kept: newest of
// run".
struct ReleaseDecision {
  bool allowed = false;
  std::string reason;
};
// `run`: every generation in the record's run. What only a look at the files
// can tell (unchanged? open?) comes on top, in the engine.
ReleaseDecision DecideRelease(const CheckpointRecord& record,
                              const std::vector<CheckpointRecord>& run,
                              int64_t now_ns);

// Is there a copy that a restore could use?
bool IsRestorable(const CheckpointRecord& record);

// Newest committed first: by sequence, never by name or mtime.
void SortNewestFirst(std::vector<CheckpointRecord>& records);

// Order in which several new finds of one run get their sequences: by step,
// then by marker time. `warning` is set where step and time disagree.
struct NewFind {
  size_t index = 0;  // The caller's.
  std::optional<int64_t> step;
  int64_t marker_mtime_ns = 0;
  std::string name;
};
std::vector<NewFind> OrderOfAdoption(std::vector<NewFind> finds,
                                     std::string* warning);

// A known checkpoint's content is no longer what was committed: is it a rewrite
// by its owner, or damage? (docs/durability.md, "Changed or damaged".)
struct ChangeEvidence {
  bool complete = false;   // The recogniser's verdict on what is there now.
  bool malformed = false;  // It calls a file cut, missing or malformed.
  bool content_changed = false;  // Some file of the manifest has other content.
  bool marker_known = false;     // The framework has a completion marker.
  bool marker_rewritten = false;  // The marker is newer than the committed one.
  bool files_vanished = false;    // Names of the manifest are missing.
  bool checksum_failed = false;   // The format's own checksum does not match.
};
enum class ChangeVerdict { kRewritten, kDamaged, kWriting };
ChangeVerdict JudgeChange(const ChangeEvidence& evidence);

}  // namespace cairn
