#include "apps/cairn/parse.h"

#include <string>
#include <vector>

#include "testing/status_matchers.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

TEST(ParseTest, EitherNamesOrAll) {
  EXPECT_EQ(*AskedFor({"a"}, false), Asked::kNamed);
  EXPECT_EQ(*AskedFor({}, true), Asked::kEverything);
  EXPECT_THAT(AskedFor({}, false), FailsWith(kInvalid, "--all"));
  EXPECT_THAT(AskedFor({"a"}, true), FailsWith(kInvalid, "not both"));
}

TEST(ParseTest, Labels) {
  const auto labels = ParseLabels({"commit=abc", "note=a=b", "empty="});
  ASSERT_OK(labels);
  EXPECT_THAT(*labels, ElementsAre(Pair("commit", "abc"), Pair("empty", ""),
                                   Pair("note", "a=b")));
  EXPECT_THAT(ParseLabels({"x"}), FailsWith(kInvalid, "KEY=VALUE"));
  EXPECT_THAT(ParseLabels({"=x"}), FailsWith(kInvalid, "KEY=VALUE"));
  EXPECT_THAT(ParseLabels({"a=1", "a=2"}), FailsWith(kInvalid, "twice"));
}

TEST(ParseTest, Tiers) {
  EXPECT_EQ(*ParseTier("core"), TierChoice::kCore);
  EXPECT_EQ(*ParseTier("accelerator"), TierChoice::kAccelerator);
  EXPECT_EQ(*ParseTier("both"), TierChoice::kBoth);
  EXPECT_THAT(ParseTier("Core"), FailsWith(kInvalid, "--tier"));
}

}  // namespace
}  // namespace cairn
