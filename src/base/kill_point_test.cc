#include "base/kill_point.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

namespace cairn {
namespace {

// CAIRN_KILL_AT is read once in the life of a process, so every case runs in a
// child of its own. The names stand in variables: the crash tests collect the
// literal ones.
constexpr const char* kName = "kill_point_test.here";
constexpr const char* kOtherName = "kill_point_test.there";

constexpr int kSurvived = 42;

void PassAndExit(const char* order, int passages) {
  if (order != nullptr) setenv("CAIRN_KILL_AT", order, 1);
  for (int i = 0; i < passages; ++i) {
    CAIRN_KILL_POINT(kOtherName);
    CAIRN_KILL_POINT(kName);
  }
  std::_Exit(kSurvived);
}

#ifdef CAIRN_KILL_POINTS

TEST(KillPointDeathTest, DoesNothingUnasked) {
  EXPECT_EXIT(PassAndExit(nullptr, 3), testing::ExitedWithCode(kSurvived), "");
  EXPECT_EXIT(PassAndExit("", 3), testing::ExitedWithCode(kSurvived), "");
  EXPECT_EXIT(PassAndExit("kill_point_test", 3),
              testing::ExitedWithCode(kSurvived), "");
}

TEST(KillPointDeathTest, KillsAtTheFirstPassage) {
  EXPECT_EXIT(PassAndExit(kName, 1), testing::KilledBySignal(SIGKILL), "");
}

TEST(KillPointDeathTest, KillsAtTheNthPassage) {
  EXPECT_EXIT(PassAndExit("kill_point_test.here:3", 2),
              testing::ExitedWithCode(kSurvived), "");
  EXPECT_EXIT(PassAndExit("kill_point_test.here:3", 3),
              testing::KilledBySignal(SIGKILL), "");
}

TEST(KillPointDeathTest, AnOrderThatCannotBeReadIsNotIgnored) {
  for (const char* const order :
       {"kill_point_test.here:", "kill_point_test.here:0",
        "kill_point_test.here:x", "kill_point_test.here:1x",
        "kill_point_test.here:-1"}) {
    EXPECT_EXIT(PassAndExit(order, 1), testing::KilledBySignal(SIGABRT),
                "check failed");
  }
}

#else

TEST(KillPointDeathTest, IsNotEvenThere) {
  EXPECT_EXIT(PassAndExit(kName, 1), testing::ExitedWithCode(kSurvived), "");
}

#endif

}  // namespace
}  // namespace cairn
