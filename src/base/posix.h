// errno as absl::Status, in one place, and a file descriptor with an owner.

#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace cairn {

// Owns a file descriptor; closes it, ignoring late errors: who needs those
// syncs first. One thread at a time.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset();

 private:
  int fd_ = -1;
};

// The status for a failed system call: "cannot <action> <path>: <reason>; <what
// to do>". `path` is escaped here (EscapeName). Codes say what the caller does
// next:
//   ENOENT ENOTDIR             kNotFound
//   EEXIST ENOTEMPTY           kAlreadyExists
//   EACCES EPERM EROFS         kPermissionDenied
//   ENOSPC EDQUOT EMFILE EFBIG kResourceExhausted
//   ELOOP EXDEV ENAMETOOLONG EINVAL EISDIR  kFailedPrecondition
//   EINTR EAGAIN EBUSY ETXTBSY ESTALE       kUnavailable
//   EIO EUCLEAN EBADMSG        kDataLoss
//   anything else              kUnknown
absl::Status PosixError(int error, std::string_view action,
                        std::string_view path);

// What errno `error` means, in a few words. Thread-safe, unlike strerror.
std::string ErrorText(int error);

// The same status with `context` put before its message ("context: message").
absl::Status Annotate(const absl::Status& status, std::string_view context);

// The message of `status` as std::string (absl::string_view here is not
// std::string_view).
std::string Message(const absl::Status& status);

}  // namespace cairn
