#include "base/rate_limiter.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "testing/fake_clock.h"
#include "testing/seed.h"

namespace cairn {
namespace {

constexpr uint64_t kRate = 1'000'000;

TEST(RateLimiterTest, ZeroMeansNoLimit) {
  FakeClock clock;
  RateLimiter limiter(0, &clock);
  limiter.Acquire(~uint64_t{0});
  EXPECT_EQ(clock.slept(), absl::ZeroDuration());
}

TEST(RateLimiterTest, KeepsToTheRateFromTheFirstByte) {
  FakeClock clock;
  RateLimiter limiter(kRate, &clock);
  for (int i = 0; i < 100; ++i) limiter.Acquire(kRate / 10);
  EXPECT_EQ(clock.slept(), absl::Seconds(10));
}

TEST(RateLimiterTest, APieceLargerThanASecondsWorthPasses) {
  FakeClock clock;
  RateLimiter limiter(kRate, &clock);
  limiter.Acquire(30 * kRate);
  EXPECT_EQ(clock.slept(), absl::Seconds(30));
  limiter.Acquire(kRate);
  EXPECT_EQ(clock.slept(), absl::Seconds(31));
}

TEST(RateLimiterTest, KeepsOneSecondOfUnusedAllowance) {
  FakeClock clock;
  RateLimiter limiter(kRate, &clock);
  clock.Set(clock.Now() + absl::Hours(1));
  limiter.Acquire(kRate);
  EXPECT_EQ(clock.slept(), absl::ZeroDuration());
  limiter.Acquire(kRate);
  EXPECT_EQ(clock.slept(), absl::Seconds(1));
}

TEST(RateLimiterTest, TimeSpentElsewhereCounts) {
  FakeClock clock;
  RateLimiter limiter(kRate, &clock);
  clock.Set(clock.Now() + absl::Milliseconds(300));
  limiter.Acquire(kRate);
  EXPECT_EQ(clock.slept(), absl::Milliseconds(700));
}

TEST(RateLimiterTest, AClockSetBackStopsNobody) {
  FakeClock clock;
  RateLimiter limiter(kRate, &clock);
  limiter.Acquire(kRate);
  clock.Set(clock.Now() - absl::Hours(10));
  limiter.Acquire(kRate);
  // What it last knew to be owed may be waited for once more, not ten hours.
  const absl::Duration slept = clock.slept();
  EXPECT_GE(slept, absl::Seconds(2));
  EXPECT_LE(slept, absl::Seconds(3));
  limiter.Acquire(kRate);
  EXPECT_EQ(clock.slept() - slept, absl::Seconds(1));
}

// In no span of time does more pass than the rate and one second's worth.
TEST(RateLimiterPropertyTest, NeverExceedsTheRateInAnySpan) {
  std::mt19937_64 random(TestSeed());
  FakeClock clock;
  RateLimiter limiter(kRate, &clock);
  struct Grant {
    absl::Time at;
    double bytes_before, bytes_after;
  };
  std::vector<Grant> grants;
  double total = 0;
  for (int i = 0; i < 600; ++i) {
    if (random() % 4 == 0) {
      clock.Set(clock.Now() + absl::Milliseconds(random() % 3000));
    }
    const uint64_t bytes = random() % (3 * kRate);
    limiter.Acquire(bytes);
    grants.push_back({clock.Now(), total, total + static_cast<double>(bytes)});
    total = grants.back().bytes_after;
  }
  for (size_t i = 0; i < grants.size(); ++i) {
    for (size_t j = i + 1; j < grants.size(); ++j) {
      const double seconds =
          absl::ToDoubleSeconds(grants[j].at - grants[i].at) + 1;
      ASSERT_LE(grants[j].bytes_after - grants[i].bytes_after,
                seconds * kRate + 1);
    }
  }
}

TEST(RateLimiterTest, ThreadsShareOneRate) {
  FakeClock clock;
  const absl::Time start = clock.Now();
  RateLimiter limiter(kRate, &clock);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&limiter] {
      for (int j = 0; j < 250; ++j) limiter.Acquire(kRate / 100);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Ten seconds' worth passed. The sleeps of a held clock add up, so that it
  // may show more, never less.
  EXPECT_GE(clock.Now() - start, absl::Seconds(10));
}

}  // namespace
}  // namespace cairn
