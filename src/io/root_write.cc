// The half of Root that changes things: names, attributes, and making them
// durable. See root.h.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "base/check.h"
#include "base/escape.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "io/root.h"
#include "io/root_internal.h"

namespace cairn {

using root_internal::kNanosecondsPerSecond;
using root_internal::OpenChild;
using root_internal::ReadNames;
using root_internal::Split;
using root_internal::StatNode;

namespace {

// Rounds of emptying one directory into which others keep creating.
constexpr int kRemoveRoundsMax = 16;
constexpr int kTemporaryNamesMax = 16;

bool IsMissing(int error) { return error == ENOENT || error == ENOTDIR; }

// fsync of a directory, 0 or an errno. File systems that know no such thing
// (some FUSE and CIFS ones) say EINVAL; there is nothing to be had from them.
int SyncDirectoryFd(int fd) {
  int result = 0;
  do {
    result = fsync(fd);
  } while (result != 0 && errno == EINTR);
  if (result == 0 || errno == EINVAL || errno == EOPNOTSUPP) return 0;
  return errno;
}

// The same for a descriptor that may be O_PATH.
int SyncDirectoryAt(int directory) {
  const int fd = OpenChild(directory, ".", O_RDONLY | O_DIRECTORY);
  return fd < 0 ? -fd : SyncDirectoryFd(UniqueFd(fd).get());
}

// renameat2(RENAME_NOREPLACE) where it is missing. 0 or an errno.
int RenameByLink(int from_directory, const char* from, int to_directory,
                 const char* to) {
  NodeStat stat;
  if (const int error = StatNode(from_directory, from, &stat); error != 0) {
    return error;
  }
  if (stat.type == NodeType::kDirectory) {
    // Directories have no links. rename(2) replaces an empty directory only,
    // so what can be lost to a race is a name without content.
    NodeStat target;
    const int error = StatNode(to_directory, to, &target);
    if (error == 0) return EEXIST;
    if (error != ENOENT) return error;
    return renameat(from_directory, from, to_directory, to) == 0 ? 0 : errno;
  }
  if (linkat(from_directory, from, to_directory, to, 0) != 0) {
    const int error = errno;
    NodeStat target;
    // NFS repeats a call whose reply was lost, and then finds its own link.
    const bool ours = error == EEXIST && stat.links == 1 &&
                      StatNode(to_directory, to, &target) == 0 &&
                      target.inode == stat.inode &&
                      target.device == stat.device;
    if (!ours) return error;
  }
  return unlinkat(from_directory, from, 0) == 0 ? 0 : errno;
}

// 0 or an errno; EEXIST if `to` exists, whatever it is.
int RenameExclusively(int from_directory, const char* from, int to_directory,
                      const char* to) {
  if (renameat2(from_directory, from, to_directory, to, RENAME_NOREPLACE) ==
      0) {
    return 0;
  }
  // EINVAL: this file system does not; ENOSYS, EPERM: this kernel or sandbox.
  if (errno != EINVAL && errno != ENOSYS && errno != EPERM) return errno;
  return RenameByLink(from_directory, from, to_directory, to);
}

// Removes a node and all below it. Entries that others remove meanwhile are no
// errors; entries that others add are removed too, for a while.
class TreeRemoval {
 public:
  explicit TreeRemoval(std::string path) : path_(std::move(path)) {}

  absl::Status Node(int parent, const char* name, int depth) {
    for (int round = 0; round < kRemoveRoundsMax; ++round) {
      if (unlinkat(parent, name, 0) == 0) return absl::OkStatus();
      const int error = errno;
      if (error == ENOENT) return absl::OkStatus();
      NodeStat stat;
      // EPERM is what POSIX has for directories; it may also be meant.
      const bool directory = (error == EISDIR || error == EPERM) &&
                             StatNode(parent, name, &stat) == 0 &&
                             stat.type == NodeType::kDirectory;
      if (!directory && error != EISDIR) return Error(error);
      if (!directory) continue;
      CAIRN_RETURN_IF_ERROR(Empty(parent, name, depth));
      if (unlinkat(parent, name, AT_REMOVEDIR) == 0) return absl::OkStatus();
      if (errno == ENOENT) return absl::OkStatus();
      if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) {
        return Error(errno);
      }
    }
    return absl::UnavailableError(
        fmt::format("cannot remove {}: somebody keeps creating files in it; "
                    "stop them and repeat",
                    EscapeName(path_)));
  }

 private:
  absl::Status Empty(int parent, const char* name, int depth) {
    if (depth >= kDepthMax) {
      return absl::FailedPreconditionError(
          fmt::format("cannot remove {}: directories are nested more than {} "
                      "deep; remove it with rm -r",
                      EscapeName(path_), kDepthMax));
    }
    int fd = OpenChild(parent, name, O_RDONLY | O_DIRECTORY);
    if (fd == -EACCES &&
        fchmodat(parent, name, 0700, AT_SYMLINK_NOFOLLOW) == 0) {
      fd = OpenChild(parent, name, O_RDONLY | O_DIRECTORY);
    }
    // Gone or replaced: the caller's next look tells.
    if (IsMissing(-fd) || fd == -ELOOP) return absl::OkStatus();
    if (fd < 0) return Error(-fd);
    const UniqueFd directory(fd);
    NodeStat stat;
    if (StatNode(fd, "", &stat) == 0 && (stat.mode & 0700U) != 0700U) {
      // For the owner; another's refusal shows at the first entry.
      static_cast<void>(fchmod(fd, 0700));
    }
    std::vector<std::string> names;
    const int error = ReadNames(fd, &buffer_, &names);
    if (error == ENOENT) return absl::OkStatus();
    if (error != 0) return Error(error);
    const size_t length = path_.size();
    for (const std::string& child : names) {
      path_.append("/").append(child);
      CAIRN_RETURN_IF_ERROR(Node(fd, child.c_str(), depth + 1));
      path_.resize(length);
    }
    return absl::OkStatus();
  }

  absl::Status Error(int error) const {
    return PosixError(error, "remove", path_);
  }

  std::string path_;  // Of the current node, for messages.
  std::vector<char> buffer_;
};

absl::StatusOr<std::string> TemporaryName() {
  uint64_t number[2] = {};
  if (getrandom(number, sizeof(number), 0) != sizeof(number)) {
    return PosixError(errno, "get random bytes for", "a temporary name");
  }
  return fmt::format(".tmp-{:016x}{:016x}", number[0], number[1]);
}

// Writes and syncs; the file is new and ours alone.
int WriteAndSync(int fd, ByteView content) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return EIO;
    content = content.subspan(static_cast<size_t>(written));
  }
  return fsync(fd) == 0 ? 0 : errno;
}

timespec ToTimespec(int64_t nanoseconds) {
  int64_t seconds = nanoseconds / kNanosecondsPerSecond;
  int64_t rest = nanoseconds % kNanosecondsPerSecond;
  if (rest < 0) {
    rest += kNanosecondsPerSecond;
    --seconds;
  }
  return {static_cast<time_t>(seconds), static_cast<long>(rest)};
}

}  // namespace

absl::Status Root::MakeDirectories(std::string_view path) const {
  return MakeDirectoriesSyncing(path, /*sync=*/false);
}

absl::Status Root::MakeDirectoriesSyncing(std::string_view path,
                                          bool sync) const {
  const absl::StatusOr<UniqueFd> there =
      OpenDirectory(path, O_PATH, "make the directory");
  if (there.ok() || !absl::IsNotFound(there.status())) return there.status();
  UniqueFd held;
  int at = fd_.get();
  size_t end = 0;
  bool made = false;
  while (end < path.size()) {
    const size_t start = end == 0 ? 0 : end + 1;
    end = std::min(path.find('/', start), path.size());
    const std::string name(path.substr(start, end - start));
    const std::string_view here = path.substr(0, end);
    int fd = OpenChild(at, name.c_str(), O_PATH | O_DIRECTORY);
    if (fd == -ENOENT) {
      if (mkdirat(at, name.c_str(), 0777) != 0 && errno != EEXIST) {
        return Error(errno, "make the directory", here);
      }
      made = true;
      fd = OpenChild(at, name.c_str(), O_PATH | O_DIRECTORY);
    }
    if (fd == -ENOTDIR) {
      return absl::FailedPreconditionError(fmt::format(
          "cannot make the directory {}: {} is there and is no directory",
          EscapeName(FullPath(path)), EscapeName(FullPath(here))));
    }
    if (fd < 0) return Error(-fd, "make the directory", here);
    UniqueFd next(fd);
    // From the first new name on every parent is synced: another process may
    // have made the rest just now and not have come to its own sync.
    if (made && sync) {
      if (const int error = SyncDirectoryAt(at); error != 0) {
        return Error(error, "sync", Split(here).parent);
      }
    }
    at = fd;
    held = std::move(next);
  }
  return absl::OkStatus();
}

absl::Status Root::MakeSymlink(std::string_view target,
                               std::string_view path) const {
  if (target.empty() || target.find('\0') != target.npos) {
    return absl::InvalidArgumentError(
        fmt::format("cannot make the symlink {}: its target \"{}\" is empty or "
                    "has a NUL byte",
                    EscapeName(FullPath(path)), EscapeName(target)));
  }
  CAIRN_ASSIGN_OR_RETURN(const Parent parent,
                         OpenParent(path, "make the symlink"));
  if (symlinkat(std::string(target).c_str(), parent.fd, parent.name.c_str()) !=
      0) {
    return Error(errno, "make the symlink", path);
  }
  return absl::OkStatus();
}

absl::Status Root::MakeHardLink(std::string_view from,
                                std::string_view to) const {
  CAIRN_ASSIGN_OR_RETURN(const Parent source, OpenParent(from, "link"));
  CAIRN_ASSIGN_OR_RETURN(const Parent target,
                         OpenParent(to, "make the hard link"));
  if (linkat(source.fd, source.name.c_str(), target.fd, target.name.c_str(),
             0) != 0) {
    return Error(errno, "make the hard link", to);
  }
  return absl::OkStatus();
}

absl::Status Root::SetAttributes(std::string_view path, NodeType type,
                                 const Attributes& attributes,
                                 bool* owner_refused) const {
  *owner_refused = false;
  CAIRN_ASSIGN_OR_RETURN(const Parent parent,
                         OpenParent(path, "set the attributes of"));
  const char* name = parent.name.c_str();
  NodeStat stat;
  if (const int error = StatNode(parent.fd, name, &stat); error != 0) {
    return Error(error, "set the attributes of", path);
  }
  if (stat.type != type || type == NodeType::kOther) {
    return absl::FailedPreconditionError(
        fmt::format("cannot set the attributes of {}: it is not the kind of "
                    "node that was expected",
                    EscapeName(FullPath(path))));
  }
  // The owner first: a change of owner takes set-id bits off.
  uint32_t mode = attributes.mode & 07777U;
  if (fchownat(parent.fd, name, attributes.uid, attributes.gid,
               AT_SYMLINK_NOFOLLOW) != 0) {
    // EINVAL: an id that has no meaning in this user namespace.
    if (errno != EPERM && errno != EINVAL) {
      return Error(errno, "set the owner of", path);
    }
    *owner_refused = true;
    mode &= 01777U;
  }
  if (type != NodeType::kSymlink &&
      fchmodat(parent.fd, name, mode, AT_SYMLINK_NOFOLLOW) != 0) {
    return Error(errno, "set the mode of", path);
  }
  const timespec times[2] = {{0, UTIME_OMIT}, ToTimespec(attributes.mtime_ns)};
  if (utimensat(parent.fd, name, times, AT_SYMLINK_NOFOLLOW) != 0) {
    return Error(errno, "set the time of", path);
  }
  return absl::OkStatus();
}

absl::Status Root::Rename(std::string_view from, std::string_view to,
                          bool replace) const {
  CAIRN_ASSIGN_OR_RETURN(const Parent source, OpenParent(from, "rename"));
  CAIRN_ASSIGN_OR_RETURN(const Parent target, OpenParent(to, "rename to"));
  const char* old_name = source.name.c_str();
  const char* new_name = target.name.c_str();
  int error = 0;
  if (!replace) {
    error = RenameExclusively(source.fd, old_name, target.fd, new_name);
  } else if (renameat(source.fd, old_name, target.fd, new_name) != 0) {
    error = errno;
  }
  if (error == 0) return absl::OkStatus();
  const bool about_target = error == EEXIST || error == ENOTEMPTY;
  return about_target ? Error(error, "rename to", to)
                      : Error(error, "rename", from);
}

absl::Status Root::RemoveFile(std::string_view path) const {
  const absl::StatusOr<Parent> parent = OpenParent(path, "remove");
  if (absl::IsNotFound(parent.status())) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(parent.status());
  if (unlinkat(parent->fd, parent->name.c_str(), 0) == 0 || errno == ENOENT) {
    return absl::OkStatus();
  }
  return Error(errno, "remove", path);
}

absl::Status Root::RemoveTree(std::string_view path) const {
  const absl::StatusOr<Parent> parent = OpenParent(path, "remove");
  if (absl::IsNotFound(parent.status())) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(parent.status());
  return TreeRemoval(FullPath(path)).Node(parent->fd, parent->name.c_str(), 0);
}

absl::Status Root::RemoveEmptyDirectory(std::string_view path) const {
  const absl::StatusOr<Parent> parent = OpenParent(path, "remove");
  if (absl::IsNotFound(parent.status())) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(parent.status());
  const char* name = parent->name.c_str();
  if (unlinkat(parent->fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
    return absl::OkStatus();
  }
  if (errno == ENOTDIR) {
    return absl::FailedPreconditionError(
        fmt::format("cannot remove {} as a directory: it is none",
                    EscapeName(FullPath(path))));
  }
  return Error(errno, "remove", path);
}

void Root::RemoveEmptyParents(std::string_view path) const {
  for (;;) {
    path = Split(path).parent;
    if (path.empty() || !RemoveEmptyDirectory(path).ok()) return;
  }
}

absl::Status Root::SyncDirectory(std::string_view path) const {
  CAIRN_ASSIGN_OR_RETURN(const UniqueFd fd,
                         OpenDirectory(path, O_RDONLY, "sync"));
  if (const int error = SyncDirectoryFd(fd.get()); error != 0) {
    return Error(error, "sync", path);
  }
  return absl::OkStatus();
}

absl::Status Root::SyncFileSystem() const {
  if (syncfs(fd_.get()) != 0) {
    return PosixError(errno, "sync the file system of", path_);
  }
  return absl::OkStatus();
}

absl::Status Root::WriteFileDurably(std::string_view path, ByteView content,
                                    bool replace) const {
  CAIRN_RETURN_IF_ERROR(CheckRelativePath(path));
  if (path.empty()) return OpenParent(path, "write").status();
  const auto [directory, final_name] = Split(path);
  CAIRN_RETURN_IF_ERROR(MakeDirectoriesSyncing(directory, /*sync=*/true));
  CAIRN_ASSIGN_OR_RETURN(const UniqueFd parent,
                         OpenDirectory(directory, O_RDONLY, "open"));
  std::string temporary;
  UniqueFd file;
  for (int attempt = 0; !file.ok(); ++attempt) {
    CAIRN_ASSIGN_OR_RETURN(temporary, TemporaryName());
    const int fd = OpenChild(parent.get(), temporary.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_NOCTTY, 0666);
    const bool taken = fd == -EEXIST && attempt < kTemporaryNamesMax;
    if (fd < 0 && !taken) return Error(-fd, "write", path);
    if (fd >= 0) file = UniqueFd(fd);
  }
  const std::string name(final_name);
  int error = WriteAndSync(file.get(), content);
  if (error == 0 && !replace) {
    error = RenameExclusively(parent.get(), temporary.c_str(), parent.get(),
                              name.c_str());
  } else if (error == 0 && renameat(parent.get(), temporary.c_str(),
                                    parent.get(), name.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    unlinkat(parent.get(), temporary.c_str(), 0);
    return Error(error, "write", path);
  }
  if (const int sync_error = SyncDirectoryFd(parent.get()); sync_error != 0) {
    return Error(sync_error, "sync the directory of", path);
  }
  return absl::OkStatus();
}

}  // namespace cairn
