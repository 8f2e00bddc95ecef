#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace cairn {

void CheckFailed(const char* condition, const char* file, int line) {
  // stdio alone: memory may be exhausted or torn when we get here.
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace cairn
