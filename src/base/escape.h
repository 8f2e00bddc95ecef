// Names are bytes; this is the one printable form of them, used in manifests,
// the catalog, the command line and messages.
//
// A byte that is part of printable, well-formed UTF-8 stands for itself, except
// the percent sign. Every other byte (control characters, DEL, C1 controls,
// line and paragraph separators, bidirectional controls, ill-formed UTF-8) and
// the percent sign is written %XX with upper-case digits. Nothing is
// normalised: composed and decomposed forms stay two names. Escaping is
// injective.

#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace cairn {

std::string EscapeName(std::string_view name);

// kInvalidArgument: a percent sign that two hex digits do not follow, or text
// that EscapeName would not have produced (so that a name has one form only).
absl::StatusOr<std::string> UnescapeName(std::string_view text);

}  // namespace cairn
