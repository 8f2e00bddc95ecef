#include "io/child_test_util.h"

#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cairn {

std::string RunInChild(const std::function<std::string()>& body) {
  int ends[2] = {};
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child < 0) return "no child";
  if (child == 0) {
    close(ends[0]);
    const std::string text = body();
    const bool written = write(ends[1], text.data(), text.size()) ==
                         static_cast<ssize_t>(text.size());
    // Past the destructors and exit handlers of the parent.
    // tidy: allow(banned) a forked child must not run them
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = read(ends[0], buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    text += "child died of signal " + std::to_string(WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0) {
    text += "child exited with " + std::to_string(WEXITSTATUS(status));
  }
  return text;
}

void BecomeNobody() {
  if (setgroups(0, nullptr) != 0 || setgid(kNobody) != 0 ||
      setuid(kNobody) != 0) {
    abort();
  }
}

bool MountPrivateTmpfs(const std::string& directory,
                       const std::string& options) {
  return unshare(CLONE_NEWNS) == 0 &&
         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", directory.c_str(), "tmpfs", 0, options.c_str()) == 0;
}

bool RemountReadOnly(const std::string& directory) {
  return mount(nullptr, directory.c_str(), nullptr, MS_REMOUNT | MS_RDONLY,
               nullptr) == 0;
}

bool KernelRefuses() { return getenv("CAIRN_TEST_KERNEL_REFUSES") != nullptr; }

}  // namespace cairn
