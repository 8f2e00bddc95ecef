// A clock that a test holds in its hand.

#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"

namespace cairn {

// Starts at 2026-01-01 00:00 UTC. Sleeping moves it on at once. Thread-safe.
class FakeClock final : public Clock {
 public:
  absl::Time Now() override;
  void SleepFor(absl::Duration duration) override;

  void Set(absl::Time now);
  absl::Duration slept();  // The sum of all sleeps.

 private:
  absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_) = absl::FromUnixSeconds(1767225600);
  absl::Duration slept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn
