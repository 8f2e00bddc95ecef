#include "base/path.h"

namespace cairn {

std::string JoinPath(std::string_view a, std::string_view b) {
  if (a.empty()) return std::string(b);
  if (b.empty()) return std::string(a);
  std::string path;
  path.reserve(a.size() + 1 + b.size());
  path.append(a).append(1, '/').append(b);
  return path;
}

}  // namespace cairn
