#include "base/crc64.h"

#include "base/check.h"
#include "base/crc64_kernels.h"

namespace cairn {

namespace {

using Kernel = uint64_t (*)(uint64_t crc, ByteView data);

Kernel KernelOf(Crc64Kind kind) {
  switch (kind) {
#ifdef CAIRN_CRC64_X86
    case Crc64Kind::kVpclmulqdq:
      return crc64::UpdateVpclmulqdq;
    case Crc64Kind::kPclmulqdq:
      return crc64::UpdatePclmulqdq;
#endif
    default:
      return crc64::UpdatePortable;
  }
}

Crc64Kind FastestKind() {
  for (const Crc64Kind kind : {Crc64Kind::kVpclmulqdq, Crc64Kind::kPclmulqdq}) {
    if (Crc64KindAvailable(kind)) return kind;
  }
  return Crc64Kind::kPortable;
}

}  // namespace

const char* Crc64KindName(Crc64Kind kind) {
  switch (kind) {
    case Crc64Kind::kVpclmulqdq:
      return "vpclmulqdq";
    case Crc64Kind::kPclmulqdq:
      return "pclmulqdq";
    case Crc64Kind::kPortable:
      return "portable";
  }
  return "unknown";
}

bool Crc64KindAvailable(Crc64Kind kind) {
  switch (kind) {
#ifdef CAIRN_CRC64_X86
    // The AVX-512 answers include that the operating system saves the
    // registers.
    case Crc64Kind::kVpclmulqdq:
      return __builtin_cpu_supports("avx512f") != 0 &&
             __builtin_cpu_supports("vpclmulqdq") != 0 &&
             __builtin_cpu_supports("pclmul") != 0;
    case Crc64Kind::kPclmulqdq:
      return __builtin_cpu_supports("pclmul") != 0;
#endif
    case Crc64Kind::kPortable:
      return true;
    default:
      return false;
  }
}

Crc64Kind Crc64KindInUse() {
  static const Crc64Kind kind = FastestKind();
  return kind;
}

uint64_t Crc64Nvme(ByteView data, uint64_t crc) {
  static const Kernel kernel = KernelOf(Crc64KindInUse());
  return ~kernel(~crc, data);
}

uint64_t Crc64NvmeWith(Crc64Kind kind, ByteView data, uint64_t crc) {
  CAIRN_CHECK(Crc64KindAvailable(kind));
  return ~KernelOf(kind)(~crc, data);
}

uint64_t Crc64NvmeCombine(uint64_t crc_a, uint64_t crc_b, uint64_t size_b) {
  // The inversions before and after cancel: both sides carry the same one.
  return crc64::AppendZeros(crc_a, size_b) ^ crc_b;
}

uint64_t Crc64NvmeOfZeros(uint64_t size) {
  return ~crc64::AppendZeros(~uint64_t{0}, size);
}

}  // namespace cairn
