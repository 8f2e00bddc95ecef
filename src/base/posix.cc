#include "base/posix.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/escape.h"
#include "fmt/format.h"

namespace cairn {

namespace {

struct KnownError {
  int error;
  absl::StatusCode code;
  const char* reason;
  const char*
      hint;  // What to do about it. Empty where the caller knows better.
};

constexpr KnownError kKnownErrors[] = {
    {ENOENT, absl::StatusCode::kNotFound, "no such file or directory", ""},
    {ENOTDIR, absl::StatusCode::kNotFound,
     "a part of the path is not a directory", ""},
    {EEXIST, absl::StatusCode::kAlreadyExists, "it exists already", ""},
    {ENOTEMPTY, absl::StatusCode::kAlreadyExists, "the directory is not empty",
     ""},
    {EACCES, absl::StatusCode::kPermissionDenied, "permission denied",
     "check the owner and mode of the file and of the directories above it"},
    {EPERM, absl::StatusCode::kPermissionDenied, "operation not permitted",
     "check the owner, the immutable attribute and the limits of the "
     "container"},
    {EROFS, absl::StatusCode::kPermissionDenied, "the file system is read-only",
     "remount it read-write; if nobody made it read-only, the kernel log says "
     "what went wrong"},
    {ENOSPC, absl::StatusCode::kResourceExhausted, "no space left on device",
     "free space on this file system and run the same command again"},
    {EDQUOT, absl::StatusCode::kResourceExhausted, "the disk quota is used up",
     "free space or raise the quota, and run the same command again"},
    {EMFILE, absl::StatusCode::kResourceExhausted,
     "too many open files in this process",
     "raise the limit (ulimit -n) and run the same command again"},
    {EFBIG, absl::StatusCode::kResourceExhausted, "the file is too large",
     "check ulimit -f and the largest file that this file system can hold"},
    {ELOOP, absl::StatusCode::kFailedPrecondition,
     "a symbolic link that may not be followed, or a loop of them",
     "remove the link or name the file itself"},
    {EXDEV, absl::StatusCode::kFailedPrecondition,
     "it would cross from one file system into another",
     "keep both paths on the same file system"},
    {ENAMETOOLONG, absl::StatusCode::kFailedPrecondition,
     "the name is too long",
     "this file system takes no longer names; choose a shorter one"},
    {EINVAL, absl::StatusCode::kFailedPrecondition, "invalid argument",
     "this file system may not support the operation"},
    {EISDIR, absl::StatusCode::kFailedPrecondition, "it is a directory", ""},
    {EINTR, absl::StatusCode::kUnavailable, "interrupted by a signal",
     "run the same command again"},
    {EAGAIN, absl::StatusCode::kUnavailable, "temporarily unavailable",
     "run the same command again"},
    {EBUSY, absl::StatusCode::kUnavailable, "the file or device is busy",
     "wait for whoever uses it and run the same command again"},
    {ETXTBSY, absl::StatusCode::kUnavailable, "the file is being executed",
     "wait for the program to end and run the same command again"},
    {ESTALE, absl::StatusCode::kUnavailable,
     "stale file handle: another node removed or replaced it",
     "run the same command again"},
    {EIO, absl::StatusCode::kDataLoss, "input/output error",
     "do not trust this copy; look at the kernel log and check the storage"},
    {EUCLEAN, absl::StatusCode::kDataLoss, "the file system is damaged",
     "do not trust this copy; check the file system"},
    {EBADMSG, absl::StatusCode::kDataLoss,
     "the storage found a checksum that does not match",
     "do not trust this copy; check the storage"},
};

}  // namespace

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    Reset();
    fd_ = other.Release();
  }
  return *this;
}

void UniqueFd::Reset() {
  // On Linux the descriptor is gone even after EINTR: never close it twice.
  if (ok()) ::close(Release());
}

absl::Status PosixError(int error, std::string_view action,
                        std::string_view path) {
  const std::string what =
      fmt::format("cannot {} {}", action, EscapeName(path));
  for (const KnownError& text : kKnownErrors) {
    if (text.error != error) continue;
    const char* const separator = *text.hint == '\0' ? "" : "; ";
    return absl::Status(text.code, fmt::format("{}: {}{}{}", what, text.reason,
                                               separator, text.hint));
  }
  return absl::UnknownError(fmt::format("{}: {} (errno {})", what,
                                        std::generic_category().message(error),
                                        error));
}

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(),
                         fmt::format("{}: {}", context, Message(status)));
  status.ForEachPayload(
      [&annotated](absl::string_view type, const absl::Cord& payload) {
        annotated.SetPayload(type, payload);
      });
  return annotated;
}

std::string Message(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

std::string ErrorText(int error) {
  return std::generic_category().message(error);
}

}  // namespace cairn
