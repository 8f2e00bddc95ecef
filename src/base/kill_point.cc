#include "base/kill_point.h"

#ifdef CAIRN_KILL_POINTS

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/check.h"

namespace cairn {

namespace {

// What CAIRN_KILL_AT asks for. Read once: a process does not change its mind.
struct KillOrder {
  std::string_view name;  // Empty: never.
  std::atomic<int64_t> passages_left = 1;

  KillOrder() {
    const char* const text = std::getenv("CAIRN_KILL_AT");
    if (text == nullptr) return;
    name = text;
    const size_t colon = name.rfind(':');
    if (colon == std::string_view::npos) return;
    const std::string_view count = name.substr(colon + 1);
    name = name.substr(0, colon);
    int64_t passages = 0;
    const auto [end, error] =
        std::from_chars(count.data(), count.data() + count.size(), passages);
    // A crash test that names no passage would test nothing and look green.
    const bool count_is_valid = error == std::errc() &&
                                end == count.data() + count.size() &&
                                passages >= 1;
    CAIRN_CHECK(count_is_valid);
    passages_left = passages;
  }
};

// Adds a line to the file that CAIRN_KILL_TRACE names, if any. The descriptor
// is open to the end: a process may pass points until its last moment.
void Trace(const char* name) {
  static const int trace_fd = [] {
    const char* const path = std::getenv("CAIRN_KILL_TRACE");
    if (path == nullptr || *path == '\0') return -1;
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  }();
  if (trace_fd < 0) return;
  const std::string line = std::string(name) + "\n";
  // A lost line makes the crash run miss a point, which it then reports.
  [[maybe_unused]] const ssize_t ignored =
      write(trace_fd, line.data(), line.size());
}

}  // namespace

void KillPoint(const char* name) {
  Trace(name);
  static KillOrder* const order = new KillOrder;
  if (order->name.empty() || order->name != name) return;
  if (order->passages_left.fetch_sub(1) != 1) return;
  kill(getpid(), SIGKILL);
  while (true) pause();  // Nothing after the point may happen.
}

}  // namespace cairn

#endif  // CAIRN_KILL_POINTS
