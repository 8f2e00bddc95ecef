// What root.cc and root_write.cc share: reading directories and statx, always
// relative to an open directory, never following a symlink.

#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "io/root.h"

namespace cairn::root_internal {

// statx of `name` in `directory`, or with "" of the descriptor itself; 0 or an
// errno.
int StatNode(int directory, const char* name, NodeStat* stat);

// Every name in the open directory but "." and "..", in no order. `buffer` is
// scratch space that the caller reuses. 0 or an errno; ENOENT if the directory
// has been removed, EBADMSG for a name that no directory can hold.
int ReadNames(int directory, std::vector<char>* buffer,
              std::vector<std::string>* names);

// open(2) that goes on after EINTR; a descriptor or a negated errno. A symlink
// is never followed: ELOOP.
int OpenChild(int directory, const char* name, int flags, mode_t mode = 0);

struct SplitPath {
  std::string_view parent;  // "" is the root.
  std::string_view name;
};
SplitPath Split(std::string_view path);

inline constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

}  // namespace cairn::root_internal
