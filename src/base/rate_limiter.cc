#include "base/rate_limiter.h"

#include <algorithm>

namespace cairn {

namespace {
constexpr absl::Duration kAllowanceKept = absl::Seconds(1);
}  // namespace

RateLimiter::RateLimiter(uint64_t bytes_per_second, Clock* clock)
    : bytes_per_second_(bytes_per_second),
      clock_(clock),
      last_now_(clock->Now()),
      next_free_(last_now_) {}

void RateLimiter::Acquire(uint64_t bytes) {
  if (bytes_per_second_ == 0) return;
  const absl::Duration cost = absl::Seconds(
      static_cast<double>(bytes) / static_cast<double>(bytes_per_second_));
  absl::Duration wait;
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = clock_->Now();
    // A wall clock that was set back must not stop the mover for as long as it
    // was wrong: what is owed stays owed, counted from the new time.
    if (now < last_now_) next_free_ -= last_now_ - now;
    last_now_ = now;
    next_free_ = std::max(next_free_, now - kAllowanceKept) + cost;
    wait = next_free_ - now;
  }
  if (wait > absl::ZeroDuration()) clock_->SleepFor(wait);
}

}  // namespace cairn
