#include "engine/locks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/digest.h"
#include "base/escape.h"
#include "base/status_macros.h"

namespace cairn {
namespace {

absl::StatusOr<UniqueFd> OpenLockFile(const std::string& state_dir,
                                      const std::string& name) {
  const std::string directory = state_dir + "/locks";
  if (mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) {
    return PosixError(errno, "make directory", directory);
  }
  const std::string path = directory + "/" + name;
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!fd.ok()) return PosixError(errno, "open lock file", path);
  return fd;
}

std::string CheckpointLockName(std::string_view checkpoint_path) {
  return ToHex(Sha256Of(AsBytes(checkpoint_path))).substr(0, 32);
}

int FlockRepeating(int fd, int operation) {
  int result;
  do {
    result = flock(fd, operation);
  } while (result != 0 && errno == EINTR);
  return result;
}

// Who holds a checkpoint, as its lock file tells; the file may be older than
// the lock, so this is a hint for people only.
std::string Holder(int fd) {
  char text[256];
  const ssize_t size = pread(fd, text, sizeof(text), 0);
  return size > 0 ? std::string(text, static_cast<size_t>(size)) : "unknown";
}

void SayWhoHolds(int fd, std::string_view purpose) {
  const std::string text = fmt::format("process {} ({})", getpid(), purpose);
  // Only a hint: a failure here changes nothing.
  if (ftruncate(fd, 0) == 0) {
    [[maybe_unused]] const ssize_t ignored =
        pwrite(fd, text.data(), text.size(), 0);
  }
}

}  // namespace

absl::StatusOr<Lock> Lock::Wait(const std::string& state_dir,
                                const std::string& name, int operation) {
  CAIRN_ASSIGN_OR_RETURN(UniqueFd fd, OpenLockFile(state_dir, name));
  if (FlockRepeating(fd.get(), operation) != 0) {
    return PosixError(errno, "lock", state_dir + "/locks/" + name);
  }
  return Lock(std::move(fd));
}

absl::StatusOr<Lock> Lock::OfStore(const std::string& state_dir, Mode mode) {
  return Wait(state_dir, "store", mode == Mode::kShared ? LOCK_SH : LOCK_EX);
}

absl::StatusOr<Lock> Lock::OfCommits(const std::string& state_dir) {
  return Wait(state_dir, "commits", LOCK_EX);
}

std::string Lock::PurposeOfHolder(const std::string& state_dir,
                                  std::string_view checkpoint_path) {
  const std::string path =
      state_dir + "/locks/" + CheckpointLockName(checkpoint_path);
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.ok() || FlockRepeating(fd.get(), LOCK_SH | LOCK_NB) == 0) return "";
  const std::string holder = Holder(fd.get());
  const size_t open = holder.find('(');
  const size_t close = holder.find(')');
  if (open == std::string::npos || close == std::string::npos) return "";
  return holder.substr(open + 1, close - open - 1);
}

absl::StatusOr<Lock> Lock::OfCheckpoint(const std::string& state_dir,
                                        std::string_view checkpoint_path,
                                        std::string_view purpose) {
  const std::string name = CheckpointLockName(checkpoint_path);
  CAIRN_ASSIGN_OR_RETURN(UniqueFd fd, OpenLockFile(state_dir, name));
  if (FlockRepeating(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return PosixError(errno, "lock", state_dir + "/locks/" + name);
    }
    return absl::UnavailableError(
        fmt::format("{} is being worked on by {}; wait for it, or stop it",
                    EscapeName(checkpoint_path), Holder(fd.get())));
  }
  SayWhoHolds(fd.get(), purpose);
  return Lock(std::move(fd));
}

}  // namespace cairn
