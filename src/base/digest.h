// What is recorded of a file's content.
//
// A file is digested in blocks of kDigestBlockBytes (the last one shorter; an
// empty file has none), whatever the size of the parts in which it is uploaded.
// Holes are digested as the zeros they read as.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"

namespace cairn {

inline constexpr uint64_t kDigestBlockBytes = uint64_t{8} << 20;

inline constexpr uint64_t DigestBlockCount(uint64_t size_bytes) {
  return size_bytes / kDigestBlockBytes +
         (size_bytes % kDigestBlockBytes == 0 ? 0 : 1);
}

// Length of block `index` of a file of `size_bytes`.
inline constexpr uint64_t DigestBlockSize(uint64_t size_bytes, uint64_t index) {
  const uint64_t offset = index * kDigestBlockBytes;
  return size_bytes - offset < kDigestBlockBytes ? size_bytes - offset
                                                 : kDigestBlockBytes;
}

using Sha256 = std::array<uint8_t, 32>;

Sha256 Sha256Of(ByteView data);

// Running SHA-256, for text that is written in pieces. One thread at a time.
class Sha256Hasher {
 public:
  Sha256Hasher();
  Sha256Hasher(const Sha256Hasher&) = delete;
  Sha256Hasher& operator=(const Sha256Hasher&) = delete;
  ~Sha256Hasher();
  void Update(ByteView data);
  Sha256 Finish();  // Once.

 private:
  void* context_;
};

std::string ToHex(const Sha256& digest);  // 64 lower-case digits.
std::string ToHex(uint64_t crc);          // 16 lower-case digits.
absl::StatusOr<Sha256> Sha256FromHex(std::string_view hex);
absl::StatusOr<uint64_t> Crc64FromHex(std::string_view hex);

struct BlockDigest {
  uint64_t crc64_nvme = 0;
  std::optional<Sha256> sha256;  // Absent where only a save has seen the block.

  bool operator==(const BlockDigest&) const = default;
};

// Digests one block: CRC-64 always, SHA-256 if asked.
BlockDigest DigestBlock(ByteView block, bool with_sha256);

// Of a block of `size` zero bytes; both digests. Cached for the full block.
BlockDigest DigestOfZeros(uint64_t size);

// True if the two agree in everything that both have.
bool DigestsMatch(const BlockDigest& a, const BlockDigest& b);

// CRC-64 of a whole file from its blocks.
uint64_t FileCrc64(uint64_t size_bytes, const std::vector<BlockDigest>& blocks);

// The content's name: SHA-256 over the concatenated SHA-256 of its blocks (of
// nothing, for an empty file). nullopt if a block has no SHA-256.
std::optional<Sha256> FileSha256(const std::vector<BlockDigest>& blocks);

}  // namespace cairn
