// A token bucket in bytes per second.

#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace cairn {

// Thread-safe. `clock` must outlive it. A rate of 0 means no limit. At most one
// second's worth of unused allowance is kept.
class RateLimiter {
 public:
  RateLimiter(uint64_t bytes_per_second, Clock* clock);

  // Returns when `bytes` more may be moved; sleeps until then.
  void Acquire(uint64_t bytes);

 private:
  const uint64_t bytes_per_second_;
  Clock* const clock_;
  absl::Mutex mutex_;
  absl::Time last_now_ ABSL_GUARDED_BY(mutex_);   // To see the clock set back.
  absl::Time next_free_ ABSL_GUARDED_BY(mutex_);  // All that was given is paid.
};

}  // namespace cairn
