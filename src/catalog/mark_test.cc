#include "catalog/mark.h"

#include <algorithm>
#include <string>

#include "base/crc64.h"
#include "base/digest.h"
#include "catalog/tier_id.h"
#include "testing/status_matchers.h"

namespace cairn {
namespace {

constexpr char kGeneration[] = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
constexpr char kOther[] = "ffffffffffffffffffffffffffffffff";

Mark FullMark() {
  Mark mark;
  mark.kind = MarkKind::kPin;
  mark.time_us = 1767225700000000;
  mark.generation = kGeneration;
  mark.until_ns = -7;
  mark.reason = "baseline of the paper\n100% \xff";
  mark.user = std::string("ada\0", 4);
  return mark;
}

Mark MarkAt(uint64_t time_us, MarkKind kind, std::string generation = "") {
  Mark mark;
  mark.time_us = time_us;
  mark.kind = kind;
  mark.generation = std::move(generation);
  return mark;
}

// A record's text with one piece exchanged and a right checksum.
std::string Spoiled(std::string text, const std::string& from,
                    const std::string& to) {
  const size_t crc = text.find("\"crc64\":");
  constexpr size_t kCrcField = 9 + 16 + 2;  // With its comma.
  text.erase(crc, kCrcField);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  text.pop_back();
  const std::string field =
      "\"crc64\":\"" + ToHex(Crc64Nvme(AsBytes(text))) + "\",";
  return text.insert(1, field);
}

TEST(Mark, EveryFieldComesBack) {
  for (const MarkKind kind : {MarkKind::kPin, MarkKind::kUnpin,
                              MarkKind::kRelease, MarkKind::kPresent}) {
    Mark mark = FullMark();
    mark.kind = kind;
    const auto decoded = DecodeMark(AsBytes(EncodeMark(mark)));
    ASSERT_OK(decoded);
    EXPECT_EQ(*decoded, mark);
  }
  EXPECT_EQ(*DecodeMark(AsBytes(EncodeMark(Mark()))), Mark());
}

TEST(Mark, PathsSortByTime) {
  EXPECT_EQ(MarkPath("run/a", FullMark(), 0xAB),
            ".cairn/marks/run/a/00001767225700000000-pin-000000ab.json");
  EXPECT_EQ(MarkDirectory("a"), ".cairn/marks/a");
}

TEST(Mark, AWholeNovelAsAReasonIsCut) {
  Mark mark = FullMark();
  mark.reason = std::string(1 << 20, '\xff');
  const auto decoded = DecodeMark(AsBytes(EncodeMark(mark)));
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->reason, std::string(4096, '\xff'));
}

TEST(Mark, CutOrFlippedIsDamage) {
  const std::string text = EncodeMark(FullMark());
  // The line feed at the end has no meaning.
  for (size_t size = 0; size + 1 < text.size(); ++size) {
    EXPECT_THAT(DecodeMark(AsBytes(text).first(size)),
                HasCode(absl::StatusCode::kDataLoss));
  }
  for (size_t bit = 0; bit < 8 * (text.size() - 1); ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodeMark(AsBytes(flipped)).ok()) << bit;
  }
}

TEST(Mark, FieldsAreStrict) {
  const std::string text = EncodeMark(FullMark());
  EXPECT_OK(DecodeMark(AsBytes(Spoiled(text, "\"ada", "\"ida"))));
  EXPECT_OK(DecodeMark(AsBytes(Spoiled(text, "{", "{\"a\":[1,{}],"))));
  const std::pair<const char*, const char*> kSpoils[] = {
      {"\"pin\"", "\"pins\""},
      {"\"pin\"", "1"},
      {"1767225700000000", "-1"},
      {"1767225700000000", "18446744073709551615"},
      {"1767225700000000", "\"1\""},
      {"-7", "0.5"},
      {"-7", "null"},
      {"\"0f1e", "\"0F1e"},
      {"100%25", "100%"},
      {"\"user\"", "\"usre\""},
      {"\"cairn\":\"mark\"", "\"cairn\":\"tier\""}};
  for (const auto& [from, to] : kSpoils) {
    EXPECT_THAT(DecodeMark(AsBytes(Spoiled(text, from, to))),
                HasCode(absl::StatusCode::kDataLoss))
        << to;
  }
}

TEST(Mark, ANewerVersionIsNamed) {
  EXPECT_THAT(DecodeMark(AsBytes(Spoiled(EncodeMark(FullMark()),
                                         "\"version\":1", "\"version\":4"))),
              FailsWith(absl::StatusCode::kUnimplemented, "version 4"));
}

TEST(Mark, HostileDepthAndLengthAreDamage) {
  const std::string text = EncodeMark(FullMark());
  for (const size_t depth : {20U, 30'000U}) {
    const std::string nested =
        "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + ",";
    EXPECT_THAT(DecodeMark(AsBytes(Spoiled(text, "{", nested))),
                HasCode(absl::StatusCode::kDataLoss));
  }
  EXPECT_THAT(DecodeMark(AsBytes(text + std::string(1 << 20, ' '))),
              HasCode(absl::StatusCode::kDataLoss));
}

TEST(Mark, NothingMeansNothing) {
  EXPECT_EQ(SummariseMarks({}, kGeneration), MarkState());
}

TEST(Mark, TheLaterOneCountsWhateverTheOrderOfReading) {
  std::vector<Mark> marks = {
      MarkAt(1, MarkKind::kPin), MarkAt(2, MarkKind::kRelease),
      MarkAt(3, MarkKind::kUnpin), MarkAt(4, MarkKind::kPresent),
      MarkAt(5, MarkKind::kPin)};
  marks[4].reason = "again";
  MarkState expected;
  expected.pinned = true;
  expected.pin_reason = "again";
  std::sort(marks.begin(), marks.end(),
            [](const Mark& a, const Mark& b) { return a.time_us < b.time_us; });
  do {
    EXPECT_EQ(SummariseMarks(marks, kGeneration), expected);
  } while (std::next_permutation(
      marks.begin(), marks.end(),
      [](const Mark& a, const Mark& b) { return a.time_us < b.time_us; }));
}

TEST(Mark, OnlyMarksForTheGenerationCount) {
  const std::vector<Mark> marks = {MarkAt(1, MarkKind::kPin),
                                   MarkAt(2, MarkKind::kUnpin, kOther),
                                   MarkAt(3, MarkKind::kRelease, kGeneration)};
  EXPECT_TRUE(SummariseMarks(marks, kGeneration).pinned);
  EXPECT_TRUE(SummariseMarks(marks, kGeneration).released);
  EXPECT_FALSE(SummariseMarks(marks, kOther).pinned);
  EXPECT_FALSE(SummariseMarks(marks, kOther).released);
}

TEST(Mark, TheLongestHoldCountsAndUnpinEndsAllHolds) {
  std::vector<Mark> marks = {MarkAt(1, MarkKind::kPin),
                             MarkAt(2, MarkKind::kPin),
                             MarkAt(3, MarkKind::kPin)};
  marks[0].until_ns = 100;
  marks[1].until_ns = 300;
  marks[2].until_ns = 200;
  MarkState state = SummariseMarks(marks, kGeneration);
  EXPECT_FALSE(state.pinned);
  EXPECT_EQ(state.hold_until_ns, 300);
  marks.push_back(MarkAt(4, MarkKind::kUnpin));
  EXPECT_EQ(SummariseMarks(marks, kGeneration), MarkState());
}

TEST(Mark, MarksOfOneMicrosecondGoByName) {
  // pin, present, release, unpin.
  const std::vector<Mark> marks = {
      MarkAt(1, MarkKind::kUnpin), MarkAt(1, MarkKind::kPin),
      MarkAt(1, MarkKind::kRelease), MarkAt(1, MarkKind::kPresent)};
  const MarkState state = SummariseMarks(marks, kGeneration);
  EXPECT_FALSE(state.pinned);
  EXPECT_TRUE(state.released);
}

TierId CoreTier() {
  TierId tier;
  tier.id = kGeneration;
  tier.kind = "core";
  tier.created = "2026-01-01T00:00:00Z";
  return tier;
}

TEST(TierIdRecord, EveryFieldComesBack) {
  TierId tier = CoreTier();
  EXPECT_EQ(*DecodeTierId(AsBytes(EncodeTierId(tier))), tier);
  tier.kind = "accelerator";
  EXPECT_EQ(*DecodeTierId(AsBytes(EncodeTierId(tier))), tier);
}

TEST(TierIdRecord, DamageAndOtherFilesAreRefused) {
  const std::string text = EncodeTierId(CoreTier());
  for (size_t bit = 0; bit < 8 * (text.size() - 1); ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodeTierId(AsBytes(flipped)).ok()) << bit;
  }
  EXPECT_THAT(DecodeTierId(AsBytes(EncodeMark(FullMark()))),
              HasCode(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeTierId({}), HasCode(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeTierId(AsBytes(Spoiled(text, "\"core\"", "\"cold\""))),
              HasCode(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeTierId(AsBytes(Spoiled(text, "\"0f1e", "\"0f1"))),
              HasCode(absl::StatusCode::kDataLoss));
}

TEST(TierIdRecord, ANewerFormatIsNamed) {
  EXPECT_THAT(DecodeTierId(AsBytes(Spoiled(EncodeTierId(CoreTier()),
                                           "\"version\":1", "\"version\":2"))),
              FailsWith(absl::StatusCode::kUnimplemented, "version 2"));
}

}  // namespace
}  // namespace cairn
