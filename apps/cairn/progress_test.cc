#include "apps/cairn/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "apps/cairn/text.h"
#include "testing/fake_clock.h"

namespace cairn {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint64_t kGigabyte = 1'000'000'000;

class ProgressTest : public ::testing::Test {
 protected:
  Progress::Setup SetupOf(Progress::Style style) {
    return {.style = style,
            .notices = true,
            .prefix = "cairn export: ",
            .columns = 110,
            .clock = &clock_,
            .write = [this](std::string_view text) { written_ += text; }};
  }
  // What has been written since the last call.
  std::string Written() { return std::exchange(written_, ""); }

  FakeClock clock_;
  std::string written_;
};

TEST_F(ProgressTest, ABarWithRateAndTimeLeft) {
  Progress progress(SetupOf(Progress::Style::kBar));
  progress.OnStart("export modelA/step-1", 10 * kGigabyte, 4);
  EXPECT_EQ(Written(), "");
  clock_.SleepFor(absl::Seconds(2));
  progress.OnProgress(5 * kGigabyte, 2);
  EXPECT_EQ(Written(),
            "\r\033[Kexport modelA/step-1  "
            "[###############---------------]  "
            " 50 %  5.00 GB of 10.0 GB  2.50 GB/s  2 s left");
  progress.OnFinish();
  EXPECT_EQ(Written(), "\r\033[K");
}

TEST_F(ProgressTest, TheBarIsNotDrawnTooOften) {
  Progress progress(SetupOf(Progress::Style::kBar));
  progress.OnStart("export", kGigabyte, 0);
  for (int i = 0; i < 99; ++i) {
    clock_.SleepFor(absl::Milliseconds(1));
    progress.OnProgress(1, 0);
  }
  EXPECT_EQ(Written(), "");
  clock_.SleepFor(absl::Milliseconds(1));
  progress.OnProgress(1, 0);
  EXPECT_THAT(Written(), StartsWith("\r"));
}

TEST_F(ProgressTest, TheBarKeepsToTheWidthOfTheTerminal) {
  for (const int columns : {1, 40, 60, 80, 200}) {
    Written();  // The one before has cleared its line.
    Progress::Setup setup = SetupOf(Progress::Style::kBar);
    setup.columns = columns;
    Progress progress(setup);
    progress.OnStart("export a/very/long/name/of/a/run/and/a/checkpoint-1000",
                     10 * kGigabyte, 4);
    clock_.SleepFor(absl::Seconds(2));
    progress.OnProgress(5 * kGigabyte, 2);
    const std::string line = Written().substr(4);
    EXPECT_LT(DisplayWidth(line), std::max(columns, 21)) << line;
    if (columns >= 60) {
      EXPECT_THAT(line, EndsWith("2 s left"));
    }
  }
}

TEST_F(ProgressTest, PlainLinesOnlyForLongWork) {
  Progress progress(SetupOf(Progress::Style::kLines));
  progress.OnStart("export modelA/step-1", 10 * kGigabyte, 4);
  clock_.SleepFor(absl::Seconds(4));
  progress.OnProgress(4 * kGigabyte, 0);
  progress.OnFinish();
  EXPECT_EQ(Written(), "");

  progress.OnStart("export modelA/step-2", 10 * kGigabyte, 4);
  clock_.SleepFor(absl::Seconds(5));
  progress.OnProgress(5 * kGigabyte, 0);
  EXPECT_EQ(
      Written(),
      "export modelA/step-2: 50 %, 5.00 GB of 10.0 GB, 1.00 GB/s, 5 s left\n");
  clock_.SleepFor(absl::Seconds(5));
  progress.OnProgress(5 * kGigabyte, 0);
  EXPECT_EQ(Written(),
            "export modelA/step-2: 100 %, 10.0 GB of 10.0 GB, 1.00 GB/s\n");
  progress.OnFinish();
  EXPECT_EQ(Written(),
            "export modelA/step-2: finished, 10.0 GB, 1.00 GB/s, 10 s\n");
}

TEST_F(ProgressTest, TheRateFollowsWhatHappensNow) {
  Progress progress(SetupOf(Progress::Style::kLines));
  progress.OnStart("export", 100 * kGigabyte, 0);
  clock_.SleepFor(absl::Seconds(5));
  progress.OnProgress(50 * kGigabyte, 0);  // Was there already.
  Written();
  for (int i = 0; i < 8; ++i) {
    clock_.SleepFor(absl::Seconds(5));
    progress.OnProgress(5 * kGigabyte, 0);
  }
  EXPECT_THAT(Written(), EndsWith("90 %, 90.0 GB of 100 GB, 1.00 GB/s, "
                                  "10 s left\n"));
}

TEST_F(ProgressTest, AnUnknownAmountIsCounted) {
  Progress progress(SetupOf(Progress::Style::kLines));
  progress.OnStart("scan", 0, 0);
  clock_.SleepFor(absl::Seconds(6));
  progress.OnProgress(0, 1234);
  EXPECT_EQ(Written(), "scan: 1234 files\n");
  progress.OnFinish();
  EXPECT_EQ(Written(), "scan: finished, 1234 files, 6.0 s\n");
}

TEST_F(ProgressTest, PhasesAtTheSameTimeAddUp) {
  Progress progress(SetupOf(Progress::Style::kLines));
  progress.OnStart("export a", 5 * kGigabyte, 1);
  progress.OnStart("export b", 5 * kGigabyte, 1);
  clock_.SleepFor(absl::Seconds(5));
  progress.OnProgress(5 * kGigabyte, 1);
  EXPECT_THAT(Written(), HasSubstr("50 %"));
  progress.OnFinish();
  EXPECT_EQ(Written(), "");
  progress.OnFinish();
  EXPECT_THAT(Written(), HasSubstr("finished"));
  progress.OnFinish();  // One too many does no harm.
  EXPECT_EQ(Written(), "");
}

TEST_F(ProgressTest, NoticesInterruptTheBar) {
  Progress progress(SetupOf(Progress::Style::kBar));
  progress.OnStart("export", kGigabyte, 0);
  clock_.SleepFor(absl::Seconds(1));
  progress.OnProgress(1, 0);
  Written();
  progress.OnNotice("something to know");
  EXPECT_EQ(Written(), "\r\033[Kcairn export: something to know\n");
}

TEST_F(ProgressTest, NothingWhereNothingIsWanted) {
  Progress::Setup setup = SetupOf(Progress::Style::kNone);
  setup.notices = false;
  Progress progress(setup);
  progress.OnStart("export", kGigabyte, 0);
  clock_.SleepFor(absl::Minutes(1));
  progress.OnProgress(1, 0);
  progress.OnNotice("text");
  progress.OnFinish();
  EXPECT_EQ(Written(), "");
}

TEST_F(ProgressTest, AClockSetBackDoesNoHarm) {
  Progress progress(SetupOf(Progress::Style::kLines));
  progress.OnStart("export", kGigabyte, 0);
  clock_.Set(clock_.Now() - absl::Hours(1));
  progress.OnProgress(1, 0);
  EXPECT_EQ(Written(), "export: 0 %, 1 B of 1.00 GB, 0 B/s\n");
  progress.OnFinish();
  EXPECT_THAT(Written(), HasSubstr("finished"));
}

}  // namespace
}  // namespace cairn
