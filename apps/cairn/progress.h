// Shows how far a verb is: a bar with rate and time left on a terminal, a plain
// line every few seconds elsewhere, and notices as they come.
//
// All of it goes to standard error, never to standard output, which is for
// results. Nothing is drawn but from within the observer's calls, so there is
// no thread to stop, and a bar stands still only where the work does.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "cairn/store.h"

namespace cairn {

// Thread-safe.
class Progress final : public Observer {
 public:
  enum class Style { kNone, kBar, kLines };
  struct Setup {
    Style style = Style::kNone;
    bool notices = true;
    std::string prefix;  // Of notices: "cairn export: ".
    int columns = 80;    // Of the terminal, for kBar.
    Clock* clock = nullptr;
    std::function<void(std::string_view)> write;
  };

  static constexpr absl::Duration kBarInterval = absl::Milliseconds(100);
  static constexpr absl::Duration kLineInterval = absl::Seconds(5);

  explicit Progress(Setup setup);
  ~Progress() override;

  // Phases that begin while others are under way add up to one.
  void OnStart(std::string_view what, uint64_t bytes, uint64_t files) override;
  void OnProgress(uint64_t bytes_more, uint64_t files_more) override;
  void OnFinish() override;
  void OnNotice(std::string_view text) override;

  // Takes the bar off the terminal, so that something else can be written. The
  // next progress draws it again.
  void Clear();

 private:
  void Update(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ClearLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Measure(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // "45 %, 1.20 GB of 3.40 GB, 1.07 GB/s, 12 s left", joined by `between`.
  // Percents take at least `width` columns.
  std::string Numbers(std::string_view between, int width) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Bar() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Setup setup_;

  absl::Mutex mutex_;
  int phases_ ABSL_GUARDED_BY(mutex_) = 0;  // Under way.
  std::string what_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_all_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: unknown.
  uint64_t files_all_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t files_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time start_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_drawn_ ABSL_GUARDED_BY(mutex_);
  bool drawn_ ABSL_GUARDED_BY(mutex_) = false;  // A bar stands there.
  bool told_ ABSL_GUARDED_BY(mutex_) = false;   // A line about this phase.
  // The rate, smoothed: what was there already goes by at once and would
  // promise too much.
  absl::Time measured_ ABSL_GUARDED_BY(mutex_);
  uint64_t measured_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  double bytes_per_second_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A signal that ends the program first takes the bar off the terminal. Call
// once.
void ClearProgressOnSignals();

}  // namespace cairn
