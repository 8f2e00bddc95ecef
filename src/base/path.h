// Relative paths as bytes, components joined by '/'.

#pragma once

#include <string>
#include <string_view>

namespace cairn {

// "a/b"; an empty side is neutral.
std::string JoinPath(std::string_view a, std::string_view b);

}  // namespace cairn
