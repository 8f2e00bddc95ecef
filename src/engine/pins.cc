#include "engine/pins.h"

#include <string>
#include <utility>
#include <vector>

#include "base/kill_point.h"
#include "base/status_macros.h"
#include "engine/checkpoint_files.h"

namespace cairn {
namespace {

absl::Status Apply(Context& context, std::string_view path, Mark mark) {
  CAIRN_ASSIGN_OR_RETURN(const CheckpointRecord record,
                         FindCheckpoint(context, path, ""));
  const std::string whole = JoinPath(record.run, record.name);
  CAIRN_RETURN_IF_ERROR(WriteMark(context, whole, std::move(mark)));
  CAIRN_KILL_POINT("pin.after_mark");
  CAIRN_ASSIGN_OR_RETURN(const std::vector<Mark> marks,
                         ReadMarks(context, whole));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> generations,
                         context.catalog->Generations(record.run, record.name));
  for (CheckpointRecord generation : generations) {
    const MarkState state = SummariseMarks(marks, generation.generation);
    generation.pinned = state.pinned;
    generation.hold_until_ns = state.hold_until_ns;
    CAIRN_RETURN_IF_ERROR(context.catalog->Upsert(generation));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PinCheckpoint(Context& context, std::string_view path,
                           const PinOptions& options) {
  Mark mark;
  mark.kind = MarkKind::kPin;
  mark.reason = options.reason;
  if (options.hold_for.has_value()) {
    mark.until_ns = absl::ToUnixNanos(context.clock->Now() + *options.hold_for);
  }
  return Apply(context, path, std::move(mark));
}

absl::Status UnpinCheckpoint(Context& context, std::string_view path) {
  Mark mark;
  mark.kind = MarkKind::kUnpin;
  return Apply(context, path, std::move(mark));
}

}  // namespace cairn
