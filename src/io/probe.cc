#include "io/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "io/io_engine.h"
#include "io/write_lease.h"

// Since Linux 5.8 and 6.1; older headers lack them.
#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x00001000U
#endif
#ifndef STATX_DIOALIGN
#define STATX_DIOALIGN 0x00002000U
#endif

namespace cairn {
namespace {

// The fields that older declarations of struct statx end before: their offsets
// in the kernel's.
constexpr size_t kMountIdOffset = 0x90;
constexpr size_t kDirectOffsetAlignOffset = 0x9c;

// Lines of /proc/self/mountinfo that are looked at.
constexpr int kMountsMax = 100'000;

// Time stamps: steps to see, and how long to look for them at most. Some file
// systems keep whole seconds.
constexpr int kTimestampStepsMax = 4;
constexpr auto kTimestampTimeMax = std::chrono::milliseconds(2200);

struct FileSystemName {
  uint32_t magic;
  const char* name;
};

constexpr FileSystemName kFileSystems[] = {
    {0x0000EF53, "ext4"},      {0x58465342, "xfs"},
    {0x9123683E, "btrfs"},     {0x01021994, "tmpfs"},
    {0x794C7630, "overlayfs"}, {0x00006969, "nfs"},
    {0x0BD00BD0, "lustre"},    {0x65735546, "fuse"},
    {0x00C36400, "ceph"},      {0x2FC12FC1, "zfs"},
    {0xFF534D42, "cifs"},      {0xFE534D42, "smb2"},
    {0x47504653, "gpfs"},      {0x19830326, "beegfs"},
    {0xF2F52010, "f2fs"},      {0x858458F6, "ramfs"},
    {0x01021997, "9p"},        {0xCA451A4E, "bcachefs"},
    {0x7461636F, "ocfs2"},     {0x01161970, "gfs2"},
    {0x73717368, "squashfs"},  {0x0000F15F, "ecryptfs"},
    {0x2011BAB0, "exfat"},     {0x00004D44, "vfat"},
    {0x5346414F, "afs"},
};

std::string FileSystemOf(uint64_t magic) {
  for (const FileSystemName& known : kFileSystems) {
    if (known.magic == (magic & 0xFFFFFFFFU)) return known.name;
  }
  return fmt::format("0x{:08x}", magic & 0xFFFFFFFFU);
}

// mountinfo writes space, tab, newline and backslash as \ooo.
std::string UnescapeMount(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '7';
    };
    if (text[i] == '\\' && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
      const int value = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                        (text[i + 3] - '0');
      plain += static_cast<char>(value);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::vector<std::string_view> Fields(std::string_view line) {
  std::vector<std::string_view> fields;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    fields.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return fields;
}

bool IsBelow(std::string_view path, std::string_view mount_point) {
  if (mount_point == "/") return true;
  if (path.substr(0, mount_point.size()) != mount_point) return false;
  return path.size() == mount_point.size() || path[mount_point.size()] == '/';
}

// The options of the mount that `path` lies on, the file system's own included;
// "" where /proc does not tell.
std::string MountOptions(const std::string& path) {
  struct statx raw = {};
  uint64_t mount_id = 0;
  bool have_id = statx(AT_FDCWD, path.c_str(), 0, STATX_MNT_ID, &raw) == 0 &&
                 (raw.stx_mask & STATX_MNT_ID) != 0;
  memcpy(&mount_id, reinterpret_cast<const char*>(&raw) + kMountIdOffset,
         sizeof(mount_id));
  const std::unique_ptr<char, void (*)(void*)> real(
      realpath(path.c_str(), nullptr), free);
  const std::string full = real == nullptr ? path : real.get();
  std::ifstream mounts("/proc/self/mountinfo");
  std::string line;
  std::string best;
  size_t best_length = 0;
  for (int i = 0; i < kMountsMax && std::getline(mounts, line); ++i) {
    // id parent major:minor root point options [optional...] - type source
    // super
    const std::vector<std::string_view> fields = Fields(line);
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 6 || fields.end() - dash < 4) continue;
    const std::string options = fmt::format("{},{}", fields[5], dash[3]);
    if (have_id && fields[0] == std::to_string(mount_id)) return options;
    const std::string point = UnescapeMount(fields[4]);
    // Of equal ones, the later is mounted on top.
    if (IsBelow(full, point) && point.size() >= best_length) {
      best = options;
      best_length = point.size();
    }
  }
  return best;
}

// "a,b,a" becomes "a,b".
std::string WithoutRepeats(const std::string& options) {
  std::vector<std::string> seen;
  std::string result;
  for (size_t at = 0; at <= options.size();) {
    const size_t end = std::min(options.find(',', at), options.size());
    const std::string option = options.substr(at, end - at);
    at = end + 1;
    if (option.empty() ||
        std::find(seen.begin(), seen.end(), option) != seen.end()) {
      continue;
    }
    result += (result.empty() ? "" : ",") + option;
    seen.push_back(option);
  }
  return result;
}

absl::Status ProbeFileSystem(const Root& root, IoFacts* facts) {
  const std::string& path = root.path();
  struct statfs raw = {};
  if (statfs(path.c_str(), &raw) != 0) {
    return PosixError(errno, "look at the file system of", path);
  }
  facts->file_system = FileSystemOf(static_cast<uint64_t>(raw.f_type));
  facts->mount_options = WithoutRepeats(MountOptions(path));
  struct statvfs vfs = {};
  facts->read_only =
      statvfs(path.c_str(), &vfs) == 0 && (vfs.f_flag & ST_RDONLY) != 0;
  CAIRN_ASSIGN_OR_RETURN(const Root::Space space, root.FreeSpace());
  facts->total_bytes = space.total_bytes;
  facts->free_bytes = space.free_bytes;
  facts->free_inodes = space.free_inodes;
  return absl::OkStatus();
}

void ProbeProcess(IoFacts* facts) {
  const auto engine = IoEngine::Create({});
  facts->io_uring = engine->backend() == IoBackend::kIoUring;
  facts->io_uring_reason = engine->fallback_reason();
  const auto soft = [](auto resource) {
    rlimit limit = {};
    if (getrlimit(resource, &limit) != 0) return uint64_t{0};
    if (limit.rlim_cur == RLIM_INFINITY) {
      return std::numeric_limits<uint64_t>::max();
    }
    return uint64_t{limit.rlim_cur};
  };
  facts->open_files_max = soft(RLIMIT_NOFILE);
  facts->memlock_max_bytes = soft(RLIMIT_MEMLOCK);
}

// The probes that write, each with files of its own names.
class ScratchProbe {
 public:
  ScratchProbe(const Root& root, std::string_view scratch, IoFacts* facts)
      : root_(root), facts_(facts) {
    uint64_t number = 0;
    static_cast<void>(getrandom(&number, sizeof(number), 0));
    prefix_ = fmt::format("{}/.tmp-probe-{:016x}", scratch, number);
  }
  ScratchProbe(const ScratchProbe&) = delete;
  ScratchProbe& operator=(const ScratchProbe&) = delete;

  ~ScratchProbe() {
    for (const char* suffix : {"a", "b"}) {
      static_cast<void>(root_.RemoveFile(prefix_ + suffix));
    }
  }

  absl::Status Run() {
    CAIRN_RETURN_IF_ERROR(Direct());
    CAIRN_RETURN_IF_ERROR(Lease());
    CAIRN_RETURN_IF_ERROR(Holes());
    return NoReplace();
  }

 private:
  absl::Status Direct() {
    CAIRN_ASSIGN_OR_RETURN(const BlockFile file,
                           root_.CreateForWrite(prefix_ + "a"));
    const int fd = file.fd.get();
    facts_->direct_alignment_bytes = Alignment(fd);
    if (!file.direct) {
      facts_->direct_reason = "the file system does not take O_DIRECT";
      return absl::OkStatus();
    }
    const std::unique_ptr<void, void (*)(void*)> memory(
        aligned_alloc(kDirectAlignment, kDirectAlignment), free);
    if (memory == nullptr) {
      return absl::ResourceExhaustedError("no memory to probe direct I/O with");
    }
    memset(memory.get(), 'c', kDirectAlignment);
    // By system calls: the engine would go on without O_DIRECT.
    if (pwrite(fd, memory.get(), kDirectAlignment, 0) !=
            static_cast<ssize_t>(kDirectAlignment) ||
        pread(fd, memory.get(), kDirectAlignment, 0) !=
            static_cast<ssize_t>(kDirectAlignment)) {
      facts_->direct_reason =
          fmt::format("O_DIRECT is taken at open, but not for a transfer: {}",
                      ErrorText(errno));
      return absl::OkStatus();
    }
    facts_->direct_io = true;
    return absl::OkStatus();
  }

  static uint32_t Alignment(int fd) {
    struct statx raw = {};
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &raw) != 0) return 0;
    if ((raw.stx_mask & STATX_DIOALIGN) == 0) return 0;
    uint32_t bytes = 0;
    memcpy(&bytes,
           reinterpret_cast<const char*>(&raw) + kDirectOffsetAlignOffset,
           sizeof(bytes));
    return bytes;
  }

  absl::Status Lease() {
    const absl::StatusOr<WriteLease> lease =
        WriteLease::Take(root_, prefix_ + "a");
    facts_->write_lease = lease.ok();
    if (!lease.ok()) facts_->write_lease_reason = Message(lease.status());
    return absl::OkStatus();
  }

  absl::Status Holes() {
    constexpr uint64_t kSize = uint64_t{1} << 20;
    CAIRN_ASSIGN_OR_RETURN(
        const BlockFile file,
        root_.CreateForWrite(prefix_ + "b", /*direct=*/false));
    if (ftruncate(file.fd.get(), kSize) != 0 ||
        pwrite(file.fd.get(), "x", 1, kSize / 2) != 1) {
      return PosixError(errno, "write", file.path);
    }
    CAIRN_ASSIGN_OR_RETURN(const auto extents, Root::DataExtents(file, kSize));
    facts_->holes = !extents.empty() && extents.front().offset > 0;
    return Timestamps(file);
  }

  absl::Status Timestamps(const BlockFile& file) {
    using SteadyClock = std::chrono::steady_clock;
    const auto end = SteadyClock::now() + kTimestampTimeMax;
    int64_t last = 0;
    int64_t smallest = 0;
    int steps = 0;
    while (steps <= kTimestampStepsMax && SteadyClock::now() < end) {
      if (pwrite(file.fd.get(), "x", 1, 0) != 1) {
        return PosixError(errno, "write", file.path);
      }
      CAIRN_ASSIGN_OR_RETURN(const NodeStat stat, Root::StatOpen(file));
      if (stat.mtime_ns > last) {
        // The first one is only where the counting starts.
        const int64_t step = stat.mtime_ns - last;
        if (steps > 0 && (smallest == 0 || step < smallest)) smallest = step;
        last = stat.mtime_ns;
        ++steps;
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    }
    facts_->timestamp_step_ns = smallest;
    return absl::OkStatus();
  }

  absl::Status NoReplace() {
    // By path, since Root::Rename would not say how it did it.
    const std::string from = root_.FullPath(prefix_ + "a");
    const std::string to = root_.FullPath(prefix_ + "b");
    const int result = renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                                 RENAME_NOREPLACE);
    facts_->rename_noreplace = result != 0 && errno == EEXIST;
    return absl::OkStatus();
  }

  const Root& root_;
  IoFacts* const facts_;
  std::string prefix_;
};

// The length of the longest leading part of `path` that exists.
absl::StatusOr<size_t> ExistingPrefix(const Root& root, std::string_view path) {
  while (!path.empty()) {
    CAIRN_ASSIGN_OR_RETURN(const bool exists, root.Exists(path));
    if (exists) break;
    const size_t slash = path.rfind('/');
    path = path.substr(0, slash == path.npos ? 0 : slash);
  }
  return path.size();
}

}  // namespace

absl::StatusOr<IoFacts> ProbeIo(const Root& root, std::string_view scratch) {
  IoFacts facts;
  CAIRN_RETURN_IF_ERROR(CheckRelativePath(scratch));
  if (scratch.empty()) {
    return absl::InvalidArgumentError(
        "probing needs a directory of its own below the root");
  }
  CAIRN_RETURN_IF_ERROR(ProbeFileSystem(root, &facts));
  ProbeProcess(&facts);
  CAIRN_ASSIGN_OR_RETURN(const size_t there, ExistingPrefix(root, scratch));
  absl::Status status = root.MakeDirectories(scratch);
  if (status.ok()) status = ScratchProbe(root, scratch, &facts).Run();
  for (std::string_view made = scratch; made.size() > there;) {
    if (!root.RemoveEmptyDirectory(made).ok()) break;
    const size_t slash = made.rfind('/');
    made = made.substr(0, slash == made.npos ? 0 : slash);
  }
  if (absl::IsPermissionDenied(status)) {
    // Read-only, or to us: what would need writing is unknown.
    const std::string why = "could not be tried: " + Message(status);
    facts.direct_reason = why;
    facts.write_lease_reason = why;
    return facts;
  }
  CAIRN_RETURN_IF_ERROR(status);
  return facts;
}

}  // namespace cairn
