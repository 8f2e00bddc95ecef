#include "catalog/mark.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/escape.h"
#include "base/status_macros.h"
#include "catalog/manifest.h"
#include "catalog/manifest_check.h"
#include "catalog/record.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr int kMarkVersion = 1;
constexpr char kMarks[] = ".cairn/marks";
constexpr size_t kWordsBytesMax = 4096;  // Of a reason or a user.
constexpr std::array kKinds = {MarkKind::kPin, MarkKind::kUnpin,
                               MarkKind::kRelease, MarkKind::kPresent};

std::string Words(const std::string& text) {
  return EscapeName(std::string_view(text).substr(0, kWordsBytesMax));
}

}  // namespace

const char* MarkKindName(MarkKind kind) {
  switch (kind) {
    case MarkKind::kPin:
      return "pin";
    case MarkKind::kUnpin:
      return "unpin";
    case MarkKind::kRelease:
      return "release";
    case MarkKind::kPresent:
      return "present";
  }
  return "";
}

std::string MarkDirectory(std::string_view checkpoint_path) {
  return JoinPath(kMarks, checkpoint_path);
}

std::string MarkPath(std::string_view checkpoint_path, const Mark& mark,
                     uint32_t nonce) {
  return JoinPath(MarkDirectory(checkpoint_path),
                  fmt::format("{:020}-{}-{:08x}.json", mark.time_us,
                              MarkKindName(mark.kind), nonce));
}

std::string EncodeMark(const Mark& mark) {
  nlohmann::json fields;
  fields["kind"] = MarkKindName(mark.kind);
  fields["time_us"] = mark.time_us;
  fields["generation"] = mark.generation;
  if (mark.until_ns.has_value()) fields["until_ns"] = *mark.until_ns;
  fields["reason"] = Words(mark.reason);
  fields["user"] = Words(mark.user);
  return EncodeRecord("mark", kMarkVersion, std::move(fields));
}

absl::StatusOr<Mark> DecodeMark(ByteView text) {
  CAIRN_ASSIGN_OR_RETURN(const Record record,
                         Record::Decode("mark", kMarkVersion, text));
  Mark mark;
  CAIRN_ASSIGN_OR_RETURN(const std::string name, record.Text("kind"));
  const auto kind = std::find_if(
      kKinds.begin(), kKinds.end(),
      [&name](MarkKind candidate) { return name == MarkKindName(candidate); });
  if (kind == kKinds.end()) {
    return record.Fault("kind", "is none of pin, unpin, release, present");
  }
  mark.kind = *kind;
  CAIRN_ASSIGN_OR_RETURN(const int64_t time_us, record.Integer("time_us"));
  if (time_us < 0) return record.Fault("time_us", "is negative");
  mark.time_us = static_cast<uint64_t>(time_us);
  CAIRN_ASSIGN_OR_RETURN(mark.generation, record.Text("generation"));
  if (!mark.generation.empty() && !IsHexId(mark.generation)) {
    return record.Fault("generation", "is not 32 hex digits");
  }
  CAIRN_ASSIGN_OR_RETURN(mark.until_ns, record.OptionalInteger("until_ns"));
  CAIRN_ASSIGN_OR_RETURN(mark.reason, record.Name("reason"));
  CAIRN_ASSIGN_OR_RETURN(mark.user, record.Name("user"));
  return mark;
}

MarkState SummariseMarks(const std::vector<Mark>& marks,
                         std::string_view generation) {
  std::vector<const Mark*> ordered;
  for (const Mark& mark : marks) {
    if (mark.generation.empty() || mark.generation == generation) {
      ordered.push_back(&mark);
    }
  }
  // As their file names sort: by time, then by the name of the kind. The nonce
  // is not known here; the order of the list stands for it.
  std::sort(ordered.begin(), ordered.end(), [](const Mark* a, const Mark* b) {
    const std::string_view a_kind = MarkKindName(a->kind);
    const std::string_view b_kind = MarkKindName(b->kind);
    return std::tie(a->time_us, a_kind, a) < std::tie(b->time_us, b_kind, b);
  });
  MarkState state;
  for (const Mark* const mark : ordered) {
    switch (mark->kind) {
      case MarkKind::kPin:
        if (mark->until_ns.has_value()) {
          state.hold_until_ns = std::max(
              *mark->until_ns, state.hold_until_ns.value_or(*mark->until_ns));
        } else {
          state.pinned = true;
        }
        state.pin_reason = mark->reason;
        break;
      case MarkKind::kUnpin:
        state.pinned = false;
        state.hold_until_ns.reset();
        state.pin_reason.clear();
        break;
      case MarkKind::kRelease:
        state.released = true;
        break;
      case MarkKind::kPresent:
        state.released = false;
        break;
    }
  }
  return state;
}

}  // namespace cairn
