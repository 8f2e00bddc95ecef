// A fixed number of threads over a bounded queue of tasks.

#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace cairn {

// Submit() and Wait() from one thread, not from a task. After the first task
// that fails, those not yet begun are dropped.
class Workers {
 public:
  using Task = std::function<absl::Status()>;

  explicit Workers(int threads);
  ~Workers();  // Drops what has not begun, waits for what has.

  // Waits while the queue is full (2 tasks a thread).
  void Submit(Task task);
  // Waits until all is done; the first error. Then it can be used again.
  absl::Status Wait();
  // True once a task failed: no use in submitting more.
  bool failed();

 private:
  void Run();

  const size_t queue_max_;
  absl::Mutex mutex_;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace cairn
