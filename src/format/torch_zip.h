// torch.save files of the zip format (torch 1.6 and later).

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_source.h"
#include "format/pickle.h"

namespace cairn {

// See CheckTorchFile in structure.h, for the zip format.
absl::Status CheckTorchZip(ByteSource& file);

// The content of `<prefix>/data.pkl`, at most kDataPickleBytesMax, its CRC-32
// checked where one was recorded. kResourceExhausted: longer.
inline constexpr uint64_t kDataPickleBytesMax = uint64_t{64} << 20;
absl::StatusOr<std::string> ReadTorchZipPickle(ByteSource& file);

// A storage that tensors in a pickle lie in.
struct StorageSize {
  uint64_t numel = 0;
  uint64_t element_bytes = 0;  // 0: not known.

  // There may be a part of an element more (odd views).
  bool Fits(uint64_t size) const {
    return element_bytes == 0 || size / element_bytes == numel;
  }
};
// By key, which points into the pickle's input.
using StorageSizes = absl::flat_hash_map<std::string_view, StorageSize>;

// From the persistent ids ("storage", class, key, location, numel, ...).
StorageSizes CollectStorages(const Pickle& pickle);

}  // namespace cairn
