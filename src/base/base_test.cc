// The small headers of this module: check.h, status_macros.h, bytes.h, clock.h.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "testing/fake_clock.h"
#include "testing/status_matchers.h"

namespace cairn {
namespace {

TEST(CheckTest, PassesWhatHolds) {
  int evaluated = 0;
  CAIRN_CHECK(++evaluated == 1);
  EXPECT_EQ(evaluated, 1);
}

TEST(CheckDeathTest, StopsAtWhatDoesNot) {
  EXPECT_DEATH(CAIRN_CHECK(2 + 2 == 5),
               "base_test.cc:[0-9]+: check failed: 2 \\+ 2 == 5");
}

absl::Status ReturnIfError(const absl::Status& status, bool* went_on) {
  CAIRN_RETURN_IF_ERROR(status);
  *went_on = true;
  return absl::OkStatus();
}

TEST(StatusMacrosTest, ReturnIfErrorReturnsTheErrorOnly) {
  bool went_on = false;
  EXPECT_THAT(ReturnIfError(absl::AbortedError("no"), &went_on),
              FailsWith(absl::StatusCode::kAborted, "no"));
  EXPECT_FALSE(went_on);
  EXPECT_OK(ReturnIfError(absl::OkStatus(), &went_on));
  EXPECT_TRUE(went_on);
}

absl::StatusOr<int> AddBoth(absl::StatusOr<std::unique_ptr<int>> a,
                            const absl::StatusOr<int>& b) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<int> value_a, std::move(a));
  int value_b = 0;
  CAIRN_ASSIGN_OR_RETURN(value_b, b);
  return *value_a + value_b;
}

TEST(StatusMacrosTest, AssignOrReturnMovesTheValueOut) {
  EXPECT_EQ(*AddBoth(std::make_unique<int>(1), 2), 3);
  EXPECT_THAT(AddBoth(absl::AbortedError("a"), 2),
              FailsWith(absl::StatusCode::kAborted, "a"));
  EXPECT_THAT(AddBoth(std::make_unique<int>(1), absl::AbortedError("b")),
              FailsWith(absl::StatusCode::kAborted, "b"));
}

TEST(BytesTest, TextAndBytesAreTwoViewsOfTheSame) {
  const std::string text("a\0b", 3);
  const ByteView bytes = AsBytes(text);
  EXPECT_EQ(bytes.size(), 3u);
  EXPECT_EQ(bytes[1], std::byte{0});
  EXPECT_EQ(AsText(bytes), text);
  EXPECT_EQ(AsText({}), "");
}

TEST(ClockTest, RealTimeIsBetweenBeforeAndAfter) {
  const absl::Time before = absl::Now();
  const absl::Time now = Clock::Real()->Now();
  EXPECT_GE(now, before);
  EXPECT_LE(now, absl::Now());
  Clock::Real()->SleepFor(absl::ZeroDuration());
}

TEST(ClockTest, FakeTimeMovesWhenTold) {
  FakeClock clock;
  const absl::Time start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.SleepFor(absl::Seconds(5));
  EXPECT_EQ(clock.Now(), start + absl::Seconds(5));
  EXPECT_EQ(clock.slept(), absl::Seconds(5));
  clock.Set(start - absl::Hours(1));
  EXPECT_EQ(clock.Now(), start - absl::Hours(1));
}

}  // namespace
}  // namespace cairn
