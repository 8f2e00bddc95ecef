// A directory of a test's own, removed with all it holds when the test ends.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn {

class TempDir {
 public:
  TempDir();  // Under $TEST_TMPDIR or /tmp. Aborts the test program on failure.
  explicit TempDir(const std::string& parent);
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const;

 private:
  std::string path_;
};

// Writes `content` to `path`, making parent directories. For tests.
void WriteTestFile(const std::string& path, std::string_view content);
std::string ReadTestFile(const std::string& path);

// `size` pseudo-random bytes; the same for the same seed.
std::string RandomBytes(size_t size, uint64_t seed);

}  // namespace cairn
