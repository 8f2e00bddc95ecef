// Manifests that nobody wrote this way: cut, flipped, lied in. The right answer
// is always kDataLoss (or kUnimplemented), with a line, in little memory.

#include <zstd.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "catalog/manifest.h"
#include "catalog/manifest_test_data.h"
#include "fmt/format.h"
#include "testing/status_matchers.h"

namespace cairn {
namespace {

std::string Compress(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(
      ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string Decompress(std::string_view encoded) {
  std::string out(size_t{1} << 20, '\0');
  out.resize(
      ZSTD_decompress(out.data(), out.size(), encoded.data(), encoded.size()));
  return out;
}

const std::string& SmallText() {
  static const std::string* const text =
      new std::string(Decompress(*EncodeManifest(SmallTestManifest())));
  return *text;
}

std::string Replaced(std::string text, std::string_view from,
                     std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// With a tail that is right for lines that may be wrong, except its counts.
std::string Resealed(const std::string& text) {
  const size_t tail = text.rfind("{\"bytes\"");
  const std::string body = text.substr(0, tail);
  std::string sealed = text.substr(tail);
  const size_t digest = sealed.find("\"sha256\":\"") + 10;
  sealed.replace(digest, 64, ToHex(Sha256Of(AsBytes(body))));
  return body + sealed;
}

absl::StatusOr<Manifest> DecodeText(const std::string& text) {
  return DecodeManifest(AsBytes(Compress(text)));
}

// A small manifest with one piece of text exchanged, and a right digest.
absl::StatusOr<Manifest> DecodeSpoiled(std::string_view from,
                                       std::string_view to) {
  return DecodeText(Resealed(Replaced(SmallText(), from, to)));
}

TEST(HostileManifest, TheHelpersChangeNothingByThemselves) {
  const auto decoded = DecodeText(Resealed(SmallText()));
  ASSERT_OK(decoded);
  EXPECT_TRUE(*decoded == SmallTestManifest());
}

TEST(HostileManifest, CutAnywhereIsDamage) {
  for (const Manifest& manifest : {SmallTestManifest(), FullTestManifest()}) {
    const std::string encoded = *EncodeManifest(manifest);
    for (size_t size = 0; size < encoded.size(); ++size) {
      EXPECT_THAT(DecodeManifest(AsBytes(encoded).first(size)),
                  HasCode(absl::StatusCode::kDataLoss))
          << size;
    }
  }
}

TEST(HostileManifest, CutTextIsDamage) {
  const std::string& text = SmallText();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_THAT(DecodeText(text.substr(0, size)),
                FailsWith(absl::StatusCode::kDataLoss, "manifest line"))
        << size;
  }
}

TEST(HostileManifest, AFlippedBitIsDamageOrChangesNothing) {
  const Manifest manifest = FullTestManifest();
  const std::string encoded = *EncodeManifest(manifest);
  for (size_t bit = 0; bit < 8 * encoded.size(); ++bit) {
    std::string flipped = encoded;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto decoded = DecodeManifest(AsBytes(flipped));
    // The frame has bits without meaning.
    if (decoded.ok()) {
      EXPECT_TRUE(*decoded == manifest) << bit;
    } else {
      EXPECT_EQ(decoded.status().code(), absl::StatusCode::kDataLoss) << bit;
    }
  }
}

// Without the frame's checksum, by the digest in the tail.
TEST(HostileManifest, AFlippedBitOfTheTextIsNeverBelieved) {
  const std::string& text = SmallText();
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodeText(flipped).ok()) << bit;
  }
}

TEST(HostileManifest, AnythingAfterItIsDamage) {
  const std::string encoded = *EncodeManifest(SmallTestManifest());
  EXPECT_THAT(DecodeManifest(AsBytes(encoded + "x")),
              FailsWith(absl::StatusCode::kDataLoss, "follow"));
  EXPECT_THAT(DecodeManifest(AsBytes(encoded + encoded)),
              HasCode(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeText(SmallText() + "\n"),
              FailsWith(absl::StatusCode::kDataLoss, "follows"));
  EXPECT_THAT(DecodeText(SmallText() + "{}"),
              HasCode(absl::StatusCode::kDataLoss));
}

TEST(HostileManifest, OtherFilesAreNotManifests) {
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("[]\n"),
        std::string("{}\n"), std::string("null\n"), std::string("\xff\n"),
        std::string("{\"cairn\":\"mark\",\"version\":1}\n"),
        std::string(100, '\0')}) {
    EXPECT_THAT(DecodeText(text), HasCode(absl::StatusCode::kDataLoss)) << text;
    EXPECT_THAT(DecodeManifest(AsBytes(text)),
                HasCode(absl::StatusCode::kDataLoss));
  }
}

TEST(HostileManifest, ANewerVersionIsNamed) {
  EXPECT_THAT(DecodeSpoiled("\"version\":1", "\"version\":23"),
              FailsWith(absl::StatusCode::kUnimplemented, "version 23"));
  for (const char* const version : {"0", "-1", "1.0", "\"1\"", "null"}) {
    EXPECT_THAT(
        DecodeSpoiled("\"version\":1", fmt::format("\"version\":{}", version)),
        HasCode(absl::StatusCode::kDataLoss))
        << version;
  }
}

TEST(HostileManifest, UnknownKeysAreSkippedWhateverTheyHold) {
  for (const char* const extra :
       {"1", "-1.5e300", "\"x\"", "null", "[1,[2,{\"path\":\"y\"}]]",
        "{\"path\":{\"end\":true}}", "18446744073709551615"}) {
    const auto decoded = DecodeSpoiled(
        "\"path\":\"weights.bin\"",
        fmt::format("\"new\":{},\"path\":\"weights.bin\"", extra));
    ASSERT_OK(decoded) << extra;
    EXPECT_TRUE(*decoded == SmallTestManifest());
  }
  EXPECT_OK(DecodeSpoiled("{\"cairn\"", "{\"a\":[{}],\"cairn\""));
}

TEST(HostileManifest, OrderAndBlanksDoNotMatter) {
  EXPECT_OK(DecodeSpoiled("\"type\":\"file\",\"uid\":1000",
                          "\"uid\" : 1000, \"type\" : \"fi\\u006ce\" "));
}

TEST(HostileManifest, KeysGivenTwiceAreDamage) {
  EXPECT_THAT(DecodeSpoiled("\"size\":6", "\"size\":6,\"size\":6"),
              FailsWith(absl::StatusCode::kDataLoss, "twice"));
  EXPECT_THAT(
      DecodeSpoiled("\"labels\":{}", "\"labels\":{\"a\":\"1\",\"a\":\"1\"}"),
      FailsWith(absl::StatusCode::kDataLoss, "twice"));
}

TEST(HostileManifest, NumbersThatCannotBeAreDamage) {
  for (const char* const number :
       {"-1", "2305843009213693952", "4611686018427387904",
        "9223372036854775808", "18446744073709551615", "18446744073709551616",
        "1e3", "6.0", "\"6\"", "null", "true", "[6]", "{}", "0", "8388609"}) {
    EXPECT_THAT(DecodeSpoiled("\"size\":6", fmt::format("\"size\":{}", number)),
                FailsWith(absl::StatusCode::kDataLoss, "line 3"))
        << number;
  }
  for (const char* const key : {"uid", "gid"}) {
    const std::string from =
        std::string(key) == "uid" ? "\"uid\":1000" : "\"gid\":4294967295";
    for (const char* const number : {"-1", "4294967296", "1.5", "\"0\""}) {
      EXPECT_THAT(DecodeSpoiled(from, fmt::format("\"{}\":{}", key, number)),
                  HasCode(absl::StatusCode::kDataLoss));
    }
  }
  for (const char* const number : {"-1", "9223372036854775808", "\"1\""}) {
    EXPECT_THAT(DecodeSpoiled("\"sequence\":1767225601000000",
                              fmt::format("\"sequence\":{}", number)),
                FailsWith(absl::StatusCode::kDataLoss, "line 1"));
  }
}

TEST(HostileManifest, EveryKeyIsMissed) {
  for (const char* const key :
       {"cairn",    "created_ns", "framework", "generation",
        "labels",   "layout",     "marker",    "marker_mtime_ns",
        "name",     "origin",     "pointers",  "run",
        "sequence", "version",    "gid",       "mode",
        "mtime_ns", "path",       "size",      "type",
        "uid",      "bytes",      "files",     "lines",
        "sha256"}) {
    const std::string quoted = fmt::format("\"{}\":", key);
    const std::string& text = SmallText();
    const size_t tail = text.rfind("{\"bytes\"");
    // Those of the tail are given last; nodes have a sha256, too.
    const bool is_of_tail = text.find(quoted, tail) != std::string::npos;
    const size_t at = text.find(quoted, is_of_tail ? tail : 0);
    ASSERT_NE(at, std::string::npos) << key;
    std::string spoiled = text;
    spoiled.insert(at + 1, "x");
    if (!is_of_tail) spoiled = Resealed(spoiled);
    EXPECT_THAT(DecodeText(spoiled), HasCode(absl::StatusCode::kDataLoss))
        << key;
  }
}

TEST(HostileManifest, ModesAndTypesAreStrict) {
  for (const char* const mode :
       {"\"644\"", "\"00644\"", "\"0648\"", "\"-644\"", "420", "\"\""}) {
    EXPECT_THAT(DecodeSpoiled("\"0644\"", mode),
                HasCode(absl::StatusCode::kDataLoss))
        << mode;
  }
  for (const char* const type :
       {"\"File\"", "\"device\"", "\"\"", "0", "\"directory\"", "\"symlink\"",
        "\"hardlink\""}) {
    EXPECT_THAT(DecodeSpoiled("\"file\"", type),
                HasCode(absl::StatusCode::kDataLoss))
        << type;
  }
}

TEST(HostileManifest, DigestsMustFitTheSize) {
  const std::string crc64 = "\"crc64\":\"" + std::string("0102030405060708");
  EXPECT_THAT(DecodeSpoiled(crc64, crc64 + "00"),
              FailsWith(absl::StatusCode::kDataLoss, "18 digits for 1 blocks"));
  EXPECT_THAT(DecodeSpoiled(crc64, "\"crc64\":\"010203040506070"),
              HasCode(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeSpoiled(crc64, "\"crc64\":\"010203040506070G"),
              HasCode(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeSpoiled("\"crc64\"", "\"crc46\""),
              FailsWith(absl::StatusCode::kDataLoss, "without crc64"));
  EXPECT_THAT(DecodeSpoiled("\"sha256\":\"0708", "\"sha256\":\"--08"),
              HasCode(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeSpoiled("\"sha256\":\"07", "\"sha256\":\""),
              HasCode(absl::StatusCode::kDataLoss));
}

TEST(HostileManifest, NamesHaveOneForm) {
  for (const char* const name :
       {"weights%2Ebin", "weights%2", "%", "%ff", "a\\nb", "a\\u0000",
        "a\\u200eb", "/weights", "../weights", "a/../b", "a//b", ".", ""}) {
    EXPECT_THAT(DecodeSpoiled("\"path\":\"weights.bin\"",
                              fmt::format("\"path\":\"{}\"", name)),
                HasCode(absl::StatusCode::kDataLoss))
        << name;
  }
  EXPECT_OK(DecodeSpoiled("\"path\":\"weights.bin\"", "\"path\":\"%FF%25\""));
}

TEST(HostileManifest, ListsHaveOneShape) {
  for (const char* const pointers :
       {"{}", "[\"a\",\"b\"]", "[[\"a\"]]", "[[\"a\",\"b\",\"c\"]]",
        "[[\"a\",1]]", "[[[\"a\",\"b\"]]]", "[{\"a\":\"b\"}]", "\"\"",
        "[[\"a/../b\",\"\"]]", "[[\"a\",\"%zz\"]]"}) {
    EXPECT_THAT(DecodeSpoiled("\"pointers\":[]",
                              fmt::format("\"pointers\":{}", pointers)),
                HasCode(absl::StatusCode::kDataLoss))
        << pointers;
  }
  for (const char* const labels : {"[]", "{\"a\":1}", "{\"a\":{\"b\":\"c\"}}",
                                   "{\"a\":[\"b\"]}", "null"}) {
    EXPECT_THAT(
        DecodeSpoiled("\"labels\":{}", fmt::format("\"labels\":{}", labels)),
        HasCode(absl::StatusCode::kDataLoss))
        << labels;
  }
  for (const char* const extents :
       {"[0]", "[0,7]", "[[0,6]]", "[-1,6]", "[0.0,6]", "[0,\"6\"]", "{}",
        "[3,1,0,1]", "[0,18446744073709551615]", "[1,9223372036854775807]",
        "6"}) {
    EXPECT_THAT(
        DecodeSpoiled(
            "\"gid\":4294967295,\"mode\":\"0644\"",
            fmt::format("\"gid\":0,\"mode\":\"0644\",\"extents\":{}", extents)),
        HasCode(absl::StatusCode::kDataLoss))
        << extents;
  }
}

TEST(HostileManifest, CountsThatLieAreDamage) {
  for (const char* const count : {"lines\":3", "files\":1", "bytes\":6"}) {
    const std::string wrong = std::string(count) + "0";
    EXPECT_THAT(DecodeSpoiled(count, wrong),
                FailsWith(absl::StatusCode::kDataLoss, "line 4"))
        << count;
  }
  EXPECT_THAT(DecodeSpoiled("\"end\":true", "\"end\":false"),
              HasCode(absl::StatusCode::kDataLoss));
}

TEST(HostileManifest, ALineLeftOutIsDamage) {
  std::string text = SmallText();
  const size_t second = text.find('\n') + 1;
  text.erase(second, text.find('\n', second) + 1 - second);
  EXPECT_THAT(DecodeText(Resealed(text)),
              FailsWith(absl::StatusCode::kDataLoss, "lines"));
}

// `unit` times `count`, compressed, without ever being in memory.
std::string CompressRepeated(std::string_view begin, std::string_view unit,
                             size_t count) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  std::string piece(begin);
  std::string out;
  for (size_t i = 0; i <= count; ++i) {
    ZSTD_inBuffer in = {piece.data(), piece.size(), 0};
    size_t left = 1;
    while (i < count ? in.pos < in.size : left != 0) {
      const size_t size = out.size();
      out.resize(size + ZSTD_CStreamOutSize());
      ZSTD_outBuffer buffer = {out.data() + size, ZSTD_CStreamOutSize(), 0};
      left = ZSTD_compressStream2(context, &buffer, &in,
                                  i < count ? ZSTD_e_continue : ZSTD_e_end);
      out.resize(size + buffer.pos);
    }
    piece = unit;
  }
  ZSTD_freeCCtx(context);
  return out;
}

// 256 MiB each behind a few dozen KiB.
TEST(HostileManifest, BombsAreRefusedInLittleMemory) {
  const std::string head = SmallText().substr(0, SmallText().find('\n') + 1);
  constexpr size_t kMiB = size_t{1} << 20;
  const std::string letters(kMiB, 'a');
  const std::string brackets(kMiB, '[');
  std::string lines;
  while (lines.size() < kMiB) lines += "{\"x\":[[[[]]]]}\n";
  const uint64_t before = PeakResidentBytes();
  for (const auto& [begin, unit] :
       std::vector<std::pair<std::string, std::string>>{
           {"", letters},
           {head, letters},
           {head + "{\"path\":\"", letters},
           {head + "{\"path\":", brackets},
           {head + "{\"extents\":", brackets},
           {"{\"labels\":", brackets},
           {"", std::string(kMiB, '\n')},
           {head, lines}}) {
    const std::string bomb = CompressRepeated(begin, unit, 256);
    EXPECT_THAT(DecodeManifest(AsBytes(bomb)),
                HasCode(absl::StatusCode::kDataLoss));
  }
  EXPECT_LT(PeakResidentBytes() - before,
            kMemoryFactor * (uint64_t{250} << 20));
}

// A size of 2^61 with digests for it promised, not delivered.
TEST(HostileManifest, PromisesCostNoMemory) {
  const uint64_t before = PeakResidentBytes();
  EXPECT_THAT(DecodeSpoiled("\"size\":6", "\"size\":2305843009213693952"),
              HasCode(absl::StatusCode::kDataLoss));
  EXPECT_LT(PeakResidentBytes() - before, kMemoryFactor * (uint64_t{50} << 20));
}

}  // namespace
}  // namespace cairn
