#include "testing/fake_clock.h"

namespace cairn {

absl::Time FakeClock::Now() {
  absl::MutexLock lock(&mutex_);
  return now_;
}

void FakeClock::SleepFor(absl::Duration duration) {
  absl::MutexLock lock(&mutex_);
  now_ += duration;
  slept_ += duration;
}

void FakeClock::Set(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  now_ = now;
}

absl::Duration FakeClock::slept() {
  absl::MutexLock lock(&mutex_);
  return slept_;
}

}  // namespace cairn
