#include "base/crc64_kernels.h"

#include <bit>
#include <cstddef>
#include <cstring>

#ifdef CAIRN_CRC64_X86
#include <immintrin.h>
#endif

namespace cairn::crc64 {

namespace {

// Slicing: [k][b] is what byte b followed by k zero bytes does to the register.
constexpr size_t kSlices = 16;
using SlicingTables = std::array<std::array<uint64_t, 256>, kSlices>;

constexpr SlicingTables MakeSlicingTables() {
  SlicingTables tables = {};
  for (size_t byte = 0; byte < 256; ++byte) {
    uint64_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = TimesX(crc);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < kSlices; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint64_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr SlicingTables kTables = MakeSlicingTables();

uint64_t LoadLittleEndian(const std::byte* data) {
  uint64_t word;
  std::memcpy(&word, data, sizeof(word));
  if constexpr (std::endian::native == std::endian::big) {
    word = __builtin_bswap64(word);
  }
  return word;
}

// What the 8 bytes of `word`, and `kZeros` zero bytes after them, do.
template <size_t kZeros>
uint64_t Slice(uint64_t word) {
  uint64_t crc = 0;
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; ++i) {
    crc ^= kTables[kZeros + 7 - i][word >> (8 * i) & 0xFF];
  }
  return crc;
}

}  // namespace

uint64_t UpdatePortable(uint64_t crc, ByteView data) {
  const std::byte* at = data.data();
  size_t left = data.size();
  for (; left >= kSlices; at += kSlices, left -= kSlices) {
    crc = Slice<8>(LoadLittleEndian(at) ^ crc) ^
          Slice<0>(LoadLittleEndian(at + 8));
  }
  for (; left > 0; ++at, --left) {
    crc = crc >> 8 ^ kTables[0][(crc ^ std::to_integer<uint64_t>(*at)) & 0xFF];
  }
  return crc;
}

#ifdef CAIRN_CRC64_X86

// Folding. A lane of 16 bytes holds L * x^64 + H, where L (its low word) and H
// are reflected. Moving it D bits towards the end of the message, mod P, is
// L * x^(64 + D) + H * x^D. The carry-less product of two reflected words comes
// out as their product times x, hence the exponents below are one less.

namespace {

#define CAIRN_TARGET_PCLMULQDQ __attribute__((target("pclmul")))
#define CAIRN_TARGET_VPCLMULQDQ \
  __attribute__((target("avx512f,pclmul,vpclmulqdq")))

constexpr size_t kLaneBytes = 16;
constexpr size_t kVectorBytes = 64;  // Four lanes.

struct FoldConstants {
  uint64_t for_low;
  uint64_t for_high;
};

constexpr FoldConstants FoldOver(size_t bytes) {
  return {PowerOfX(8 * bytes + 63), PowerOfX(8 * bytes - 1)};
}

// Independent folds in flight, to hide how long a multiplication takes.
constexpr size_t kLanes = 8;
constexpr size_t kLanesBytes = kLanes * kLaneBytes;
constexpr FoldConstants kOverLane = FoldOver(kLaneBytes);
constexpr FoldConstants kOverLanes = FoldOver(kLanesBytes);

constexpr size_t kVectors = 4;
constexpr size_t kVectorsBytes = kVectors * kVectorBytes;
constexpr FoldConstants kOverVector = FoldOver(kVectorBytes);
constexpr FoldConstants kOverVectors = FoldOver(kVectorsBytes);

CAIRN_TARGET_PCLMULQDQ inline __m128i LoadLane(const std::byte* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

CAIRN_TARGET_PCLMULQDQ inline __m128i ToLane(FoldConstants constants) {
  return _mm_set_epi64x(static_cast<int64_t>(constants.for_high),
                        static_cast<int64_t>(constants.for_low));
}

CAIRN_TARGET_PCLMULQDQ inline __m128i Fold(__m128i lane, __m128i constants,
                                           __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(lane, constants, 0x00);
  const __m128i high = _mm_clmulepi64_si128(lane, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// What `lane`, and `rest` after it, leave in the register.
CAIRN_TARGET_PCLMULQDQ uint64_t Finish(__m128i lane, ByteView rest) {
  const __m128i over_lane = ToLane(kOverLane);
  while (rest.size() >= kLaneBytes) {
    lane = Fold(lane, over_lane, LoadLane(rest.data()));
    rest = rest.subspan(kLaneBytes);
  }
  std::array<std::byte, kLaneBytes> last;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(last.data()), lane);
  return UpdatePortable(UpdatePortable(0, last), rest);
}

CAIRN_TARGET_VPCLMULQDQ inline __m512i LoadVector(const std::byte* at) {
  return _mm512_loadu_si512(at);
}

CAIRN_TARGET_VPCLMULQDQ inline __m512i ToVector(FoldConstants constants) {
  const auto low = static_cast<int64_t>(constants.for_low);
  const auto high = static_cast<int64_t>(constants.for_high);
  return _mm512_set_epi64(high, low, high, low, high, low, high, low);
}

CAIRN_TARGET_VPCLMULQDQ inline __m512i Fold(__m512i vector, __m512i constants,
                                            __m512i next) {
  constexpr int kXorOfThree = 0x96;
  const __m512i low = _mm512_clmulepi64_epi128(vector, constants, 0x00);
  const __m512i high = _mm512_clmulepi64_epi128(vector, constants, 0x11);
  return _mm512_ternarylogic_epi64(low, high, next, kXorOfThree);
}

}  // namespace

CAIRN_TARGET_PCLMULQDQ uint64_t UpdatePclmulqdq(uint64_t crc, ByteView data) {
  if (data.size() < kLanesBytes) return UpdatePortable(crc, data);
  const std::byte* at = data.data();
  const std::byte* const end = at + data.size();
  const __m128i register_lane = _mm_cvtsi64_si128(static_cast<int64_t>(crc));

  __m128i lanes[kLanes];
#pragma GCC unroll 8
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = LoadLane(at + i * kLaneBytes);
  lanes[0] = _mm_xor_si128(lanes[0], register_lane);
  at += kLanesBytes;

  const __m128i over_lanes = ToLane(kOverLanes);
  for (; static_cast<size_t>(end - at) >= kLanesBytes; at += kLanesBytes) {
#pragma GCC unroll 8
    for (size_t i = 0; i < kLanes; ++i) {
      lanes[i] = Fold(lanes[i], over_lanes, LoadLane(at + i * kLaneBytes));
    }
  }

  const __m128i over_lane = ToLane(kOverLane);
  __m128i lane = lanes[0];
#pragma GCC unroll 8
  for (size_t i = 1; i < kLanes; ++i) lane = Fold(lane, over_lane, lanes[i]);
  return Finish(lane, ByteView(at, end));
}

CAIRN_TARGET_VPCLMULQDQ uint64_t UpdateVpclmulqdq(uint64_t crc, ByteView data) {
  if (data.size() < kVectorsBytes) return UpdatePclmulqdq(crc, data);
  const std::byte* at = data.data();
  const std::byte* const end = at + data.size();
  const __m512i register_vector =
      _mm512_zextsi128_si512(_mm_cvtsi64_si128(static_cast<int64_t>(crc)));

  __m512i vectors[kVectors];
#pragma GCC unroll 4
  for (size_t i = 0; i < kVectors; ++i) {
    vectors[i] = LoadVector(at + i * kVectorBytes);
  }
  vectors[0] = _mm512_xor_si512(vectors[0], register_vector);
  at += kVectorsBytes;

  const __m512i over_vectors = ToVector(kOverVectors);
  for (; static_cast<size_t>(end - at) >= kVectorsBytes; at += kVectorsBytes) {
#pragma GCC unroll 4
    for (size_t i = 0; i < kVectors; ++i) {
      vectors[i] =
          Fold(vectors[i], over_vectors, LoadVector(at + i * kVectorBytes));
    }
  }

  const __m512i over_vector = ToVector(kOverVector);
  __m512i vector = vectors[0];
#pragma GCC unroll 4
  for (size_t i = 1; i < kVectors; ++i) {
    vector = Fold(vector, over_vector, vectors[i]);
  }
  for (; static_cast<size_t>(end - at) >= kVectorBytes; at += kVectorBytes) {
    vector = Fold(vector, over_vector, LoadVector(at));
  }

  const __m128i over_lane = ToLane(kOverLane);
  std::array<std::byte, kVectorBytes> last;
  _mm512_storeu_si512(last.data(), vector);
  __m128i lane = LoadLane(last.data());
  for (size_t i = kLaneBytes; i < kVectorBytes; i += kLaneBytes) {
    lane = Fold(lane, over_lane, LoadLane(last.data() + i));
  }
  return Finish(lane, ByteView(at, end));
}

#endif  // CAIRN_CRC64_X86

}  // namespace cairn::crc64
