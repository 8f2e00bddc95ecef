#include "base/byte_source.h"

#include <algorithm>

#include "fmt/format.h"

namespace cairn {

absl::Status MemoryByteSource::ReadAt(uint64_t offset, MutableByteView out) {
  if (offset > content_.size() || out.size() > content_.size() - offset) {
    return absl::OutOfRangeError(
        fmt::format("cannot read {} bytes at offset {}: the content ends after "
                    "{} bytes",
                    out.size(), offset, content_.size()));
  }
  std::ranges::copy(content_.subspan(offset, out.size()), out.begin());
  return absl::OkStatus();
}

}  // namespace cairn
