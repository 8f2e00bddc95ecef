// Runs a piece of a test in a forked child, where limits, users and mounts can
// be changed without effect on the rest. For tests that run no threads.

#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace cairn {

// What `body` returned in the child: "" is success by convention. A child that
// dies gives a text that says so.
std::string RunInChild(const std::function<std::string()>& body);

// For use in a child of root: becomes nobody for good. Aborts on failure.
void BecomeNobody();
inline constexpr unsigned kNobody = 65534;

// For use in a child of root: mounts a tmpfs of `options` on `directory`, seen
// by this process only. False where that is not allowed.
bool MountPrivateTmpfs(const std::string& directory,
                       const std::string& options);
bool RemountReadOnly(const std::string& directory);

// True in the test program to which the kernel refuses io_uring, openat2 and
// renameat2.
bool KernelRefuses();

}  // namespace cairn
