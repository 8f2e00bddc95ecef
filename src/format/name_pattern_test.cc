#include "format/name_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "format/framework_rules.h"
#include "testing/status_matchers.h"

namespace cairn {
namespace {

TEST(NamePatternTest, FindsNamedGroupsAndOrdersNumbersAsNumbers) {
  const auto pattern =
      NamePattern::Compile(R"((?:x|y)-(a)(?P<epoch>\d+)\((?<step>\d+)\)[(])");
  ASSERT_OK(pattern);
  const auto match = pattern->Match("y-a7(0120)(");
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->epoch, 7);
  EXPECT_EQ(match->step, 120);
  EXPECT_FALSE(pattern->Match("y-a7(0120)(x").has_value());  // The whole name.
}

TEST(NamePatternTest, NumberOutOfRangeIsNone) {
  const auto pattern = NamePattern::Compile(R"(s(?P<step>\d+))");
  ASSERT_OK(pattern);
  const auto match = pattern->Match("s99999999999999999999");
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->step, std::nullopt);
  EXPECT_EQ(pattern->Match("s9223372036854775807")->step, 9223372036854775807);
}

TEST(NamePatternTest, RefusesWhatCannotBeUnderstood) {
  for (const char* bad :
       {"", "(", ")", "a(?P<step", R"((?P<st ep>\d))", "[a", "a\\", "(?=a)",
        "(?i)a", "*a", R"((a)\1)", "(?P<>a)"}) {
    EXPECT_THAT(NamePattern::Compile(bad),
                HasCode(absl::StatusCode::kInvalidArgument))
        << bad;
  }
  EXPECT_THAT(NamePattern::Compile(std::string(kPatternLengthMax + 1, 'a')),
              FailsWith(absl::StatusCode::kInvalidArgument, "longer"));
}

TEST(NamePatternTest, RefusesWhatCouldTakeForever) {
  for (const char* bad : {"(a+)+", "(a|aa)+", "(?:(a*))*b", "((x+)y){2,}",
                          "a*a*a*a*a*a*a*a*a*"}) {
    EXPECT_THAT(NamePattern::Compile(bad),
                HasCode(absl::StatusCode::kInvalidArgument))
        << bad;
  }
  EXPECT_OK(NamePattern::Compile("(?:ab)+(?:c+)?"));
}

TEST(NamePatternTest, NamesAreBytesOfBoundedLength) {
  const auto pattern = NamePattern::Compile(".*");
  ASSERT_OK(pattern);
  EXPECT_TRUE(pattern->Match("\xff\xfe\x80").has_value());
  EXPECT_TRUE(pattern->Match(std::string(kNameLengthMax, 'a')).has_value());
  EXPECT_FALSE(
      pattern->Match(std::string(kNameLengthMax + 1, 'a')).has_value());
}

TEST(GlobTest, StarsAndQuestionMarks) {
  EXPECT_TRUE(GlobMatches("*.pt", "a.pt"));
  EXPECT_TRUE(GlobMatches("*.pt", ".pt"));
  EXPECT_FALSE(GlobMatches("*.pt", "a.pth"));
  EXPECT_TRUE(GlobMatches("a*b*c", "aXbXbc"));
  EXPECT_FALSE(GlobMatches("a*b*c", "aXcXb"));
  EXPECT_TRUE(GlobMatches("?*", "x"));
  EXPECT_FALSE(GlobMatches("?", ""));
  EXPECT_TRUE(GlobMatches("**", ""));
}

TEST(ParseNumberTest, DigitsOnly) {
  EXPECT_EQ(ParseNumber("0010"), 10);
  for (const char* bad : {"", "-1", "+1", "1 ", "0x1", "9223372036854775808"}) {
    EXPECT_EQ(ParseNumber(bad), std::nullopt) << bad;
  }
}

// Every table entry is used by a Recogniser; a slip in one shows here by name.
TEST(FrameworkTablesTest, EveryPatternCompilesAndEveryRuleSaysWhatItIs) {
  const auto expect_all = [](const std::vector<std::string>& patterns) {
    for (const std::string& pattern : patterns) {
      EXPECT_OK(NamePattern::Compile(pattern));
    }
  };
  for (const DirectoryRule& rule : DirectoryRules()) {
    expect_all(rule.names);
    EXPECT_FALSE(rule.name.empty());
    EXPECT_FALSE(rule.summary.empty());
    EXPECT_FALSE(rule.completion.checks.empty()) << rule.name;
    EXPECT_TRUE(!rule.sure.empty() || !rule.hints.empty()) << rule.name;
  }
  for (const FileRule& rule : FileRules()) {
    expect_all(rule.needs);
    for (const FilePattern& pattern : rule.patterns) {
      EXPECT_FALSE(pattern.globs.empty()) << rule.name;
      if (!pattern.pattern.empty()) expect_all({pattern.pattern});
    }
  }
  for (const StagingRule& rule : StagingRules()) expect_all({rule.pattern});
  expect_all(StepNamePatterns());
  expect_all(NumberedFilePatterns());
  expect_all(RankNamePatterns());
}

}  // namespace
}  // namespace cairn
