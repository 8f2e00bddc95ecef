#include "testing/temp_dir.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace cairn {

namespace {
std::string DefaultParent() {
  const char* parent = std::getenv("TEST_TMPDIR");
  return parent != nullptr ? parent : "/tmp";
}
}  // namespace

TempDir::TempDir() : TempDir(DefaultParent()) {}

TempDir::TempDir(const std::string& parent) {
  std::string pattern = parent + "/cairn-test-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    std::perror(pattern.c_str());
    std::abort();
  }
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::operator/(std::string_view name) const {
  return path_ + "/" + std::string(name);
}

void WriteTestFile(const std::string& path, std::string_view content) {
  std::filesystem::create_directories(
      std::filesystem::path(path).parent_path());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  if (!out) {
    std::perror(path.c_str());
    std::abort();
  }
}

std::string ReadTestFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    std::perror(path.c_str());
    std::abort();
  }
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string RandomBytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  size_t at = 0;
  while (at < size) {
    const uint64_t word = random();
    const size_t step = std::min(sizeof(word), size - at);
    std::copy_n(reinterpret_cast<const char*>(&word), step, &bytes[at]);
    at += step;
  }
  return bytes;
}

}  // namespace cairn
