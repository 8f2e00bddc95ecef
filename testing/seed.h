// The seed of a random test: another one in each run, printed, and taken back
// from CAIRN_TEST_SEED so that a failure can be run again.

#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string_view>

namespace cairn {

inline uint64_t TestSeed() {
  static const uint64_t seed = [] {
    uint64_t value = std::random_device()();
    if (const char* const given = std::getenv("CAIRN_TEST_SEED")) {
      const std::string_view text = given;
      std::from_chars(text.data(), text.data() + text.size(), value);
    }
    // Flushed at once: the test may be about to crash.
    std::cout << "to run this again: CAIRN_TEST_SEED=" << value << '\n'
              << std::flush;
    return value;
  }();
  return seed;
}

}  // namespace cairn
