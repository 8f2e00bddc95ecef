// What only a bug can break. Stays on in release builds: a store that has lost
// its invariants must stop before it publishes or deletes anything.

#pragma once

namespace cairn {

[[noreturn]] void CheckFailed(const char* condition, const char* file,
                              int line);

}  // namespace cairn

#define CAIRN_CHECK(condition)                              \
  do {                                                      \
    if (!(condition)) {                                     \
      ::cairn::CheckFailed(#condition, __FILE__, __LINE__); \
    }                                                       \
  } while (false)
