// "Did you mean ...?": the known name that a mistyped one is closest to.

#pragma once

#include <span>
#include <string_view>

namespace cairn {

// The one of `known` with the fewest letters to change, leave out, put in or
// exchange; "" where none is close enough to be meant.
std::string_view NearestName(std::string_view name,
                             std::span<const std::string_view> known);

}  // namespace cairn
