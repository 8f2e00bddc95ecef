#include "apps/cairn/progress.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <utility>
#include <vector>

#include "apps/cairn/text.h"
#include "base/units.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr std::string_view kClearLine = "\r\033[K";
constexpr size_t kBarWidthMax = 30;
constexpr size_t kBarWidthMin = 6;
constexpr size_t kLabelWidthMin = 12;
constexpr absl::Duration kSmoothing = absl::Seconds(4);

// Read by the signal handler.
std::atomic<bool> bar_stands{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void ClearAndEnd(int signal) {
  if (bar_stands.load()) {
    [[maybe_unused]] const ssize_t written =
        write(STDERR_FILENO, kClearLine.data(), kClearLine.size());
  }
  // SA_RESETHAND has put the default action back: this ends the program.
  raise(signal);
}

}  // namespace

void ClearProgressOnSignals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction now{};
    if (sigaction(signal, nullptr, &now) != 0) continue;
    if (now.sa_handler == SIG_IGN) continue;  // nohup
    struct sigaction action{};
    action.sa_handler = ClearAndEnd;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

Progress::Progress(Setup setup) : setup_(std::move(setup)) {}

Progress::~Progress() { Clear(); }

void Progress::OnStart(std::string_view what, uint64_t bytes, uint64_t files) {
  const absl::MutexLock lock(&mutex_);
  what_ = what;
  ++phases_;
  if (phases_ == 1) {
    bytes_all_ = files_all_ = bytes_ = files_ = measured_bytes_ = 0;
    bytes_per_second_ = 0;
    told_ = false;
    start_ = measured_ = last_drawn_ = setup_.clock->Now();
  }
  bytes_all_ += bytes;
  files_all_ += files;
}

void Progress::OnProgress(uint64_t bytes_more, uint64_t files_more) {
  const absl::MutexLock lock(&mutex_);
  bytes_ += bytes_more;
  files_ += files_more;
  if (setup_.style == Style::kNone || phases_ == 0) return;
  const absl::Time now = setup_.clock->Now();
  const absl::Duration interval =
      setup_.style == Style::kBar ? kBarInterval : kLineInterval;
  // A clock that was set back must not silence us.
  if (now - last_drawn_ >= interval || now < last_drawn_) Update(now);
}

void Progress::OnFinish() {
  const absl::MutexLock lock(&mutex_);
  if (phases_ == 0) return;
  --phases_;
  if (phases_ > 0) return;
  ClearLocked();
  if (!told_) return;
  const absl::Duration elapsed = setup_.clock->Now() - start_;
  std::string amount = Count(files_, "file");
  if (bytes_ > 0) {
    amount =
        fmt::format("{}, {}", FormatBytes(bytes_), FormatRate(bytes_, elapsed));
  }
  setup_.write(fmt::format("{}: finished, {}, {}\n", what_, amount,
                           cairn::FormatDuration(elapsed)));
}

void Progress::OnNotice(std::string_view text) {
  if (!setup_.notices) return;
  const absl::MutexLock lock(&mutex_);
  ClearLocked();
  setup_.write(fmt::format("{}{}\n", setup_.prefix, text));
}

void Progress::Clear() {
  const absl::MutexLock lock(&mutex_);
  ClearLocked();
}

void Progress::ClearLocked() {
  if (!drawn_) return;
  setup_.write(kClearLine);
  drawn_ = false;
  bar_stands = false;
}

void Progress::Update(absl::Time now) {
  Measure(now);
  last_drawn_ = now;
  if (setup_.style == Style::kLines) {
    told_ = true;
    setup_.write(fmt::format("{}: {}\n", what_, Numbers(", ", 1)));
    return;
  }
  drawn_ = true;
  bar_stands = true;
  setup_.write(fmt::format("{}{}", kClearLine, Bar()));
}

void Progress::Measure(absl::Time now) {
  const double seconds = absl::ToDoubleSeconds(now - measured_);
  if (seconds <= 0) {
    measured_ = now;
    return;
  }
  const double rate = static_cast<double>(bytes_ - measured_bytes_) / seconds;
  const double weight =
      measured_ == start_
          ? 1
          : 1 - std::exp(-seconds / absl::ToDoubleSeconds(kSmoothing));
  bytes_per_second_ += weight * (rate - bytes_per_second_);
  measured_ = now;
  measured_bytes_ = bytes_;
}

std::string Progress::Numbers(std::string_view between, int width) const {
  std::vector<std::string> parts;
  const auto percent = [width](uint64_t part, uint64_t all) {
    const double share = static_cast<double>(part) / static_cast<double>(all);
    return fmt::format("{:{}} %",
                       static_cast<int>(std::min(share * 100, 100.0)), width);
  };
  if (bytes_all_ > 0) {
    parts.push_back(percent(bytes_, bytes_all_));
    parts.push_back(
        fmt::format("{} of {}", FormatBytes(bytes_), FormatBytes(bytes_all_)));
  } else if (files_all_ > 0) {
    parts.push_back(percent(files_, files_all_));
    parts.push_back(fmt::format("{} of {}", files_, Count(files_all_, "file")));
  } else {
    if (files_ > 0) parts.push_back(Count(files_, "file"));
    if (bytes_ > 0) parts.push_back(FormatBytes(bytes_));
  }
  if (bytes_ > 0) {
    parts.push_back(
        FormatRate(static_cast<uint64_t>(bytes_per_second_), absl::Seconds(1)));
  }
  if (bytes_all_ > bytes_ && bytes_per_second_ >= 1) {
    const double seconds =
        std::ceil(static_cast<double>(bytes_all_ - bytes_) / bytes_per_second_);
    // Without a tenth that nobody can promise.
    parts.push_back(seconds < 60
                        ? fmt::format("{:.0f} s left", seconds)
                        : fmt::format("{} left", cairn::FormatDuration(
                                                     absl::Seconds(seconds))));
  }
  return fmt::format("{}", fmt::join(parts, between));
}

std::string Progress::Bar() const {
  const std::string numbers = Numbers("  ", 3);
  // The last column stays free: some terminals wrap there.
  const size_t columns = std::max(setup_.columns - 1, 20);
  const size_t numbers_width = DisplayWidth(numbers) + 2;
  size_t room = columns > numbers_width ? columns - numbers_width : 0;
  room = std::max(room, kLabelWidthMin);
  const std::string label = Shortened(what_, room);
  room -= std::min(room, DisplayWidth(label));
  std::string bar;
  if (bytes_all_ > 0 && room >= kBarWidthMin + 4) {
    const size_t width = std::min(room - 4, kBarWidthMax);
    const double share =
        static_cast<double>(bytes_) / static_cast<double>(bytes_all_);
    const size_t full =
        static_cast<size_t>(std::min(share, 1.0) * static_cast<double>(width));
    bar = fmt::format("  [{}{}]", std::string(full, '#'),
                      std::string(width - full, '-'));
  }
  return Shortened(fmt::format("{}{}  {}", label, bar, numbers), columns);
}

}  // namespace cairn
