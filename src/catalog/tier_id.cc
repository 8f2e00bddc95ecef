#include "catalog/tier_id.h"

#include <utility>

#include "base/status_macros.h"
#include "catalog/manifest_check.h"
#include "catalog/record.h"

namespace cairn {

std::string EncodeTierId(const TierId& tier) {
  nlohmann::json fields;
  fields["id"] = tier.id;
  fields["kind"] = tier.kind;
  fields["created"] = tier.created;
  return EncodeRecord("tier", tier.format_version, std::move(fields));
}

absl::StatusOr<TierId> DecodeTierId(ByteView text) {
  CAIRN_ASSIGN_OR_RETURN(const Record record,
                         Record::Decode("tier", kTierFormatVersion, text));
  TierId tier;
  CAIRN_ASSIGN_OR_RETURN(tier.id, record.Text("id"));
  if (!IsHexId(tier.id)) return record.Fault("id", "is not 32 hex digits");
  CAIRN_ASSIGN_OR_RETURN(tier.kind, record.Text("kind"));
  if (tier.kind != "accelerator" && tier.kind != "core") {
    return record.Fault("kind", "is neither accelerator nor core");
  }
  CAIRN_ASSIGN_OR_RETURN(tier.created, record.Text("created"));
  CAIRN_ASSIGN_OR_RETURN(const int64_t version, record.Integer("version"));
  tier.format_version = static_cast<int>(version);
  return tier;
}

}  // namespace cairn
