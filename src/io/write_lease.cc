#include "io/write_lease.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/vfs.h>

#include <utility>

#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace cairn {
namespace {

// As in <linux/magic.h>, which has not all of them everywhere.
constexpr long kNfsMagic = 0x6969;
constexpr long kOverlayfsMagic = 0x794C7630;
constexpr long kEcryptfsMagic = 0xF15F;
constexpr long kFuseMagic = 0x65735546;

absl::Status InUse(const BlockFile& file) {
  return absl::FailedPreconditionError(
      fmt::format("{} is in use: a process of this machine has it open or "
                  "mapped; try again when it is closed",
                  EscapeName(file.path)));
}

absl::Status CannotTell(const BlockFile& file, std::string_view why) {
  return absl::UnavailableError(fmt::format(
      "cannot tell whether {} is in use: {}", EscapeName(file.path), why));
}

long FileSystemOf(int fd) {
  struct statfs raw = {};
  return fstatfs(fd, &raw) == 0 ? raw.f_type : 0;
}

// These hand mmap on to a file of another file system, where the kernel does
// not look when it grants a lease here.
bool HidesMappings(long file_system) {
  return file_system == kOverlayfsMagic || file_system == kFuseMagic ||
         file_system == kEcryptfsMagic;
}

}  // namespace

absl::StatusOr<WriteLease> WriteLease::Take(const Root& root,
                                            std::string_view path) {
  absl::StatusOr<BlockFile> opened = root.OpenForRead(path);
  if (absl::IsUnavailable(opened.status())) {
    // Somebody else's lease on it made the open fail.
    return Annotate(absl::FailedPreconditionError(Message(opened.status())),
                    "in use");
  }
  CAIRN_RETURN_IF_ERROR(opened.status());
  BlockFile file = *std::move(opened);
  const int fd = file.fd.get();
  const long file_system = FileSystemOf(fd);
  if (HidesMappings(file_system)) {
    return CannotTell(file,
                      "a file that is mapped and then closed leaves no trace "
                      "on this kind of file system (overlay, FUSE, eCryptfs)");
  }
  // A lease that is broken sends a signal, SIGIO by default, which would end
  // the process. We ask instead (StillHeld), so: a signal that is ignored by
  // default now, and nobody to send it to once the lease, which sets the owner,
  // is there.
  if (fcntl(fd, F_SETSIG, SIGURG) != 0) {
    return CannotTell(file, ErrorText(errno));
  }
  if (fcntl(fd, F_SETLEASE, F_WRLCK) != 0) {
    const int error = errno;
    if (error == EAGAIN || error == EBUSY) {
      // An NFS client has leases to give only while the server delegated the
      // file to it, and says "in use" when not.
      if (file_system != kNfsMagic) return InUse(file);
      return CannotTell(file, "the NFS server has not delegated it");
    }
    if (error == EACCES || error == EPERM) {
      return CannotTell(file, "only its owner, or CAP_LEASE, may take a lease");
    }
    return CannotTell(file, fmt::format("the file system gives no leases ({})",
                                        ErrorText(error)));
  }
  if (fcntl(fd, F_SETOWN, 0) != 0) return CannotTell(file, ErrorText(errno));
  return WriteLease(std::move(file));
}

WriteLease::~WriteLease() {
  // Closing would do, but not while a copy of the descriptor is open in a
  // child.
  if (file_.fd.ok()) fcntl(file_.fd.get(), F_SETLEASE, F_UNLCK);
}

bool WriteLease::StillHeld() const {
  // While a break is pending the kernel answers what the lease will become.
  return fcntl(file_.fd.get(), F_GETLEASE) == F_WRLCK;
}

}  // namespace cairn
