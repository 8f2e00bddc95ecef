#include "base/digest.h"

#include <gtest/gtest.h>

#include <random>

#include "base/crc64.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

constexpr std::string_view kSha256OfNothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr std::string_view kSha256OfAbc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256Test, HasTheValuesOfTheStandard) {
  EXPECT_EQ(ToHex(Sha256Of({})), kSha256OfNothing);
  EXPECT_EQ(ToHex(Sha256Of(AsBytes("abc"))), kSha256OfAbc);
}

TEST(Sha256HasherTest, PiecesGiveTheDigestOfTheWhole) {
  std::mt19937_64 random(TestSeed());
  const std::string data = RandomBytes(10'000, TestSeed());
  Sha256Hasher hasher;
  for (std::string_view rest = data; !rest.empty();) {
    const size_t step = std::min<size_t>(random() % 300, rest.size());
    hasher.Update(AsBytes(rest.substr(0, step)));
    rest.remove_prefix(step);
  }
  EXPECT_EQ(hasher.Finish(), Sha256Of(AsBytes(data)));
}

TEST(Sha256HasherTest, OfNothing) {
  Sha256Hasher hasher;
  EXPECT_EQ(ToHex(hasher.Finish()), kSha256OfNothing);
}

TEST(HexTest, ComesBack) {
  const Sha256 digest = Sha256Of(AsBytes("abc"));
  const auto parsed = Sha256FromHex(ToHex(digest));
  ASSERT_OK(parsed);
  EXPECT_EQ(*parsed, digest);
  for (const uint64_t crc :
       {uint64_t{0}, uint64_t{1}, 0xae8b14860a799888, ~uint64_t{0}}) {
    const auto parsed_crc = Crc64FromHex(ToHex(crc));
    ASSERT_OK(parsed_crc);
    EXPECT_EQ(*parsed_crc, crc);
  }
  EXPECT_EQ(ToHex(uint64_t{0x1f}), "000000000000001f");
}

TEST(HexTest, RefusesEverythingElse) {
  const std::string good(kSha256OfAbc);
  std::string upper = good;
  upper[0] = 'B';
  std::string not_hex = good;
  not_hex[63] = 'g';
  std::string with_nul = good;
  with_nul[10] = '\0';
  for (const std::string& bad : {std::string(), good.substr(1), good + "0",
                                 upper, not_hex, with_nul, "0x" + good}) {
    EXPECT_THAT(Sha256FromHex(bad),
                FailsWith(absl::StatusCode::kInvalidArgument,
                          "64 lower-case hex digits"));
  }
  for (const char* const bad : {"", "0", "000000000000001F", "+00000000000001f",
                                "00000000000000001f", " 00000000000001f"}) {
    EXPECT_THAT(Crc64FromHex(bad), FailsWith(absl::StatusCode::kInvalidArgument,
                                             "16 lower-case hex digits"));
  }
}

TEST(HexTest, ErrorsStayShortAndPrintable) {
  const auto parsed = Sha256FromHex(std::string(1 << 20, '\x1b'));
  ASSERT_THAT(parsed, HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_LT(parsed.status().message().size(), 500u);
  EXPECT_EQ(parsed.status().message().find('\x1b'), absl::string_view::npos);
}

TEST(DigestBlockTest, CountsAndSizes) {
  EXPECT_EQ(DigestBlockCount(0), 0u);
  EXPECT_EQ(DigestBlockCount(1), 1u);
  EXPECT_EQ(DigestBlockCount(kDigestBlockBytes), 1u);
  EXPECT_EQ(DigestBlockCount(kDigestBlockBytes + 1), 2u);
  EXPECT_EQ(DigestBlockCount(~uint64_t{0}), uint64_t{1} << 41);
  EXPECT_EQ(DigestBlockSize(1, 0), 1u);
  EXPECT_EQ(DigestBlockSize(kDigestBlockBytes, 0), kDigestBlockBytes);
  EXPECT_EQ(DigestBlockSize(kDigestBlockBytes + 5, 0), kDigestBlockBytes);
  EXPECT_EQ(DigestBlockSize(kDigestBlockBytes + 5, 1), 5u);
}

TEST(DigestBlockTest, HasWhatWasAskedFor) {
  const BlockDigest fast = DigestBlock(AsBytes("123456789"), false);
  EXPECT_EQ(fast.crc64_nvme, 0xae8b14860a799888);
  EXPECT_FALSE(fast.sha256.has_value());
  const BlockDigest full = DigestBlock(AsBytes("abc"), true);
  EXPECT_EQ(full.crc64_nvme, Crc64Nvme(AsBytes("abc")));
  ASSERT_TRUE(full.sha256.has_value());
  EXPECT_EQ(ToHex(*full.sha256), kSha256OfAbc);
}

TEST(DigestOfZerosTest, EqualsTheDigestOfRealZeros) {
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{65'537},
                              kDigestBlockBytes - 1, kDigestBlockBytes}) {
    const std::string zeros(size, '\0');
    EXPECT_EQ(DigestOfZeros(size), DigestBlock(AsBytes(zeros), true)) << size;
  }
}

TEST(DigestsMatchTest, ComparesWhatBothHave) {
  const BlockDigest fast = DigestBlock(AsBytes("abc"), false);
  const BlockDigest full = DigestBlock(AsBytes("abc"), true);
  BlockDigest other_crc = full;
  other_crc.crc64_nvme ^= 1;
  BlockDigest other_sha = full;
  (*other_sha.sha256)[31] ^= 1;
  EXPECT_TRUE(DigestsMatch(fast, full));
  EXPECT_TRUE(DigestsMatch(full, fast));
  EXPECT_TRUE(DigestsMatch(full, full));
  EXPECT_FALSE(DigestsMatch(full, other_crc));
  EXPECT_FALSE(DigestsMatch(fast, other_crc));
  EXPECT_FALSE(DigestsMatch(full, other_sha));
  EXPECT_TRUE(DigestsMatch(fast, other_sha));
}

TEST(FileDigestTest, IsMadeOfItsBlocks) {
  const std::string data =
      RandomBytes(2 * kDigestBlockBytes + 12'345, TestSeed());
  const ByteView bytes = AsBytes(data);
  std::vector<BlockDigest> blocks;
  std::string sha256s;
  for (uint64_t i = 0; i < DigestBlockCount(data.size()); ++i) {
    const ByteView block =
        bytes.subspan(i * kDigestBlockBytes, DigestBlockSize(data.size(), i));
    blocks.push_back(DigestBlock(block, true));
    sha256s.append(AsText(std::as_bytes(std::span(*blocks.back().sha256))));
  }
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(FileCrc64(data.size(), blocks), Crc64Nvme(bytes));
  EXPECT_EQ(FileSha256(blocks), Sha256Of(AsBytes(sha256s)));
  blocks[1].sha256.reset();
  EXPECT_EQ(FileSha256(blocks), std::nullopt);
}

TEST(FileDigestTest, OfAnEmptyFile) {
  EXPECT_EQ(FileCrc64(0, {}), 0u);
  EXPECT_EQ(FileSha256({}), Sha256Of({}));
}

TEST(FileDigestDeathTest, ABlockTooFewIsABug) {
  EXPECT_DEATH(FileCrc64(1, {}), "check failed");
}

}  // namespace
}  // namespace cairn
