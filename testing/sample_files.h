// Small well-formed files as frameworks write them, for tests that need
// checkpoints to look at. format/format_test_util.h has the parts, and makers
// of ill-formed ones.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/format_test_util.h"

namespace cairn {

// A pickle of a dictionary of small integers.
inline std::string SamplePickle(
    const std::vector<std::pair<std::string, int32_t>>& values) {
  std::string bytes = "\x80\x02}(";
  for (const auto& [key, value] : values) {
    bytes += PickleText(key) + "J" + Little(static_cast<uint32_t>(value), 4);
  }
  return bytes + "u.";
}

// What torch.save writes for a dictionary of `values`.
inline std::string SampleTorchFile(
    const std::vector<std::pair<std::string, int32_t>>& values = {}) {
  ZipMaker zip;
  zip.Add("archive/data.pkl", SamplePickle(values));
  zip.Add("archive/byteorder", "little");
  zip.Add("archive/data/0", std::string(64, '\x07'));
  zip.Add("archive/version", "3\n");
  return zip.Finish();
}

// One float for each name.
inline std::string SampleSafetensors(const std::vector<std::string>& names) {
  std::string header = "{";
  uint64_t offset = 0;
  for (const std::string& name : names) {
    if (offset > 0) header += ",";
    header += "\"" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[)" +
              std::to_string(offset) + "," + std::to_string(offset + 4) + "]}";
    offset += 4;
  }
  header += "}";
  return Safetensors(header, std::string(offset, '\x01'));
}

// {tensor, shard} pairs as model.safetensors.index.json.
inline std::string SampleShardIndex(
    const std::vector<std::pair<std::string, std::string>>& weight_map) {
  std::string json = R"({"metadata":{"total_size":8},"weight_map":{)";
  for (size_t i = 0; i < weight_map.size(); ++i) {
    if (i > 0) json += ",";
    json += "\"" + weight_map[i].first + "\":\"" + weight_map[i].second + "\"";
  }
  return json + "}}";
}

}  // namespace cairn
