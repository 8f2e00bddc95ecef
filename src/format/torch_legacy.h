// torch.save files of the format before torch 1.6: five pickles (magic number,
// protocol, system, the object, the storages' keys), then each storage's number
// of elements and its bytes. DeepSpeed and others still write it on request.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_source.h"

namespace cairn {

// How much of the file is read in search of the end of the pickles.
inline constexpr uint64_t kLegacyPickleBytesMax = uint64_t{64} << 20;

// Length of the first pickle, which holds the magic number.
inline constexpr size_t kLegacyMagicBytes = 15;
// True if `head`, the file's first kLegacyMagicBytes bytes, is that pickle.
bool IsLegacyTorchHead(std::string_view head);

// See CheckTorchFile in structure.h. REQUIRES: the head is the legacy one.
// kResourceExhausted: the pickles are longer than kLegacyPickleBytesMax.
absl::Status CheckLegacyTorch(ByteSource& file);

// The bytes from the start of the object's pickle on (there may be more behind
// it).
absl::StatusOr<std::string> ReadLegacyTorchPickle(ByteSource& file);

}  // namespace cairn
