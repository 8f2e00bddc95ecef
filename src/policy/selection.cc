#include "policy/selection.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace cairn {

bool IsRestorable(const CheckpointRecord& record) {
  const bool from_accelerator = record.accelerator.present &&
                                !record.accelerator.damaged && !record.dirty;
  const bool from_core = record.core.manifest && !record.core.damaged;
  return from_accelerator || from_core;
}

ReleaseDecision DecideRelease(const CheckpointRecord& record,
                              const std::vector<CheckpointRecord>& run,
                              int64_t now_ns) {
  const auto keep = [](std::string why) {
    return ReleaseDecision{.allowed = false, .reason = "kept: " + why};
  };
  if (!record.accelerator.present) {
    return keep("not on the accelerator tier");
  }
  if (!record.core.manifest) return keep("not archived");
  if (record.core.damaged) return keep("its archived copy is damaged");
  if (record.core.verified_ns == 0) {
    return keep("its archived copy was never verified");
  }
  if (record.dirty) return keep("changed since it was archived");
  if (record.pinned) return keep("pinned");
  if (record.hold_until_ns.value_or(0) > now_ns) return keep("on hold");
  const auto newer = [&record](const CheckpointRecord& other) {
    return other.sequence > record.sequence && IsRestorable(other);
  };
  if (std::none_of(run.begin(), run.end(), newer)) {
    return keep("newest of run");
  }
  return {.allowed = true, .reason = "released: archived and verified"};
}

void SortNewestFirst(std::vector<CheckpointRecord>& records) {
  std::stable_sort(records.begin(), records.end(),
                   [](const CheckpointRecord& a, const CheckpointRecord& b) {
                     return a.sequence > b.sequence;
                   });
}

std::vector<NewFind> OrderOfAdoption(std::vector<NewFind> finds,
                                     std::string* warning) {
  // What has no step comes first: it can't be newer than what says it is.
  const auto key = [](const NewFind& find) {
    return std::tuple(find.step.value_or(std::numeric_limits<int64_t>::min()),
                      find.marker_mtime_ns, find.name);
  };
  std::sort(
      finds.begin(), finds.end(),
      [&key](const NewFind& a, const NewFind& b) { return key(a) < key(b); });
  for (size_t i = 1; i < finds.size(); ++i) {
    const NewFind& before = finds[i - 1];
    const NewFind& after = finds[i];
    const bool both = before.step.has_value() && after.step.has_value();
    if (both && before.marker_mtime_ns > after.marker_mtime_ns) {
      *warning = before.name + " has a lower step than " + after.name +
                 " and was finished later; the step decides which is newer";
      break;
    }
  }
  return finds;
}

ChangeVerdict JudgeChange(const ChangeEvidence& evidence) {
  if (evidence.checksum_failed) return ChangeVerdict::kDamaged;
  const bool only_added = !evidence.content_changed && !evidence.files_vanished;
  if (only_added) {
    return evidence.complete ? ChangeVerdict::kRewritten
                             : ChangeVerdict::kWriting;
  }
  // Its owner writes the marker anew, after the rest; a fault of the disk, or a
  // stray write, does not.
  const bool marker_untouched =
      evidence.marker_known && !evidence.marker_rewritten;
  if (marker_untouched) return ChangeVerdict::kDamaged;
  if (evidence.complete) return ChangeVerdict::kRewritten;
  return evidence.malformed ? ChangeVerdict::kDamaged : ChangeVerdict::kWriting;
}

}  // namespace cairn
