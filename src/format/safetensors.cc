// safetensors: 8 bytes little-endian header length N, N bytes JSON, then the
// tensors without gaps. And the JSON indexes of checkpoints in several files.
//
// The JSON is taken as a stream of events, so that a repeated key is seen and
// nesting and memory stay bounded: what is kept is the names and two numbers
// for each tensor.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "format/structure.h"
#include "format/wire.h"
#include "nlohmann/json.hpp"

namespace cairn {
namespace {

// The format's own limit; it holds for writers and readers.
constexpr uint64_t kHeaderBytesMax = 100'000'000;
constexpr uint64_t kIndexBytesMax = 100'000'000;
constexpr uint64_t kLengthBytes = 8;
constexpr size_t kDepthMax = 64;

using Json = nlohmann::json;

// Receives the events of one JSON text; what differs between the two texts is
// in the five virtual functions. Every event returns false to stop, with the
// reason in status(). One thread at a time.
class JsonEvents : public nlohmann::json_sax<Json> {
 public:
  const absl::Status& status() const { return status_; }

  bool null() final { return OnOther("null"); }
  bool boolean(bool) final { return OnOther("a boolean"); }
  bool number_integer(number_integer_t) final {
    return OnOther("a negative number");
  }
  bool number_unsigned(number_unsigned_t value) final {
    return OnNumber(value);
  }
  bool number_float(number_float_t, const string_t&) final {
    return OnOther("a fraction or too large a number");
  }
  bool string(string_t& value) final { return OnString(value); }
  bool binary(binary_t&) final { return OnOther("binary data"); }
  bool key(string_t& key) final { return OnKey(key); }
  bool start_object(size_t) final { return Open(true); }
  bool end_object() final { return Close(); }
  bool start_array(size_t) final { return Open(false); }
  bool end_array() final { return Close(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) final {
    return Stop(fmt::format("no valid JSON at byte {}", position));
  }

 protected:
  virtual bool OnOther(std::string_view what) = 0;
  virtual bool OnNumber(uint64_t value) = 0;
  virtual bool OnString(const std::string& value) = 0;
  virtual bool OnKey(const std::string& key) = 0;
  // After the depth has grown, and before it shrinks.
  virtual bool OnOpen(bool is_object) = 0;
  virtual bool OnClose() = 0;

  size_t depth() const { return depth_; }
  bool Stop(std::string_view what) {
    if (status_.ok()) status_ = absl::DataLossError(std::string(what));
    return false;
  }

 private:
  bool Open(bool is_object) {
    if (depth_ == kDepthMax) return Stop("nested too deep");
    ++depth_;
    return OnOpen(is_object);
  }
  bool Close() {
    if (!OnClose()) return false;
    --depth_;
    return true;
  }

  absl::Status status_;
  size_t depth_ = 0;
};

absl::Status ParseJson(std::string_view text, JsonEvents* events) {
  // The library would take it for the end of the text.
  if (const size_t at = text.find('\0'); at != std::string_view::npos) {
    return absl::DataLossError(fmt::format("a zero byte at byte {}", at));
  }
  try {
    if (!Json::sax_parse(text.begin(), text.end(), events)) {
      return events->status().ok() ? absl::DataLossError("no valid JSON")
                                   : events->status();
    }
  } catch (const std::exception& error) {
    return absl::DataLossError(fmt::format("no valid JSON: {}", error.what()));
  }
  return events->status();
}

// Bits per element; 0 for a type that is not known, whose size is taken as it
// is: the list of types grows.
uint64_t ElementBits(std::string_view dtype) {
  static constexpr std::pair<std::string_view, uint64_t> kBits[] = {
      {"BOOL", 8},    {"U8", 8},          {"I8", 8},          {"F4", 4},
      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"F8_E5M2", 8},     {"F8_E4M3", 8},
      {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
      {"U16", 16},    {"F16", 16},        {"BF16", 16},       {"I32", 32},
      {"U32", 32},    {"F32", 32},        {"I64", 64},        {"U64", 64},
      {"F64", 64},    {"C64", 64},
  };
  for (const auto& [name, bits] : kBits) {
    if (name == dtype) return bits;
  }
  return 0;
}

struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;

  bool operator<(const Extent& other) const {
    return std::pair(begin, end) < std::pair(other.begin, other.end);
  }
};

// { "__metadata__": {string: string...},
//   NAME: {"dtype": string, "shape": [n...], "data_offsets": [begin, end]}... }
class HeaderEvents final : public JsonEvents {
 public:
  explicit HeaderEvents(bool keep_order) : keep_order_(keep_order) {}

  std::vector<Extent>& extents() { return extents_; }
  std::vector<std::string>& names() { return names_; }

 private:
  enum class Part { kNone, kDtype, kShape, kOffsets, kUnknown };

  bool OnOther(std::string_view what) override {
    return Ignored() || Bad(fmt::format("has {} in it", what));
  }

  bool OnNumber(uint64_t value) override {
    if (Ignored()) return true;
    if (depth() != 3) return Bad("has a number in a wrong place");
    if (part_ == Part::kShape) {
      // A tensor without elements has a zero in it, which may come late: the
      // other factors are multiplied apart so that zero cannot hide overflow.
      empty_ = empty_ || value == 0;
      if (value != 0 && __builtin_mul_overflow(count_, value, &count_)) {
        return Bad("has a shape of too many elements");
      }
      return true;
    }
    if (offsets_seen_ == 2) return Bad("has more than two offsets");
    (offsets_seen_++ == 0 ? extent_.begin : extent_.end) = value;
    return true;
  }

  bool OnString(const std::string& value) override {
    if (Ignored()) return true;
    if (depth() == 2 && in_metadata_) return true;
    if (depth() != 2 || part_ != Part::kDtype) {
      return Bad("has a string in a wrong place");
    }
    element_bits_ = ElementBits(value);
    return true;
  }

  bool OnKey(const std::string& key) override {
    if (depth() == 1) {
      name_ = key;
      in_metadata_ = key == "__metadata__";
      if (!seen_.insert(key).second) return Bad("comes twice");
      if (!in_metadata_ && keep_order_) names_.push_back(key);
      return true;
    }
    if (in_metadata_) {
      return metadata_keys_.insert(key).second || Bad("repeats a key");
    }
    if (depth() > 2) return true;  // Only below a key that is not known.
    part_ = key == "dtype"          ? Part::kDtype
            : key == "shape"        ? Part::kShape
            : key == "data_offsets" ? Part::kOffsets
                                    : Part::kUnknown;
    if (part_ == Part::kUnknown) return true;
    const unsigned bit = 1u << static_cast<unsigned>(part_);
    if ((parts_seen_ & bit) != 0) return Bad("repeats a key");
    parts_seen_ |= bit;
    return true;
  }

  bool OnOpen(bool is_object) override {
    if (depth() == 1) return is_object || Stop("the header is no JSON object");
    if (depth() == 2) {
      part_ = Part::kNone;
      parts_seen_ = 0;
      offsets_seen_ = 0;
      extent_ = {};
      element_bits_ = 0;
      count_ = 1;
      empty_ = false;
      return is_object || Bad("is no JSON object");
    }
    if (Ignored()) return true;
    const bool is_list = part_ == Part::kShape || part_ == Part::kOffsets;
    return (depth() == 3 && !is_object && is_list && !in_metadata_) ||
           Bad("is nested too deep");
  }

  bool OnClose() override {
    if (depth() != 2 || in_metadata_) return true;
    if (parts_seen_ != kAllParts || offsets_seen_ != 2) {
      return Bad("lacks its dtype, shape or offsets");
    }
    if (extent_.end < extent_.begin) return Bad("ends before it begins");
    if (!SizeFits()) return Bad("has offsets that its shape does not need");
    extents_.push_back(extent_);
    return true;
  }

  bool SizeFits() const {
    if (element_bits_ == 0) return true;
    const uint64_t bytes = extent_.end - extent_.begin;
    if (empty_) return bytes == 0;
    uint64_t bits = 0;
    return !__builtin_mul_overflow(count_, element_bits_, &bits) &&
           bits % 8 == 0 && bits / 8 == bytes;
  }

  // The value of a key that a newer version of the format may have added.
  bool Ignored() const {
    return !in_metadata_ && depth() >= 2 && part_ == Part::kUnknown;
  }
  bool Bad(std::string_view what) {
    return Stop(fmt::format("entry {} {}", ShownName(name_), what));
  }

  static constexpr unsigned kAllParts =
      1u << static_cast<unsigned>(Part::kDtype) |
      1u << static_cast<unsigned>(Part::kShape) |
      1u << static_cast<unsigned>(Part::kOffsets);

  const bool keep_order_;
  std::vector<Extent> extents_;
  std::vector<std::string> names_;
  absl::flat_hash_set<std::string> seen_;
  absl::flat_hash_set<std::string> metadata_keys_;

  // Of the entry being read.
  std::string name_;
  bool in_metadata_ = false;
  Part part_ = Part::kNone;
  unsigned parts_seen_ = 0;
  int offsets_seen_ = 0;
  Extent extent_;
  uint64_t element_bits_ = 0;
  uint64_t count_ = 1;  // Of elements, zeros in the shape left out.
  bool empty_ = false;
};

// The header's text; its length and first byte have been looked at.
absl::StatusOr<std::string> ReadHeader(ByteSource& file) {
  const uint64_t size = file.SizeBytes();
  if (size < kLengthBytes) return Flaw(0, "too short for a safetensors file");
  CAIRN_ASSIGN_OR_RETURN(const std::string prefix,
                         ReadPiece(file, 0, kLengthBytes));
  const uint64_t header_bytes = LoadLittle(prefix, kLengthBytes);
  if (header_bytes > kHeaderBytesMax) {
    return Flaw(0, fmt::format("a header of {} bytes is more than safetensors "
                               "allows",
                               header_bytes));
  }
  absl::StatusOr<std::string> header =
      ReadPiece(file, kLengthBytes, header_bytes);
  if (header.ok() && !header->starts_with('{')) {
    return Flaw(kLengthBytes, "the header does not begin with {");
  }
  return header;
}

absl::Status AtHeader(const absl::Status& status) {
  return status.ok() ? status
                     : Flaw(kLengthBytes, "in the header: " + Message(status));
}

// { "weight_map": {string: string...}, anything else }
class IndexEvents final : public JsonEvents {
 public:
  ShardIndex& index() { return index_; }
  bool has_map() const { return has_map_; }

 private:
  bool InMap() const { return in_map_ && depth() == 2; }

  bool OnOther(std::string_view what) override {
    return !in_map_ || Stop(fmt::format("weight_map has {} in it", what));
  }
  bool OnNumber(uint64_t) override { return OnOther("a number"); }

  bool OnString(const std::string& value) override {
    if (!in_map_) return true;
    if (!InMap()) return Stop("weight_map is no JSON object");
    if (!IsPlainRelativePath(value)) {
      return Stop(fmt::format("the shard name {} leads out of the directory",
                              ShownName(value)));
    }
    index_.weight_map.back().second = value;
    return true;
  }

  bool OnKey(const std::string& key) override {
    if (depth() == 1) {
      in_map_ = key == "weight_map";
      if (in_map_ && has_map_) return Stop("weight_map comes twice");
      has_map_ = has_map_ || in_map_;
      return true;
    }
    if (!InMap()) return true;
    if (!seen_.insert(key).second) {
      return Stop(fmt::format("tensor {} comes twice", ShownName(key)));
    }
    index_.weight_map.emplace_back(key, "");
    return true;
  }

  bool OnOpen(bool is_object) override {
    if (depth() == 1) return is_object || Stop("the index is no JSON object");
    if (!in_map_) return true;
    return (depth() == 2 && is_object) ||
           Stop("weight_map is not from names to file names");
  }
  bool OnClose() override { return true; }

  ShardIndex index_;
  bool has_map_ = false;
  bool in_map_ = false;
  absl::flat_hash_set<std::string> seen_;
};

}  // namespace

absl::Status CheckSafetensorsFile(ByteSource& file) {
  CAIRN_ASSIGN_OR_RETURN(const std::string header, ReadHeader(file));
  HeaderEvents events(/*keep_order=*/false);
  CAIRN_RETURN_IF_ERROR(AtHeader(ParseJson(header, &events)));
  std::vector<Extent>& extents = events.extents();
  std::sort(extents.begin(), extents.end());
  uint64_t end = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != end) {
      return Flaw(
          kLengthBytes,
          fmt::format("tensors overlap or leave a gap: one begins at {}, "
                      "the one before it ends at {}",
                      extent.begin, end));
    }
    end = extent.end;
  }
  const uint64_t data_bytes = file.SizeBytes() - kLengthBytes - header.size();
  if (data_bytes != end) {
    return Flaw(std::min(data_bytes, end) + kLengthBytes + header.size(),
                fmt::format("the tensors take {} bytes, but the file has {} "
                            "behind its header",
                            end, data_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SafetensorsNames(ByteSource& file) {
  CAIRN_ASSIGN_OR_RETURN(const std::string header, ReadHeader(file));
  HeaderEvents events(/*keep_order=*/true);
  CAIRN_RETURN_IF_ERROR(AtHeader(ParseJson(header, &events)));
  return std::move(events.names());
}

absl::StatusOr<ShardIndex> ReadShardIndex(ByteSource& file) {
  const uint64_t size = file.SizeBytes();
  if (size > kIndexBytesMax) {
    return absl::ResourceExhaustedError(fmt::format(
        "a shard index of more than {} bytes is not read", kIndexBytesMax));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string text, ReadPiece(file, 0, size));
  IndexEvents events;
  CAIRN_RETURN_IF_ERROR(ParseJson(text, &events));
  if (!events.has_map()) return Flaw(0, "the index has no weight_map");
  return std::move(events.index());
}

}  // namespace cairn
