#include "base/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "base/crc64.h"
#include "base/escape.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr size_t kShownTextMax = 100;

// Fetched once: a fetch takes locks and a search through the providers.
const EVP_MD* Sha256Algorithm() {
  static const EVP_MD* const algorithm =
      EVP_MD_fetch(nullptr, "SHA256", nullptr);
  CAIRN_CHECK(algorithm != nullptr);
  return algorithm;
}

EVP_MD_CTX* AsContext(void* context) {
  return static_cast<EVP_MD_CTX*>(context);
}

std::string HexOf(const uint8_t* bytes, size_t size) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * size);
  for (size_t i = 0; i < size; ++i) {
    hex += kDigits[bytes[i] >> 4];
    hex += kDigits[bytes[i] & 0x0F];
  }
  return hex;
}

constexpr int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Fills `size` bytes from exactly 2 * `size` lower-case digits.
absl::Status FromHex(std::string_view hex, uint8_t* bytes, size_t size) {
  bool is_valid = hex.size() == 2 * size;
  for (size_t i = 0; is_valid && i < size; ++i) {
    const int high = HexDigit(hex[2 * i]);
    const int low = HexDigit(hex[2 * i + 1]);
    is_valid = high >= 0 && low >= 0;
    bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  if (is_valid) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "\"{}\"{} is not a digest: it must be {} lower-case hex digits",
      EscapeName(hex.substr(0, kShownTextMax)),
      hex.size() > kShownTextMax ? " (cut)" : "", 2 * size));
}

BlockDigest ComputeDigestOfZeros(uint64_t size) {
  static constexpr std::array<std::byte, 64 << 10> kZeros = {};
  Sha256Hasher hasher;
  for (uint64_t left = size; left > 0;) {
    const uint64_t step = std::min<uint64_t>(left, kZeros.size());
    hasher.Update(ByteView(kZeros).first(step));
    left -= step;
  }
  return {Crc64NvmeOfZeros(size), hasher.Finish()};
}

}  // namespace

Sha256 Sha256Of(ByteView data) {
  Sha256 digest;
  unsigned int size = 0;
  CAIRN_CHECK(EVP_Digest(data.data(), data.size(), digest.data(), &size,
                         Sha256Algorithm(), nullptr) == 1);
  CAIRN_CHECK(size == digest.size());
  return digest;
}

Sha256Hasher::Sha256Hasher() : context_(EVP_MD_CTX_new()) {
  CAIRN_CHECK(context_ != nullptr);
  CAIRN_CHECK(
      EVP_DigestInit_ex2(AsContext(context_), Sha256Algorithm(), nullptr) == 1);
}

Sha256Hasher::~Sha256Hasher() { EVP_MD_CTX_free(AsContext(context_)); }

void Sha256Hasher::Update(ByteView data) {
  CAIRN_CHECK(EVP_DigestUpdate(AsContext(context_), data.data(), data.size()) ==
              1);
}

Sha256 Sha256Hasher::Finish() {
  Sha256 digest;
  unsigned int size = 0;
  CAIRN_CHECK(EVP_DigestFinal_ex(AsContext(context_), digest.data(), &size) ==
              1);
  CAIRN_CHECK(size == digest.size());
  return digest;
}

std::string ToHex(const Sha256& digest) {
  return HexOf(digest.data(), digest.size());
}

std::string ToHex(uint64_t crc) { return fmt::format("{:016x}", crc); }

absl::StatusOr<Sha256> Sha256FromHex(std::string_view hex) {
  Sha256 digest;
  const absl::Status status = FromHex(hex, digest.data(), digest.size());
  if (!status.ok()) return status;
  return digest;
}

absl::StatusOr<uint64_t> Crc64FromHex(std::string_view hex) {
  std::array<uint8_t, 8> bytes;
  const absl::Status status = FromHex(hex, bytes.data(), bytes.size());
  if (!status.ok()) return status;
  uint64_t crc = 0;
  for (const uint8_t byte : bytes) crc = crc << 8 | byte;
  return crc;
}

BlockDigest DigestBlock(ByteView block, bool with_sha256) {
  BlockDigest digest;
  digest.crc64_nvme = Crc64Nvme(block);
  if (with_sha256) digest.sha256 = Sha256Of(block);
  return digest;
}

BlockDigest DigestOfZeros(uint64_t size) {
  if (size != kDigestBlockBytes) return ComputeDigestOfZeros(size);
  static const BlockDigest full_block = ComputeDigestOfZeros(kDigestBlockBytes);
  return full_block;
}

bool DigestsMatch(const BlockDigest& a, const BlockDigest& b) {
  if (a.crc64_nvme != b.crc64_nvme) return false;
  return !a.sha256.has_value() || !b.sha256.has_value() ||
         *a.sha256 == *b.sha256;
}

uint64_t FileCrc64(uint64_t size_bytes,
                   const std::vector<BlockDigest>& blocks) {
  CAIRN_CHECK(blocks.size() == DigestBlockCount(size_bytes));
  uint64_t crc = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    crc = Crc64NvmeCombine(crc, blocks[i].crc64_nvme,
                           DigestBlockSize(size_bytes, i));
  }
  return crc;
}

std::optional<Sha256> FileSha256(const std::vector<BlockDigest>& blocks) {
  Sha256Hasher hasher;
  for (const BlockDigest& block : blocks) {
    if (!block.sha256.has_value()) return std::nullopt;
    hasher.Update(std::as_bytes(std::span(*block.sha256)));
  }
  return hasher.Finish();
}

}  // namespace cairn
