// The half of Root that looks and opens; root_write.cc has the other. Every
// call resolves the parent directory once (openat2, or component by component)
// and does the rest with *at calls on the last component, which is never
// followed.

#include "io/root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/escape.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "io/root_internal.h"

// Since Linux 6.1; older headers lack them.
#ifndef STATX_DIOALIGN
#define STATX_DIOALIGN 0x00002000U
#endif

namespace cairn {

using root_internal::OpenChild;
using root_internal::ReadNames;
using root_internal::Split;
using root_internal::StatNode;

namespace root_internal {
namespace {

constexpr unsigned kStatMask =
    STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_UID | STATX_GID |
    STATX_MTIME | STATX_CTIME | STATX_INO | STATX_SIZE | STATX_BLOCKS;
constexpr size_t kNamesBufferBytes = size_t{64} << 10;

NodeType TypeOf(uint32_t mode) {
  if (S_ISREG(mode)) return NodeType::kFile;
  if (S_ISDIR(mode)) return NodeType::kDirectory;
  if (S_ISLNK(mode)) return NodeType::kSymlink;
  return NodeType::kOther;
}

// Saturates: some file systems hold times beyond what 64 bits of nanoseconds
// do.
int64_t Nanoseconds(const statx_timestamp& time) {
  int64_t result = 0;
  if (__builtin_mul_overflow(time.tv_sec, kNanosecondsPerSecond, &result) ||
      __builtin_add_overflow(result, time.tv_nsec, &result)) {
    return time.tv_sec < 0 ? std::numeric_limits<int64_t>::min()
                           : std::numeric_limits<int64_t>::max();
  }
  return result;
}

}  // namespace

int StatNode(int directory, const char* name, NodeStat* stat) {
  struct statx raw = {};
  const int flags =
      AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (*name == 0 ? AT_EMPTY_PATH : 0);
  if (statx(directory, name, flags, kStatMask, &raw) != 0) return errno;
  stat->type = TypeOf(raw.stx_mode);
  stat->mode = raw.stx_mode & 07777U;
  stat->uid = raw.stx_uid;
  stat->gid = raw.stx_gid;
  stat->size_bytes = raw.stx_size;
  stat->allocated_bytes = raw.stx_blocks * 512;
  stat->mtime_ns = Nanoseconds(raw.stx_mtime);
  stat->ctime_ns = Nanoseconds(raw.stx_ctime);
  stat->inode = raw.stx_ino;
  stat->device = makedev(raw.stx_dev_major, raw.stx_dev_minor);
  stat->links = raw.stx_nlink;
  return 0;
}

int ReadNames(int directory, std::vector<char>* buffer,
              std::vector<std::string>* names) {
  buffer->resize(kNamesBufferBytes);
  names->clear();
  for (;;) {
    const ssize_t got = getdents64(directory, buffer->data(), buffer->size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return 0;
    for (ssize_t at = 0; at < got;) {
      const auto* entry =
          reinterpret_cast<const dirent64*>(buffer->data() + at);
      at += entry->d_reclen;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      // A broken or hostile file system must not lead us elsewhere.
      if (name.empty() || name.find('/') != name.npos) return EBADMSG;
      names->emplace_back(name);
    }
  }
}

int OpenChild(int directory, const char* name, int flags, mode_t mode) {
  for (;;) {
    const int fd =
        openat(directory, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd >= 0) return fd;
    if (errno != EINTR) return -errno;
  }
}

SplitPath Split(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace root_internal

namespace {

// openat2 by number: glibc has no wrapper for it.
int OpenBeneath(int root, const char* path, int flags) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  for (;;) {
    const long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
    if (fd >= 0) return static_cast<int>(fd);
    if (errno != EINTR) return -errno;
  }
}

bool IsSymlink(int directory, const char* name) {
  NodeStat stat;
  return StatNode(directory, name, &stat) == 0 &&
         stat.type == NodeType::kSymlink;
}

// Whether a direct transfer of our alignment can work on the open file. True
// where the kernel does not say.
bool MayBeDirect(int fd) {
  struct statx raw = {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &raw) != 0) return true;
  if ((raw.stx_mask & STATX_DIOALIGN) == 0) return true;
  // stx_dio_mem_align and stx_dio_offset_align, by offset: see statx(2).
  uint32_t align[2] = {};
  static_assert(sizeof(raw) >= 0x98 + sizeof(align));
  memcpy(align, reinterpret_cast<const char*>(&raw) + 0x98, sizeof(align));
  for (const uint32_t bytes : align) {
    if (bytes == 0 || kDirectAlignment % bytes != 0) return false;
  }
  return true;
}

// Takes O_NONBLOCK, which was for opening only, off again (io_uring would
// answer EAGAIN), and puts O_DIRECT on if wanted. Returns whether it is on.
bool SetTransferFlags(int fd, bool direct) {
  const int flags = fcntl(fd, F_GETFL) & ~O_NONBLOCK;
  if (direct && MayBeDirect(fd) && fcntl(fd, F_SETFL, flags | O_DIRECT) == 0) {
    return true;
  }
  fcntl(fd, F_SETFL, flags);
  return false;
}

absl::Status NotADirectory(const std::string& path) {
  return absl::FailedPreconditionError(fmt::format(
      "{} is not a directory, which it has to be here", EscapeName(path)));
}

// Depth-first; siblings in order. Holds one descriptor a level.
class TreeWalk {
 public:
  TreeWalk(const Root& root, std::string_view top, Root::Visitor visit)
      : root_(root), top_(top), visit_(visit) {}

  absl::Status Directory(const UniqueFd& fd, int depth) {
    std::vector<std::string> names;
    const int error = ReadNames(fd.get(), &buffer_, &names);
    if (error == ENOENT && depth > 1) return absl::OkStatus();
    if (error != 0) return Error(error, "list");
    std::sort(names.begin(), names.end());
    const size_t length = path_.size();
    for (const std::string& name : names) {
      if (length > 0) path_ += '/';
      path_ += name;
      CAIRN_RETURN_IF_ERROR(Node(fd.get(), name.c_str(), depth));
      path_.resize(length);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Node(int parent, const char* name, int depth) {
    NodeStat stat;
    const int error = StatNode(parent, name, &stat);
    if (error == ENOENT) return absl::OkStatus();
    if (error != 0) return Error(error, "look at");
    CAIRN_RETURN_IF_ERROR(visit_(path_, stat));
    if (stat.type != NodeType::kDirectory) return absl::OkStatus();
    if (depth >= kDepthMax) {
      return absl::FailedPreconditionError(
          fmt::format("cannot walk {}: directories are nested more than {} "
                      "deep; move it out of the tree",
                      EscapeName(Full()), kDepthMax));
    }
    const int fd = OpenChild(parent, name, O_RDONLY | O_DIRECTORY);
    if (fd >= 0) return Directory(UniqueFd(fd), depth + 1);
    // Removed, or replaced by something else, since it was looked at.
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP) {
      return absl::OkStatus();
    }
    return Error(-fd, "list");
  }

  std::string Full() const {
    std::string path(top_);
    if (!path.empty() && !path_.empty()) path += '/';
    return root_.FullPath(path + path_);
  }
  absl::Status Error(int error, std::string_view action) const {
    return PosixError(error, action, Full());
  }

  const Root& root_;
  const std::string_view top_;
  Root::Visitor visit_;
  std::string path_;  // Of the current node, relative to the top.
  std::vector<char> buffer_;
};

}  // namespace

absl::Status CheckRelativePath(std::string_view path) {
  const auto invalid = [path](std::string_view why) {
    return absl::InvalidArgumentError(fmt::format(
        "\"{}\" is no path below a root: {}", EscapeName(path), why));
  };
  if (path.empty()) return absl::OkStatus();
  if (path.find('\0') != path.npos) return invalid("it has a NUL byte");
  if (path.front() == '/') return invalid("it is absolute");
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view component = path.substr(at, end - at);
    if (component.empty()) return invalid("it has an empty component");
    if (component == ".") return invalid("it has a \".\" component");
    if (component == "..") return invalid("it has a \"..\" component");
    at = end + 1;
  }
  return absl::OkStatus();
}

absl::StatusOr<Root> Root::Open(const std::string& path) {
  if (path.empty() || path.find('\0') != path.npos) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is no directory's path", EscapeName(path)));
  }
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok()) {
    const int error = errno;
    struct stat stat = {};
    if (error == ENOTDIR && ::stat(path.c_str(), &stat) == 0) {
      return NotADirectory(path);
    }
    return PosixError(error, "open the directory", path);
  }
  Root root(path, std::move(fd));
  // Old kernels answer ENOSYS, seccomp EPERM or ENOSYS.
  const UniqueFd probe(
      OpenBeneath(root.fd_.get(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  root.openat2_ = probe.ok();
  return root;
}

std::string Root::FullPath(std::string_view path) const {
  std::string full = path_;
  if (path.empty()) return full;
  if (full.back() != '/') full += '/';
  return full.append(path);
}

absl::Status Root::Error(int error, std::string_view action,
                         std::string_view path) const {
  return PosixError(error, action, FullPath(path));
}

int Root::OpenComponents(std::string_view path, int flags) const {
  UniqueFd held;
  int at = fd_.get();
  for (;;) {
    const size_t slash = path.find('/');
    const bool last = slash == path.npos;
    const std::string name(path.substr(0, slash));
    const int wanted = last ? flags : O_PATH;
    const int fd = OpenChild(at, name.c_str(), wanted | O_DIRECTORY);
    if (fd < 0) {
      // O_DIRECTORY hides from us that it is a symlink.
      return fd == -ENOTDIR && IsSymlink(at, name.c_str()) ? -ELOOP : fd;
    }
    if (last) return fd;
    held = UniqueFd(fd);
    at = fd;
    path.remove_prefix(slash + 1);
  }
}

int Root::TryOpenDirectory(std::string_view path, int flags) const {
  if (path.empty()) return OpenChild(fd_.get(), ".", flags | O_DIRECTORY);
  // The kernel resolves no longer path than this at once.
  if (!openat2_ || path.size() >= PATH_MAX) return OpenComponents(path, flags);
  return OpenBeneath(fd_.get(), std::string(path).c_str(),
                     flags | O_DIRECTORY | O_CLOEXEC);
}

absl::StatusOr<UniqueFd> Root::OpenDirectory(std::string_view path, int flags,
                                             std::string_view action) const {
  CAIRN_RETURN_IF_ERROR(CheckRelativePath(path));
  const int fd = TryOpenDirectory(path, flags);
  if (fd >= 0) return UniqueFd(fd);
  // ENOTDIR may speak of the last component or of one before it.
  if (fd == -ENOTDIR && Stat(path).ok()) return NotADirectory(FullPath(path));
  return Error(-fd, action, path);
}

absl::StatusOr<Root::Parent> Root::OpenParent(std::string_view path,
                                              std::string_view action) const {
  CAIRN_RETURN_IF_ERROR(CheckRelativePath(path));
  if (path.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("cannot {} {}: that is the root directory itself", action,
                    EscapeName(path_)));
  }
  const auto [directory, name] = Split(path);
  Parent parent;
  parent.name = name;
  parent.fd = fd_.get();
  if (!directory.empty()) {
    parent.fd = TryOpenDirectory(directory, O_PATH);
    if (parent.fd < 0) return Error(-parent.fd, action, path);
    parent.owned = UniqueFd(parent.fd);
  }
  return parent;
}

absl::StatusOr<NodeStat> Root::Stat(std::string_view path) const {
  NodeStat stat;
  if (path.empty()) {
    if (const int error = StatNode(fd_.get(), "", &stat); error != 0) {
      return Error(error, "look at", path);
    }
    return stat;
  }
  CAIRN_ASSIGN_OR_RETURN(const Parent parent, OpenParent(path, "look at"));
  const int error = StatNode(parent.fd, parent.name.c_str(), &stat);
  if (error != 0) return Error(error, "look at", path);
  return stat;
}

absl::StatusOr<bool> Root::Exists(std::string_view path) const {
  const absl::StatusOr<NodeStat> stat = Stat(path);
  if (stat.ok()) return true;
  if (absl::IsNotFound(stat.status())) return false;
  return stat.status();
}

absl::StatusOr<std::vector<DirectoryEntry>> Root::List(
    std::string_view path) const {
  CAIRN_ASSIGN_OR_RETURN(const UniqueFd fd,
                         OpenDirectory(path, O_RDONLY, "list"));
  std::vector<char> buffer;
  std::vector<std::string> names;
  if (const int error = ReadNames(fd.get(), &buffer, &names); error != 0) {
    return Error(error, "list", path);
  }
  std::sort(names.begin(), names.end());
  std::vector<DirectoryEntry> entries;
  entries.reserve(names.size());
  for (std::string& name : names) {
    NodeStat stat;
    const int error = StatNode(fd.get(), name.c_str(), &stat);
    if (error == ENOENT) continue;
    if (error != 0) {
      return PosixError(error, "look at", FullPath(path) + '/' + name);
    }
    entries.push_back({std::move(name), stat});
  }
  return entries;
}

absl::Status Root::Walk(std::string_view directory, Visitor visit) const {
  CAIRN_ASSIGN_OR_RETURN(const UniqueFd fd,
                         OpenDirectory(directory, O_RDONLY, "list"));
  return TreeWalk(*this, directory, visit).Directory(fd, 1);
}

absl::StatusOr<std::string> Root::ReadLink(std::string_view path) const {
  CAIRN_ASSIGN_OR_RETURN(const Parent parent,
                         OpenParent(path, "read the symlink"));
  // No file system holds longer targets.
  std::string target(PATH_MAX, '\0');
  const ssize_t size =
      readlinkat(parent.fd, parent.name.c_str(), target.data(), target.size());
  if (size < 0) return Error(errno, "read the symlink", path);
  target.resize(static_cast<size_t>(size));
  return target;
}

absl::StatusOr<std::string> Root::ReadSmallFile(std::string_view path,
                                                uint64_t size_max) const {
  CAIRN_ASSIGN_OR_RETURN(const BlockFile file,
                         OpenForRead(path, /*direct=*/false));
  CAIRN_ASSIGN_OR_RETURN(const NodeStat stat, StatOpen(file));
  const auto too_big = [&] {
    return absl::ResourceExhaustedError(
        fmt::format("cannot read {}: it is larger than the {} bytes that such "
                    "a file may have",
                    EscapeName(file.path), size_max));
  };
  if (stat.size_bytes > size_max) return too_big();
  std::string content;
  for (;;) {
    // One byte more than expected, so that growth and the end are both seen.
    const size_t used = content.size();
    const uint64_t expected = used == 0 ? stat.size_bytes : used + 4096;
    content.resize(std::min(std::max<uint64_t>(expected, used), size_max) + 1);
    const ssize_t got = pread(file.fd.get(), content.data() + used,
                              content.size() - used, static_cast<off_t>(used));
    const int error = errno;
    content.resize(used + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error == EINTR) continue;
    if (got < 0) return PosixError(error, "read", file.path);
    if (got == 0) return content;
    if (content.size() > size_max) return too_big();
  }
}

absl::StatusOr<NodeStat> Root::StatOpen(const BlockFile& file) {
  NodeStat stat;
  if (const int error = StatNode(file.fd.get(), "", &stat); error != 0) {
    return PosixError(error, "look at", file.path);
  }
  return stat;
}

absl::StatusOr<std::vector<DataExtent>> Root::DataExtents(const BlockFile& file,
                                                          uint64_t size_bytes) {
  std::vector<DataExtent> extents;
  const int fd = file.fd.get();
  const auto size = static_cast<off_t>(
      std::min<uint64_t>(size_bytes, std::numeric_limits<off_t>::max()));
  off_t at = 0;
  while (at < size) {
    const off_t data = lseek(fd, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // Holes up to the end.
    if (data < 0 && errno != EINVAL && errno != EOPNOTSUPP) {
      return PosixError(errno, "find the holes of", file.path);
    }
    if (data >= size) break;
    const bool told = data >= at && extents.size() + 1 < kExtentsMax;
    const off_t hole = told ? lseek(fd, data, SEEK_HOLE) : -1;
    if (hole <= data) {
      // Cannot tell, or the file is changing: all the rest counts as data.
      const off_t start = std::max(data, at);
      extents.push_back(
          {static_cast<uint64_t>(start), static_cast<uint64_t>(size - start)});
      break;
    }
    const off_t end = std::min(hole, size);
    extents.push_back(
        {static_cast<uint64_t>(data), static_cast<uint64_t>(end - data)});
    at = end;
  }
  return extents;
}

absl::StatusOr<BlockFile> Root::OpenRegular(std::string_view path, int flags,
                                            bool direct) const {
  CAIRN_ASSIGN_OR_RETURN(const Parent parent, OpenParent(path, "open"));
  const std::string full = FullPath(path);
  const char* name = parent.name.c_str();
  const auto irregular = [&full] {
    return absl::FailedPreconditionError(fmt::format(
        "cannot open {}: it is not a regular file", EscapeName(full)));
  };
  // Looked at first: opening a FIFO or a device has effects of its own.
  NodeStat stat;
  if (const int error = StatNode(parent.fd, name, &stat); error != 0) {
    return PosixError(error, "open", full);
  }
  if (stat.type == NodeType::kSymlink) return PosixError(ELOOP, "open", full);
  if (stat.type != NodeType::kFile) return irregular();
  // O_NONBLOCK in case it has become one since; and so that somebody's lease on
  // the file is kUnavailable, not a wait.
  flags |= O_NONBLOCK | O_NOCTTY;
  int fd = OpenChild(parent.fd, name, flags | O_NOATIME);
  if (fd == -EPERM) fd = OpenChild(parent.fd, name, flags);
  if (fd < 0) return PosixError(-fd, "open", full);
  BlockFile file = {UniqueFd(fd), false, full};
  CAIRN_ASSIGN_OR_RETURN(const NodeStat opened, StatOpen(file));
  if (opened.type != NodeType::kFile) return irregular();
  file.direct = SetTransferFlags(fd, direct);
  return file;
}

absl::StatusOr<BlockFile> Root::OpenForRead(std::string_view path,
                                            bool direct) const {
  return OpenRegular(path, O_RDONLY, direct);
}

absl::StatusOr<BlockFile> Root::OpenForUpdate(std::string_view path,
                                              bool direct) const {
  return OpenRegular(path, O_RDWR, direct);
}

absl::StatusOr<BlockFile> Root::CreateForWrite(std::string_view path,
                                               bool direct) const {
  CAIRN_RETURN_IF_ERROR(CheckRelativePath(path));
  absl::StatusOr<Parent> parent = OpenParent(path, "create");
  if (absl::IsNotFound(parent.status())) {
    CAIRN_RETURN_IF_ERROR(MakeDirectories(Split(path).parent));
    parent = OpenParent(path, "create");
  }
  CAIRN_RETURN_IF_ERROR(parent.status());
  const int fd = OpenChild(parent->fd, parent->name.c_str(),
                           O_RDWR | O_CREAT | O_EXCL | O_NOCTTY, 0600);
  if (fd < 0) return Error(-fd, "create", path);
  BlockFile file = {UniqueFd(fd), false, FullPath(path)};
  // Put on afterwards: some kernels create the file and then refuse O_DIRECT.
  file.direct = SetTransferFlags(fd, direct);
  return file;
}

absl::StatusOr<Root::Space> Root::FreeSpace() const {
  struct statvfs raw = {};
  if (fstatvfs(fd_.get(), &raw) != 0) {
    return PosixError(errno, "get the free space of", path_);
  }
  Space space;
  space.total_bytes = uint64_t{raw.f_blocks} * raw.f_frsize;
  space.free_bytes = uint64_t{raw.f_bavail} * raw.f_frsize;
  // File systems without a fixed number of inodes say that they have none.
  space.free_inodes = raw.f_files == 0 ? std::numeric_limits<uint64_t>::max()
                                       : uint64_t{raw.f_favail};
  return space;
}

}  // namespace cairn
