#include "catalog/record.h"

#include <limits>
#include <utility>

#include "base/crc64.h"
#include "base/digest.h"
#include "base/escape.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace cairn {

namespace {

using Json = nlohmann::json;

// What the CRC-64 is of. Objects of this kind of Json are sorted by key.
std::string Canonical(const Json& fields) {
  return fields.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Drops what is nested too deep, so that the checksum cannot match: the library
// writes by recursion, and hostile depth would cost the stack.
bool IsShallow(int depth, Json::parse_event_t event, Json& /*parsed*/) {
  constexpr int kDepthMax = 8;
  const bool is_opening = event == Json::parse_event_t::object_start ||
                          event == Json::parse_event_t::array_start;
  return !is_opening || depth <= kDepthMax;
}

absl::Status Damaged(std::string_view kind, std::string_view why) {
  return absl::DataLossError(fmt::format("damaged {} record: {}", kind, why));
}

}  // namespace

std::string EncodeRecord(std::string_view kind, int version, Json fields) {
  fields["cairn"] = kind;
  fields["version"] = version;
  fields["crc64"] = ToHex(Crc64Nvme(AsBytes(Canonical(fields))));
  return Canonical(fields) + "\n";
}

absl::StatusOr<Record> Record::Decode(std::string_view kind, int version,
                                      ByteView text) {
  if (text.size() > kRecordBytesMax) {
    return Damaged(kind, fmt::format("longer than {} bytes", kRecordBytesMax));
  }
  Json fields =
      Json::parse(AsText(text), IsShallow, /*allow_exceptions=*/false);
  if (!fields.is_object()) return Damaged(kind, "not a JSON object");
  Record record(kind, std::move(fields));
  CAIRN_ASSIGN_OR_RETURN(const std::string magic, record.Text("cairn"));
  if (magic != kind) return record.Fault("cairn", "is another kind of record");
  CAIRN_ASSIGN_OR_RETURN(const int64_t found, record.Integer("version"));
  if (found > version) {
    return absl::UnimplementedError(
        fmt::format("{} version {} was written by a newer cairn; this one "
                    "reads version {}: "
                    "use the newer one",
                    kind, found, version));
  }
  if (found < 1) return record.Fault("version", "is less than 1");
  CAIRN_ASSIGN_OR_RETURN(const std::string crc64, record.Text("crc64"));
  record.fields_.erase("crc64");
  if (crc64 != ToHex(Crc64Nvme(AsBytes(Canonical(record.fields_))))) {
    return record.Fault("crc64", "is not that of the record");
  }
  return record;
}

absl::Status Record::Fault(const char* key, std::string_view what) const {
  return Damaged(kind_, fmt::format("\"{}\" {}", key, what));
}

absl::StatusOr<std::string> Record::Text(const char* key) const {
  const auto found = fields_.find(key);
  if (found == fields_.end()) return Fault(key, "is missing");
  if (!found->is_string()) return Fault(key, "is not a string");
  return found->get<std::string>();
}

absl::StatusOr<std::string> Record::Name(const char* key) const {
  CAIRN_ASSIGN_OR_RETURN(const std::string text, Text(key));
  absl::StatusOr<std::string> name = UnescapeName(text);
  if (!name.ok()) return Fault(key, "is not in the escaped form of names");
  return name;
}

absl::StatusOr<int64_t> Record::Integer(const char* key) const {
  const auto found = fields_.find(key);
  if (found == fields_.end()) return Fault(key, "is missing");
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  const bool is_sound =
      found->is_number_integer() &&
      !(found->is_number_unsigned() && found->get<uint64_t>() > kMax);
  if (!is_sound) return Fault(key, "is not a whole number below 2^63");
  return found->get<int64_t>();
}

absl::StatusOr<std::optional<int64_t>> Record::OptionalInteger(
    const char* key) const {
  if (!fields_.contains(key)) return std::nullopt;
  return Integer(key);
}

}  // namespace cairn
