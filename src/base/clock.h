// Time, injected so that tests can hold it still, step it and set it back.

#pragma once

#include "absl/time/time.h"

namespace cairn {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() = 0;  // Wall clock: may jump, also backwards.
  virtual void SleepFor(absl::Duration duration) = 0;

  static Clock* Real();  // Never destroyed.
};

}  // namespace cairn
