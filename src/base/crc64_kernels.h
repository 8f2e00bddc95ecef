// The inner loops of CRC-64/NVME, and the algebra that their constants and the
// combination of checksums come from. Only crc64.cc and its test include this.
//
// Polynomials over GF(2) of degree below 64 are kept reflected: bit 63 - i of a
// word is the coefficient of x^i. A kernel takes and returns the bare register:
// no inversion before or after.

#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace cairn::crc64 {

// x^64 + ... + 1 of CRC-64/NVME (0xad93d23594c93659) without x^64, reflected.
inline constexpr uint64_t kPolynomial = 0x9a6c9329ac4bc9b5;
inline constexpr uint64_t kOne = uint64_t{1} << 63;  // x^0

// a * x mod P.
constexpr uint64_t TimesX(uint64_t a) {
  return a >> 1 ^ (kPolynomial & (0 - (a & 1)));
}

// a * b mod P.
constexpr uint64_t Multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  for (; a != 0; a <<= 1) {
    product ^= b & (0 - (a >> 63));
    b = TimesX(b);
  }
  return product;
}

// x^exponent mod P, by square and multiply.
constexpr uint64_t PowerOfX(uint64_t exponent) {
  uint64_t result = kOne;
  uint64_t square = TimesX(kOne);
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = Multiply(result, square);
    square = Multiply(square, square);
  }
  return result;
}

// [i] is x^(8 * 2^i): what 2^i zero bytes multiply the register by.
inline constexpr std::array<uint64_t, 64> kZeroBytesPowers = [] {
  std::array<uint64_t, 64> powers = {};
  powers[0] = PowerOfX(8);
  for (size_t i = 1; i < powers.size(); ++i) {
    powers[i] = Multiply(powers[i - 1], powers[i - 1]);
  }
  return powers;
}();

// The register after `size` zero bytes more. O(log size).
constexpr uint64_t AppendZeros(uint64_t crc, uint64_t size) {
  for (size_t i = 0; size != 0; ++i, size >>= 1) {
    if ((size & 1) != 0) crc = Multiply(crc, kZeroBytesPowers[i]);
  }
  return crc;
}

uint64_t UpdatePortable(uint64_t crc, ByteView data);

#if defined(__x86_64__)
#define CAIRN_CRC64_X86 1
// REQUIRE: the CPU has the instructions (Crc64KindAvailable).
uint64_t UpdatePclmulqdq(uint64_t crc, ByteView data);
uint64_t UpdateVpclmulqdq(uint64_t crc, ByteView data);
#endif

}  // namespace cairn::crc64
