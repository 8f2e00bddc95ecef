// safetensors files and shard indexes: any bytes give a verdict, and what is
// read from a sound one keeps the promises of structure.h.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_source.h"
#include "base/check.h"
#include "format/structure.h"
#include "format/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cairn::MemoryByteSource file(std::as_bytes(std::span(data, size)));
  const absl::Status sound = cairn::CheckSafetensorsFile(file);
  CAIRN_CHECK(sound.ok() || absl::IsDataLoss(sound));
  const auto names = cairn::SafetensorsNames(file);
  CAIRN_CHECK(names.ok() || !sound.ok());
  const auto index = cairn::ReadShardIndex(file);
  if (index.ok()) {
    for (const auto& [tensor, shard] : index->weight_map) {
      CAIRN_CHECK(cairn::IsPlainRelativePath(shard));
    }
  }
  return 0;
}
