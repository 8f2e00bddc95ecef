#include "base/units.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace cairn {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

TEST(FormatBytesTest, ThreeDigitsInDecimalUnits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1000), "1.00 kB");
  EXPECT_EQ(FormatBytes(1500), "1.50 kB");
  EXPECT_EQ(FormatBytes(12'345), "12.3 kB");
  EXPECT_EQ(FormatBytes(123'456), "123 kB");
  EXPECT_EQ(FormatBytes(8 * kMiB), "8.39 MB");
  EXPECT_EQ(FormatBytes(kGiB), "1.07 GB");
  EXPECT_EQ(FormatBytes(1024 * kGiB), "1.10 TB");
  EXPECT_EQ(FormatBytes(2'000'000'000'000'000), "2.00 PB");
  EXPECT_EQ(FormatBytes(kMax), "18.4 EB");
}

TEST(FormatBytesTest, RoundingMovesToTheNextUnit) {
  EXPECT_EQ(FormatBytes(9'994), "9.99 kB");
  EXPECT_EQ(FormatBytes(9'996), "10.0 kB");
  EXPECT_EQ(FormatBytes(99'949), "99.9 kB");
  EXPECT_EQ(FormatBytes(99'950), "100 kB");
  EXPECT_EQ(FormatBytes(999'499), "999 kB");
  EXPECT_EQ(FormatBytes(999'500), "1.00 MB");
  EXPECT_EQ(FormatBytes(999'999'999), "1.00 GB");
}

TEST(FormatBytesBothTest, ShowsBothFromAMegabyte) {
  EXPECT_EQ(FormatBytesBoth(0), "0 B");
  EXPECT_EQ(FormatBytesBoth(999'000), "999 kB");
  EXPECT_EQ(FormatBytesBoth(1'000'000), "1.00 MB (977 KiB)");
  EXPECT_EQ(FormatBytesBoth(kGiB), "1.07 GB (1.00 GiB)");
  EXPECT_EQ(FormatBytesBoth(1020 * kMiB), "1.07 GB (1020 MiB)");
  EXPECT_EQ(FormatBytesBoth(kGiB - 1), "1.07 GB (1.00 GiB)");
  EXPECT_EQ(FormatBytesBoth(kMax), "18.4 EB (16.0 EiB)");
}

TEST(FormatRateTest, PerSecond) {
  EXPECT_EQ(FormatRate(kGiB, absl::Seconds(1)), "1.07 GB/s");
  EXPECT_EQ(FormatRate(1000, absl::Seconds(4)), "250 B/s");
  EXPECT_EQ(FormatRate(1, absl::Milliseconds(1)), "1.00 kB/s");
  EXPECT_EQ(FormatRate(0, absl::Seconds(1)), "0 B/s");
  EXPECT_EQ(FormatRate(kMax, absl::InfiniteDuration()), "0 B/s");
}

TEST(FormatRateTest, NoTimeNoRate) {
  EXPECT_EQ(FormatRate(1, absl::ZeroDuration()), "-");
  EXPECT_EQ(FormatRate(1, -absl::Seconds(1)), "-");
}

std::string Text(absl::Duration duration) {
  return cairn::FormatDuration(duration);
}

TEST(FormatDurationTest, TheTwoUnitsThatMatter) {
  EXPECT_EQ(Text(absl::ZeroDuration()), "0 s");
  EXPECT_EQ(Text(absl::Microseconds(100)), "<1 ms");
  EXPECT_EQ(Text(absl::Milliseconds(40)), "40 ms");
  EXPECT_EQ(Text(absl::Milliseconds(800)), "0.8 s");
  EXPECT_EQ(Text(absl::Seconds(12)), "12 s");
  EXPECT_EQ(Text(absl::Seconds(184)), "3 min 4 s");
  EXPECT_EQ(Text(absl::Minutes(125)), "2 h 5 min");
  EXPECT_EQ(Text(absl::Hours(76)), "3 d 4 h");
  EXPECT_EQ(Text(absl::Hours(24 * 400)), "400 d");
  EXPECT_EQ(Text(absl::InfiniteDuration()), "forever");
  EXPECT_EQ(Text(-absl::Seconds(184)), "-3 min 4 s");
  EXPECT_EQ(Text(-absl::InfiniteDuration()), "-forever");
}

TEST(FormatDurationTest, RoundingCarries) {
  EXPECT_EQ(Text(absl::Microseconds(99'600)), "0.1 s");
  EXPECT_EQ(Text(absl::Milliseconds(9'940)), "9.9 s");
  EXPECT_EQ(Text(absl::Milliseconds(9'960)), "10 s");
  EXPECT_EQ(Text(absl::Milliseconds(59'400)), "59 s");
  EXPECT_EQ(Text(absl::Milliseconds(59'600)), "1 min");
  EXPECT_EQ(Text(absl::Milliseconds(119'600)), "2 min");
  EXPECT_EQ(Text(absl::Milliseconds(3'599'400)), "59 min 59 s");
  EXPECT_EQ(Text(absl::Milliseconds(3'599'600)), "1 h");
  EXPECT_EQ(Text(absl::Seconds(24 * 3600 - 31)), "23 h 59 min");
  EXPECT_EQ(Text(absl::Seconds(24 * 3600 - 29)), "1 d");
  EXPECT_EQ(Text(absl::Minutes(48 * 60 - 31)), "1 d 23 h");
  EXPECT_EQ(Text(absl::Minutes(48 * 60 - 29)), "2 d");
}

void ExpectBytes(std::string_view text, uint64_t expected) {
  const auto bytes = ParseBytes(text);
  ASSERT_OK(bytes) << text;
  EXPECT_EQ(*bytes, expected) << text;
}

void ExpectRefused(std::string_view text, std::string_view why) {
  EXPECT_THAT(ParseBytes(text),
              FailsWith(absl::StatusCode::kInvalidArgument, std::string(why)))
      << text;
}

TEST(ParseBytesTest, WhatPeopleWrite) {
  ExpectBytes("0", 0);
  ExpectBytes("512", 512);
  ExpectBytes("512B", 512);
  ExpectBytes("512 B", 512);
  ExpectBytes("  8 MiB\t", 8 * kMiB);
  ExpectBytes("7.5GB", 7'500'000'000);
  ExpectBytes("1e9", 1'000'000'000);
  ExpectBytes("1E9 B", 1'000'000'000);
  ExpectBytes("1.5e3kB", 1'500'000);
  ExpectBytes(".5 KiB", 512);
  ExpectBytes("0.1GB", 100'000'000);
  ExpectBytes("007", 7);
}

TEST(ParseBytesTest, EveryUnitInEitherCase) {
  ExpectBytes("2kB", 2'000);
  ExpectBytes("2KB", 2'000);
  ExpectBytes("2kb", 2'000);
  ExpectBytes("2MB", 2'000'000);
  ExpectBytes("2gb", 2'000'000'000);
  ExpectBytes("2TB", 2'000'000'000'000);
  ExpectBytes("2PB", 2'000'000'000'000'000);
  ExpectBytes("2EB", 2'000'000'000'000'000'000);
  ExpectBytes("2eb", 2'000'000'000'000'000'000);  // No exponent.
  ExpectBytes("2KiB", 2 * kKiB);
  ExpectBytes("2mib", 2 * kMiB);
  ExpectBytes("2GIB", 2 * kGiB);
  ExpectBytes("2TiB", 2048 * kGiB);
  ExpectBytes("2PiB", 2048 * kGiB << 10);
  ExpectBytes("2EiB", 2048 * kGiB << 20);
}

TEST(ParseBytesTest, LargeIntegersAreExact) {
  ExpectBytes("18446744073709551615", kMax);
  ExpectBytes("9007199254740993", 9'007'199'254'740'993);  // 2^53 + 1
  ExpectBytes("18014398509481983 KiB", kMax - 1023);
  ExpectBytes("15EiB", uint64_t{15} << 60);
}

TEST(ParseBytesTest, RefusesOverflow) {
  for (const char* const text :
       {"18446744073709551616", "16EiB", "16.0EiB", "18.5EB", "1e20", "2e19",
        "18014398509481984KiB", "1e300GB"}) {
    ExpectRefused(text, "too large");
  }
}

TEST(ParseBytesTest, RefusesWhatIsNoSize) {
  for (const char* const text : {"", " ", "B", "MiB", "GB 5", "inf", "nan",
                                 "+5", ".", "e9", "$5", "1e999", "\xff"}) {
    ExpectRefused(text, "not a size");
  }
  for (const char* const text : {"-1", "-0", " -5GB", "-inf"}) {
    ExpectRefused(text, "negative");
  }
  for (const char* const text :
       {"5 parsecs", "5K", "5M", "5G", "5iB", "1,5GB", "1.2.3", "5 G B", "0x10",
        "5GB/s", "1e", "5GBB", "5 5"}) {
    ExpectRefused(text, "unknown unit");
  }
}

TEST(ParseBytesTest, RefusesBits) {
  for (const char* const text : {"5b", "5 b", "5Gb", "60 Mb", "1Kib"}) {
    ExpectRefused(text, "bits");
  }
}

TEST(ParseBytesTest, TheMessageShowsTheTextPrintablyAndShort) {
  ExpectRefused("5\nparsecs", "\"5%0Aparsecs\"");
  const auto refused = ParseBytes(std::string(1 << 20, 'x'));
  ASSERT_THAT(refused, HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_LT(refused.status().message().size(), 500u);
}

TEST(ParseBytesPropertyTest, PlainNumbersComeBack) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 10'000; ++round) {
    const uint64_t bytes = random() >> random() % 64;
    ExpectBytes(std::to_string(bytes), bytes);
  }
}

TEST(ParseBytesPropertyTest, WhatIsFormattedParsesToTheSameThreeDigits) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 10'000; ++round) {
    const uint64_t bytes = random() >> random() % 64;
    const std::string text = FormatBytes(bytes);
    const auto parsed = ParseBytes(text);
    ASSERT_OK(parsed) << text;
    ASSERT_EQ(FormatBytes(*parsed), text) << bytes;
    ASSERT_NEAR(static_cast<double>(*parsed), static_cast<double>(bytes),
                0.006 * static_cast<double>(bytes))
        << text;
  }
}

// Hostile text must neither crash nor read past its end.
TEST(ParsePropertyTest, AnyTextIsAnsweredOrRefused) {
  std::mt19937_64 random(TestSeed());
  constexpr std::string_view kAlphabet = "0123456789.eE+- kKMGTPiIBbsmhdw/\xff";
  for (int round = 0; round < 50'000; ++round) {
    std::string text(random() % 12, ' ');
    for (char& c : text) c = kAlphabet[random() % kAlphabet.size()];
    ASSERT_TRUE(ParseBytes(text).ok() ||
                absl::IsInvalidArgument(ParseBytes(text).status()));
    const auto duration = ParseDuration(text);
    ASSERT_TRUE(duration.ok() ? *duration >= absl::ZeroDuration() &&
                                    *duration < absl::InfiniteDuration()
                              : absl::IsInvalidArgument(duration.status()))
        << text;
  }
}

TEST(ParseBytesPerSecondTest, IsASizePerSecond) {
  const auto rate = ParseBytesPerSecond("7.5GB/s");
  ASSERT_OK(rate);
  EXPECT_EQ(*rate, 7'500'000'000u);
  const auto spaced = ParseBytesPerSecond(" 100 MiB /s ");
  ASSERT_OK(spaced);
  EXPECT_EQ(*spaced, 100 * kMiB);
}

TEST(ParseBytesPerSecondTest, RefusesAnythingElse) {
  for (const char* const text : {"", "7.5GB", "/s", "7.5GB/m", "7.5GB/s/s",
                                 "60Gb/s", "-1GB/s", "7.5GBps"}) {
    EXPECT_THAT(ParseBytesPerSecond(text),
                HasCode(absl::StatusCode::kInvalidArgument))
        << text;
  }
  EXPECT_THAT(ParseBytesPerSecond("7.5GB"),
              FailsWith(absl::StatusCode::kInvalidArgument, "such as 7.5GB/s"));
}

void ExpectDuration(std::string_view text, absl::Duration expected) {
  const auto duration = ParseDuration(text);
  ASSERT_OK(duration) << text;
  EXPECT_EQ(*duration, expected) << text;
}

TEST(ParseDurationTest, WhatPeopleWrite) {
  ExpectDuration("0", absl::ZeroDuration());
  ExpectDuration("90s", absl::Seconds(90));
  ExpectDuration("30 min", absl::Minutes(30));
  ExpectDuration("30m", absl::Minutes(30));
  ExpectDuration("7d", absl::Hours(7 * 24));
  ExpectDuration("1h30m", absl::Minutes(90));
  ExpectDuration("1 h 30 min", absl::Minutes(90));
  ExpectDuration(" 2 weeks ", absl::Hours(14 * 24));
  ExpectDuration("1 hour", absl::Hours(1));
  ExpectDuration("2 Days 3 Hours", absl::Hours(51));
  ExpectDuration("1.5h", absl::Minutes(90));
  ExpectDuration("0.1s", absl::Milliseconds(100));
  ExpectDuration("250ms", absl::Milliseconds(250));
  ExpectDuration("1w1d1h1m1s", absl::Seconds(604'800 + 86'400 + 3'661));
  ExpectDuration("200w", absl::Hours(200 * 7 * 24));
}

TEST(ParseDurationTest, RefusesAnythingElse) {
  for (const char* const text :
       {"", " ", "s", "-5s", "5", "1h30", "1 fortnight", "1h,30m", "inf", "1y",
        "h1", "1e999s", "1h-30m", "nan s", "1..5s"}) {
    EXPECT_THAT(ParseDuration(text),
                HasCode(absl::StatusCode::kInvalidArgument))
        << text;
  }
  EXPECT_THAT(ParseDuration("1h30"),
              FailsWith(absl::StatusCode::kInvalidArgument, "needs a unit"));
}

TEST(ParseDurationTest, RefusesWhatNoClockHolds) {
  for (const char* const text : {"1e300w", "300000d", "1e12s"}) {
    EXPECT_THAT(ParseDuration(text),
                FailsWith(absl::StatusCode::kInvalidArgument, "too long"))
        << text;
  }
  EXPECT_OK(ParseDuration("91000d"));
}

TEST(ParseDurationPropertyTest, WhatIsFormattedComesBack) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 10'000; ++round) {
    const absl::Duration duration = absl::Seconds(random() % 10'000'000);
    const std::string text = Text(duration);
    const auto parsed = ParseDuration(text == "0 s" ? "0" : text);
    ASSERT_OK(parsed) << text;
    ASSERT_EQ(Text(*parsed), text);
  }
}

}  // namespace
}  // namespace cairn
