#include "base/crc64.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/crc64_kernels.h"
#include "testing/seed.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

constexpr Crc64Kind kKinds[] = {Crc64Kind::kVpclmulqdq, Crc64Kind::kPclmulqdq,
                                Crc64Kind::kPortable};

// By the definition, in normal (not reflected) bit order, so that it shares
// nothing with what it checks.
uint64_t ReferenceCrc64(std::string_view data) {
  constexpr uint64_t kNormalPolynomial = 0xad93d23594c93659;
  uint64_t crc = ~uint64_t{0};
  for (const char c : data) {
    for (int bit = 0; bit < 8; ++bit) {
      const uint64_t next = static_cast<unsigned char>(c) >> bit & 1;
      const bool carry = (crc >> 63 ^ next) != 0;
      crc = crc << 1 ^ (carry ? kNormalPolynomial : 0);
    }
  }
  uint64_t reflected = 0;
  for (int bit = 0; bit < 64; ++bit)
    reflected |= (crc >> bit & 1) << (63 - bit);
  return ~reflected;
}

std::vector<Crc64Kind> AvailableKinds() {
  std::vector<Crc64Kind> kinds;
  std::ranges::copy_if(kKinds, std::back_inserter(kinds), Crc64KindAvailable);
  return kinds;
}

TEST(Crc64NvmeTest, HasTheCheckValueOfTheStandard) {
  EXPECT_EQ(ReferenceCrc64("123456789"), 0xae8b14860a799888);
  EXPECT_EQ(Crc64Nvme(AsBytes("123456789")), 0xae8b14860a799888);
  EXPECT_EQ(Crc64Nvme({}), 0u);
}

// The test cases of the NVM command set specification, 4 KiB each.
TEST(Crc64NvmeTest, AgreesWithTheNvmeSpecification) {
  std::string up(4096, '\0');
  for (size_t i = 0; i < up.size(); ++i) up[i] = static_cast<char>(i);
  std::string down = up;
  std::ranges::reverse(down);
  for (const Crc64Kind kind : AvailableKinds()) {
    SCOPED_TRACE(Crc64KindName(kind));
    EXPECT_EQ(Crc64NvmeWith(kind, AsBytes(std::string(4096, '\0'))),
              0x6482d367eb22b64e);
    EXPECT_EQ(Crc64NvmeWith(kind, AsBytes(std::string(4096, '\xff'))),
              0xc0ddba7302eca3ac);
    EXPECT_EQ(Crc64NvmeWith(kind, AsBytes(up)), 0x3e729f5f6750449c);
    EXPECT_EQ(Crc64NvmeWith(kind, AsBytes(down)), 0x9a2df64b8e9e517e);
  }
}

TEST(Crc64NvmeTest, EveryKindAgreesOnEveryShortLength) {
  const std::string data = RandomBytes(1100, TestSeed());
  for (size_t size = 0; size <= data.size(); ++size) {
    const std::string_view piece = std::string_view(data).substr(0, size);
    const uint64_t expected = ReferenceCrc64(piece);
    for (const Crc64Kind kind : AvailableKinds()) {
      ASSERT_EQ(Crc64NvmeWith(kind, AsBytes(piece)), expected)
          << Crc64KindName(kind) << ", " << size << " bytes";
    }
  }
}

TEST(Crc64NvmeTest, EveryKindAgreesFromUnalignedStarts) {
  const std::string data = RandomBytes(2048, TestSeed());
  for (size_t start = 0; start < 65; ++start) {
    const std::string_view piece =
        std::string_view(data).substr(start, 1500 + start);
    const uint64_t expected = ReferenceCrc64(piece);
    for (const Crc64Kind kind : AvailableKinds()) {
      ASSERT_EQ(Crc64NvmeWith(kind, AsBytes(piece)), expected)
          << Crc64KindName(kind) << " from " << start;
    }
  }
}

TEST(Crc64NvmeTest, ContinuesOverRandomSplits) {
  std::mt19937_64 random(TestSeed());
  const std::string data = RandomBytes(100'000, TestSeed());
  const uint64_t expected = ReferenceCrc64(data);
  for (const Crc64Kind kind : AvailableKinds()) {
    for (int round = 0; round < 20; ++round) {
      uint64_t crc = 0;
      std::string_view rest = data;
      while (!rest.empty()) {
        const size_t step = std::min<size_t>(random() % 3000, rest.size());
        crc = Crc64NvmeWith(kind, AsBytes(rest.substr(0, step)), crc);
        rest.remove_prefix(step);
      }
      ASSERT_EQ(crc, expected) << Crc64KindName(kind) << ", round " << round;
    }
  }
}

TEST(Crc64NvmeTest, SeesEverySingleFlippedBit) {
  std::string data = RandomBytes(600, TestSeed());
  for (const Crc64Kind kind : AvailableKinds()) {
    const uint64_t before = Crc64NvmeWith(kind, AsBytes(data));
    for (size_t bit = 0; bit < 8 * data.size(); ++bit) {
      const char mask = static_cast<char>(1 << bit % 8);
      data[bit / 8] ^= mask;
      ASSERT_NE(Crc64NvmeWith(kind, AsBytes(data)), before) << "bit " << bit;
      data[bit / 8] ^= mask;
    }
  }
}

TEST(Crc64NvmeTest, UsesTheFirstKindThatIsAvailable) {
  EXPECT_EQ(Crc64KindInUse(), AvailableKinds().front());
  EXPECT_TRUE(Crc64KindAvailable(Crc64Kind::kPortable));
  for (const Crc64Kind kind : kKinds) {
    EXPECT_STRNE(Crc64KindName(kind), "unknown");
  }
}

TEST(Crc64NvmeCombineTest, EqualsTheChecksumOfBothParts) {
  const std::string data = RandomBytes(5000, TestSeed());
  const uint64_t expected = Crc64Nvme(AsBytes(data));
  for (size_t cut = 0; cut <= data.size(); cut += 7) {
    const uint64_t a = Crc64Nvme(AsBytes(data.substr(0, cut)));
    const uint64_t b = Crc64Nvme(AsBytes(data.substr(cut)));
    ASSERT_EQ(Crc64NvmeCombine(a, b, data.size() - cut), expected) << cut;
  }
}

TEST(Crc64NvmeCombineTest, NothingAddedChangesNothing) {
  EXPECT_EQ(Crc64NvmeCombine(0x1234, 0, 0), 0x1234u);
  EXPECT_EQ(Crc64NvmeCombine(0, 0x1234, 100), 0x1234u);
}

// No terabyte need be read to check terabytes: combination is associative, and
// zeros may be added in any portions.
TEST(Crc64NvmeCombineTest, HoldsTogetherUpToTerabytes) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    const uint64_t a = random(), b = random(), c = random();
    const uint64_t size_b = random() % (uint64_t{1} << 40);
    const uint64_t size_c = random() % (uint64_t{1} << 40);
    ASSERT_EQ(
        Crc64NvmeCombine(Crc64NvmeCombine(a, b, size_b), c, size_c),
        Crc64NvmeCombine(a, Crc64NvmeCombine(b, c, size_c), size_b + size_c));
    ASSERT_EQ(Crc64NvmeCombine(Crc64NvmeOfZeros(size_b),
                               Crc64NvmeOfZeros(size_c), size_c),
              Crc64NvmeOfZeros(size_b + size_c));
  }
}

TEST(Crc64NvmeOfZerosTest, EqualsTheChecksumOfRealZeros) {
  for (const size_t size : {0, 1, 2, 7, 8, 63, 64, 4096, 65537, 3'000'001}) {
    EXPECT_EQ(Crc64NvmeOfZeros(size),
              Crc64Nvme(AsBytes(std::string(size, '\0'))))
        << size;
  }
}

// 2^40 zeros, the slow way: doubling what is known of fewer.
TEST(Crc64NvmeOfZerosTest, DoublesUpToATerabyte) {
  uint64_t crc = Crc64Nvme(AsBytes(std::string(1, '\0')));
  for (int log = 0; log < 40; ++log) {
    const uint64_t size = uint64_t{1} << log;
    crc = Crc64NvmeCombine(crc, crc, size);
    ASSERT_EQ(crc, Crc64NvmeOfZeros(2 * size)) << log;
  }
}

TEST(Crc64AlgebraTest, MultipliesAsPolynomialsModP) {
  using crc64::kOne, crc64::kPolynomial, crc64::Multiply, crc64::PowerOfX;
  static_assert(Multiply(kOne, 0x1234) == 0x1234);
  static_assert(PowerOfX(0) == kOne);
  static_assert(PowerOfX(64) == kPolynomial);  // x^64 = P without x^64.
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 1000; ++round) {
    const uint64_t a = random(), b = random(), c = random();
    ASSERT_EQ(Multiply(a, b), Multiply(b, a));
    ASSERT_EQ(Multiply(a, b ^ c), Multiply(a, b) ^ Multiply(a, c));
    const uint64_t m = random() >> 1, n = random() >> 1;
    ASSERT_EQ(Multiply(PowerOfX(m), PowerOfX(n)), PowerOfX(m + n));
  }
}

}  // namespace
}  // namespace cairn
