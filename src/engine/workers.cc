#include "engine/workers.h"

#include <utility>

namespace cairn {

Workers::Workers(int threads) : queue_max_(2 * static_cast<size_t>(threads)) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

Workers::~Workers() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    queue_.clear();
  }
  for (std::thread& thread : threads_) thread.join();
}

void Workers::Submit(Task task) {
  absl::MutexLock lock(&mutex_);
  const auto room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queue_.size() < queue_max_ || !first_error_.ok();
  };
  mutex_.Await(absl::Condition(&room));
  if (first_error_.ok()) queue_.push_back(std::move(task));
}

absl::Status Workers::Wait() {
  absl::MutexLock lock(&mutex_);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queue_.empty() && running_ == 0;
  };
  mutex_.Await(absl::Condition(&idle));
  return std::exchange(first_error_, absl::OkStatus());
}

bool Workers::failed() {
  absl::MutexLock lock(&mutex_);
  return !first_error_.ok();
}

void Workers::Run() {
  absl::MutexLock lock(&mutex_);
  const auto work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !queue_.empty();
  };
  while (true) {
    mutex_.Await(absl::Condition(&work));
    if (stopping_) return;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    ++running_;
    mutex_.Unlock();
    absl::Status status = task();
    task = nullptr;  // Its captures go before it counts as done.
    mutex_.Lock();
    --running_;
    if (!status.ok() && first_error_.ok()) {
      first_error_ = std::move(status);
      queue_.clear();
    }
  }
}

}  // namespace cairn
