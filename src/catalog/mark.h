// Marks: small records beside the manifests that say what people and policy
// decided of a checkpoint: pins, holds, releases. Written durably, on every
// tier that is reachable, before the act they record. A mark is never changed;
// a later one overrides it, so that they work in write-once containers too.
//
// Path: .cairn/marks/<run>/<name>/<time in microseconds, 20 digits>-<kind>-<8
// hex>.json

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"

namespace cairn {

enum class MarkKind {
  kPin,  // Never release; until `until_ns` if given (then it is a hold).
  kUnpin,
  kRelease,  // The accelerator copy of `generation` is being released.
  kPresent,  // It is back (restored): overrides kRelease.
};
const char* MarkKindName(MarkKind kind);

struct Mark {
  MarkKind kind = MarkKind::kPin;
  uint64_t time_us = 0;    // Orders marks; ties by name.
  std::string generation;  // "" : all generations of the checkpoint.
  std::optional<int64_t> until_ns;
  std::string reason;  // A person's words.
  std::string user;

  bool operator==(const Mark&) const = default;
};

std::string MarkDirectory(std::string_view checkpoint_path);
// Full path below the tier's root; `nonce` keeps marks of one microsecond
// apart.
std::string MarkPath(std::string_view checkpoint_path, const Mark& mark,
                     uint32_t nonce);
std::string EncodeMark(const Mark& mark);
absl::StatusOr<Mark> DecodeMark(ByteView text);

// What the marks of a checkpoint add up to, for one generation of it. Pure.
struct MarkState {
  bool pinned = false;  // By a pin without end.
  std::optional<int64_t>
      hold_until_ns;  // The latest end of a hold (may be past).
  bool released = false;
  std::string pin_reason;
  bool operator==(const MarkState&) const = default;
};
MarkState SummariseMarks(const std::vector<Mark>& marks,
                         std::string_view generation);

}  // namespace cairn
