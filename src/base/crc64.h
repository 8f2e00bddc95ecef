// CRC-64/NVME: polynomial 0xad93d23594c93659, reflected in and out, initial and
// final value all ones; check value 0xae8b14860a799888 for "123456789". The
// checksum that S3 (x-amz-checksum-crc64nvme) and Azure (x-ms-content-crc64)
// verify. Uses VPCLMULQDQ or PCLMULQDQ where the CPU has them (found at run
// time), else slicing tables. Pure, thread-safe.

#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace cairn {

// Checksum of `data`, continuing from the checksum `crc` of what came before it
// (0 for nothing).
uint64_t Crc64Nvme(ByteView data, uint64_t crc = 0);

// Checksum of a followed by b, from their checksums and b's length in bytes, in
// O(log size_b).
uint64_t Crc64NvmeCombine(uint64_t crc_a, uint64_t crc_b, uint64_t size_b);

// Checksum of `size` zero bytes, in O(log size). For the holes of sparse files.
uint64_t Crc64NvmeOfZeros(uint64_t size);

// The implementations this CPU can run; the first is what Crc64Nvme uses.
// For tests and for `cairn doctor`.
enum class Crc64Kind { kVpclmulqdq, kPclmulqdq, kPortable };
const char* Crc64KindName(Crc64Kind kind);
Crc64Kind Crc64KindInUse();
bool Crc64KindAvailable(Crc64Kind kind);
uint64_t Crc64NvmeWith(Crc64Kind kind, ByteView data, uint64_t crc = 0);

}  // namespace cairn
