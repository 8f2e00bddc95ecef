#include "base/escape.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace cairn {
namespace {

struct Case {
  std::string_view name;
  std::string_view text;
};

void ExpectForms(std::initializer_list<Case> cases) {
  for (const auto& [name, text] : cases) {
    EXPECT_EQ(EscapeName(name), text);
    const auto back = UnescapeName(text);
    ASSERT_OK(back);
    EXPECT_EQ(*back, name);
  }
}

TEST(EscapeNameTest, PrintableTextStandsForItself) {
  ExpectForms({
      {"", ""},
      {"model-00001-of-00002.safetensors", "model-00001-of-00002.safetensors"},
      {"a b/c\\d\"e'~", "a b/c\\d\"e'~"},
      {"\xC3\xA9", "\xC3\xA9"},    // é, composed
      {"e\xCC\x81", "e\xCC\x81"},  // é, decomposed
      {"\xE6\xA8\xA1\xE5\x9E\x8B", "\xE6\xA8\xA1\xE5\x9E\x8B"},
      {"\xF0\x9F\xAA\xA8", "\xF0\x9F\xAA\xA8"},  // U+1FAA8
      {"\xC2\xA0", "\xC2\xA0"},  // U+00A0, after the C1 controls
      {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},  // U+10FFFF, the last
      {"\xED\x9F\xBF", "\xED\x9F\xBF"},          // U+D7FF, before surrogates
      {"\xEE\x80\x80", "\xEE\x80\x80"},          // U+E000, after them
  });
}

TEST(EscapeNameTest, ControlsAndThePercentSignAreEscaped) {
  ExpectForms({
      {"100%", "100%25"},
      {"%41", "%2541"},
      {std::string_view("a\0b", 3), "a%00b"},
      {"line\nbreak\x1b[31m", "line%0Abreak%1B[31m"},
      {"\x7f", "%7F"},
      {"\xC2\x80", "%C2%80"},         // U+0080, the first C1 control
      {"\xC2\x9F", "%C2%9F"},         // U+009F, the last
      {"\xE2\x80\xA8", "%E2%80%A8"},  // Line separator
      {"\xE2\x80\xA9", "%E2%80%A9"},  // Paragraph separator
      {"\xE2\x80\x8E", "%E2%80%8E"},  // Left-to-right mark
      {"\xE2\x80\x8F", "%E2%80%8F"},  // Right-to-left mark
      {"\xD8\x9C", "%D8%9C"},         // Arabic letter mark
      {"a\xE2\x80\xAE"
       "b",
       "a%E2%80%AEb"},                // Right-to-left override
      {"\xE2\x80\xAA", "%E2%80%AA"},  // U+202A, the first embedding
      {"\xE2\x81\xA6", "%E2%81%A6"},  // U+2066, the first isolate
      {"\xE2\x81\xA9", "%E2%81%A9"},  // U+2069, the last
      {"\xEF\xBB\xBF", "%EF%BB%BF"},  // Byte order mark
  });
}

TEST(EscapeNameTest, NeighboursOfTheControlsAreNot) {
  ExpectForms({
      {"\xE2\x80\xA7", "\xE2\x80\xA7"},  // U+2027
      {"\xE2\x80\xAF", "\xE2\x80\xAF"},  // U+202F
      {"\xE2\x81\xA5", "\xE2\x81\xA5"},  // U+2065
      {"\xE2\x81\xAA", "\xE2\x81\xAA"},  // U+206A
      {"\xE2\x80\x8D", "\xE2\x80\x8D"},  // U+200D joins emoji
      {"\xE2\x80\x90", "\xE2\x80\x90"},  // U+2010
  });
}

TEST(EscapeNameTest, IllFormedUtf8IsEscapedByteByByte) {
  ExpectForms({
      {"\xff", "%FF"},
      {"caf\xe9", "caf%E9"},  // Latin-1
      {"\x80", "%80"},        // Lone continuation
      {"\xC3", "%C3"},        // Cut off
      {"\xE2\x82", "%E2%82"},
      {"\xF0\x9F\xAA", "%F0%9F%AA"},
      {"\xC3(", "%C3("},                       // Broken off by ASCII
      {"\xE2\x82\xC3\xA9", "%E2%82\xC3\xA9"},  // The next one survives
      {"\xC0\xAF", "%C0%AF"},                  // Overlong slash
      {"\xC1\xBF", "%C1%BF"},
      {"\xE0\x80\xAF", "%E0%80%AF"},
      {"\xE0\x9F\xBF", "%E0%9F%BF"},
      {"\xF0\x8F\xBF\xBF", "%F0%8F%BF%BF"},
      {"\xED\xA0\x80", "%ED%A0%80"},  // Surrogates
      {"\xED\xBF\xBF", "%ED%BF%BF"},
      {"\xF4\x90\x80\x80", "%F4%90%80%80"},  // Above U+10FFFF
      {"\xF7\xBF\xBF\xBF", "%F7%BF%BF%BF"},
      {"\xF8\x88\x80\x80\x80", "%F8%88%80%80%80"},
  });
}

TEST(UnescapeNameTest, RefusesBrokenEscapes) {
  for (const char* const text : {"%", "a%", "%2", "a%2", "%G0", "%0G", "%%25",
                                 "%e9", "%2 5", "% 25", "%-1", "%+1"}) {
    EXPECT_THAT(UnescapeName(text),
                FailsWith(absl::StatusCode::kInvalidArgument, "percent sign"))
        << text;
  }
}

TEST(UnescapeNameTest, RefusesASecondFormOfAName) {
  for (const char* const text : {
           "%41",      // A
           "%2F",      // A slash needs no escape.
           "%C3%A9",   // Nor does é.
           "\xC3%A9",  // Half of it.
           "\n",
           "\x7f",  // What should have been escaped.
           "\xff",
           "\xC2\x80",
           "\xE2\x80\xAE",
           "%E2%80\xAE",
       }) {
    EXPECT_THAT(
        UnescapeName(text),
        FailsWith(absl::StatusCode::kInvalidArgument, "is not how this name"))
        << EscapeName(text);
  }
}

TEST(UnescapeNameTest, ErrorsShowTheTextPrintably) {
  const auto name = UnescapeName("\x1b[31m%");
  EXPECT_THAT(name,
              FailsWith(absl::StatusCode::kInvalidArgument, "\"%1B[31m%25\""));
}

// Bytes that are likely to form, and to spoil, UTF-8 sequences and escapes.
std::string RandomName(std::mt19937_64* random) {
  constexpr unsigned char kBytes[] = {
      '%',  '2',  '5',  'A',  'f',  0x00, 0x1f, 0x7f, 0x80, 0x8e,
      0x9c, 0x9f, 0xa0, 0xa8, 0xae, 0xbb, 0xbf, 0xc0, 0xc2, 0xc3,
      0xd8, 0xe0, 0xe2, 0xed, 0xef, 0xf0, 0xf4, 0xf5, 0xff};
  std::string name((*random)() % 9, '\0');
  for (char& c : name) {
    const uint64_t draw = (*random)();
    c = static_cast<char>(draw % 4 == 0 ? draw >> 8
                                        : kBytes[(draw >> 8) % sizeof(kBytes)]);
  }
  return name;
}

bool IsCleanAscii(const std::string& text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) return false;
  }
  return true;
}

TEST(EscapeNamePropertyTest, IsReversible) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 100'000; ++round) {
    const std::string name = RandomName(&random);
    const std::string text = EscapeName(name);
    ASSERT_TRUE(IsCleanAscii(text)) << text;
    const auto back = UnescapeName(text);
    ASSERT_OK(back);
    ASSERT_EQ(*back, name) << text;
  }
}

TEST(EscapeNamePropertyTest, IsInjective) {
  std::mt19937_64 random(TestSeed());
  std::set<std::string> names, texts;
  for (int round = 0; round < 50'000; ++round) {
    const std::string name = RandomName(&random);
    if (names.insert(name).second) texts.insert(EscapeName(name));
  }
  EXPECT_EQ(names.size(), texts.size());
}

TEST(UnescapeNamePropertyTest, AcceptsTheCanonicalFormOnly) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 100'000; ++round) {
    const std::string text = RandomName(&random);
    const auto name = UnescapeName(text);
    if (!name.ok()) continue;
    ASSERT_EQ(EscapeName(*name), text);
  }
}

}  // namespace
}  // namespace cairn
