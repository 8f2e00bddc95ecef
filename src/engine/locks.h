// Who may work on what, between the cairn processes of one host.
//
// flock(2) on files below state_dir/locks: the kernel drops them when their
// holder dies, however it dies. The store's lock is shared by ordinary verbs
// and exclusive for those that look at everything (sweep, rebuild). Leases
// between hosts are the catalog's business.

#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/posix.h"

namespace cairn {

// Held until destroyed.
class Lock {
 public:
  Lock() = default;

  enum class Mode { kShared, kExclusive };
  // Waits for it.
  static absl::StatusOr<Lock> OfStore(const std::string& state_dir, Mode mode);
  // The right to give out sequences. Waits for it; held for moments only.
  static absl::StatusOr<Lock> OfCommits(const std::string& state_dir);
  // Does not wait. kUnavailable: another process or thread works on it; says
  // which (pid and `purpose`).
  static absl::StatusOr<Lock> OfCheckpoint(const std::string& state_dir,
                                           std::string_view checkpoint_path,
                                           std::string_view purpose);
  // The purpose that a living holder of the checkpoint's lock gave; "" if
  // nobody holds it.
  static std::string PurposeOfHolder(const std::string& state_dir,
                                     std::string_view checkpoint_path);

 private:
  static absl::StatusOr<Lock> Wait(const std::string& state_dir,
                                   const std::string& name, int operation);
  explicit Lock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace cairn
