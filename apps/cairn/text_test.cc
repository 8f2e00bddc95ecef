#include "apps/cairn/text.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn {
namespace {

TEST(TextTest, WidthCountsCodePoints) {
  EXPECT_EQ(DisplayWidth(""), 0);
  EXPECT_EQ(DisplayWidth("abc"), 3);
  EXPECT_EQ(DisplayWidth("\xC3\xA4\xE2\x82\xAC"), 2);
}

TEST(TextTest, ShortenedLeavesOutTheMiddle) {
  EXPECT_EQ(Shortened("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(Shortened("abcdefghij", 9), "abc...hij");
  EXPECT_EQ(Shortened("abcdefghij", 8), "ab...hij");
  EXPECT_EQ(Shortened("abcdefghij", 3), "abc");
  EXPECT_EQ(Shortened("abcdefghij", 0), "");
  const std::string umlauts =
      "\xC3\xA4\xC3\xB6\xC3\xBC\xC3\x9F\xC3\xA4\xC3\xB6";
  EXPECT_EQ(Shortened(umlauts, 5), "\xC3\xA4...\xC3\xB6");
}

TEST(TextTest, CountsAreInTheRightNumber) {
  EXPECT_EQ(Count(0, "file"), "0 files");
  EXPECT_EQ(Count(1, "file"), "1 file");
  EXPECT_EQ(Count(2, "checkpoint"), "2 checkpoints");
}

TEST(TextTest, TimesForProgramsAreUtcWithNanoseconds) {
  EXPECT_EQ(UtcTime(1767225600'000000001), "2026-01-01T00:00:00.000000001Z");
  EXPECT_EQ(UtcTime(-1), "1969-12-31T23:59:59.999999999Z");
}

TEST(TextTest, TimesForPeopleNameTheirOffset) {
  const std::string text = LocalTime(1767225600'000000001);
  ASSERT_EQ(text.size(), 25) << text;
  EXPECT_EQ(text[10], 'T');
  EXPECT_TRUE(text[19] == '+' || text[19] == '-') << text;
}

TEST(TextTest, TablesAreAligned) {
  Table table({"PATH", ">SIZE", "NOTE"});
  EXPECT_TRUE(table.empty());
  table.Add({"a", "10 B", "x"});
  table.Add({"\xC3\xA4\xC3\xB6long", "1.00 GB", ""});
  EXPECT_FALSE(table.empty());
  EXPECT_EQ(table.Text(1),
            " PATH       SIZE  NOTE\n"
            " a          10 B  x\n"
            " \xC3\xA4\xC3\xB6long  1.00 GB\n");
}

}  // namespace
}  // namespace cairn
