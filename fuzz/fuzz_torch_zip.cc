// torch.save files (zip and legacy) and zip archives: any bytes give a verdict.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_source.h"
#include "base/check.h"
#include "format/structure.h"

namespace {

bool IsVerdict(const absl::Status& status) {
  return status.ok() || absl::IsDataLoss(status) ||
         absl::IsResourceExhausted(status);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cairn::MemoryByteSource file(std::as_bytes(std::span(data, size)));
  CAIRN_CHECK(IsVerdict(cairn::CheckTorchFile(file)));
  CAIRN_CHECK(IsVerdict(cairn::CheckZipFile(file)));
  const auto ints = cairn::ReadTopLevelInts(file, {"epoch", "global_step"});
  CAIRN_CHECK(IsVerdict(ints.status()) || absl::IsUnimplemented(ints.status()));
  return 0;
}
