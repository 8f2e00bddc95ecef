#include "catalog/checkpoint_row.h"

#include <optional>
#include <utility>

#include "base/escape.h"
#include "base/status_macros.h"
#include "catalog/manifest_check.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace cairn {

namespace {

struct CopyColumns {
  long long manifest = 0;
  long long present = 0;
  long long damaged = 0;
  std::string damage;
  long long verified_ns = 0;
  std::string fingerprint;
  long long fingerprint_known_ns = 0;
};

struct CheckpointRow {
  std::string generation;
  std::string run;
  std::string name;
  long long is_directory = 0;
  long long sequence = 0;
  std::string framework;
  OptionalColumn step;
  OptionalColumn epoch;
  long long files = 0;
  long long bytes = 0;
  long long created_ns = 0;
  long long marker_mtime_ns = 0;
  std::string origin;
  std::string labels;
  CopyColumns accelerator;
  CopyColumns core;
  long long dirty = 0;
  long long released = 0;
  long long pinned = 0;
  OptionalColumn hold_until_ns;
  std::string activity;
};

template <typename Visit>
void VisitCopy(const std::string& tier, CopyColumns& copy, Visit visit) {
  visit(tier + "_manifest", copy.manifest);
  visit(tier + "_present", copy.present);
  visit(tier + "_damaged", copy.damaged);
  visit(tier + "_damage", copy.damage);
  visit(tier + "_verified_ns", copy.verified_ns);
  visit(tier + "_fingerprint", copy.fingerprint);
  visit(tier + "_fingerprint_known_ns", copy.fingerprint_known_ns);
}

// The one list of columns: every statement is made from it.
template <typename Visit>
void VisitColumns(CheckpointRow& row, Visit visit) {
  visit("generation", row.generation);
  visit("run", row.run);
  visit("name", row.name);
  visit("is_directory", row.is_directory);
  visit("sequence", row.sequence);
  visit("framework", row.framework);
  visit("step", row.step);
  visit("epoch", row.epoch);
  visit("files", row.files);
  visit("bytes", row.bytes);
  visit("created_ns", row.created_ns);
  visit("marker_mtime_ns", row.marker_mtime_ns);
  visit("origin", row.origin);
  visit("labels", row.labels);
  VisitCopy("accelerator", row.accelerator, visit);
  VisitCopy("core", row.core, visit);
  visit("dirty", row.dirty);
  visit("released", row.released);
  visit("pinned", row.pinned);
  visit("hold_until_ns", row.hold_until_ns);
  visit("activity", row.activity);
}

// Binds columns as inputs.
struct Use {
  soci::statement& statement;
  template <typename T>
  void operator()(const std::string& /*name*/, T& column) const {
    statement.exchange(soci::use(column));
  }
  void operator()(const std::string& /*name*/, OptionalColumn& column) const {
    statement.exchange(soci::use(column.value, column.indicator));
  }
};

// Binds columns as outputs.
struct Into {
  soci::statement& statement;
  template <typename T>
  void operator()(const std::string& /*name*/, T& column) const {
    statement.exchange(soci::into(column));
  }
  void operator()(const std::string& /*name*/, OptionalColumn& column) const {
    statement.exchange(soci::into(column.value, column.indicator));
  }
};

std::string UpsertText() {
  std::string names;
  std::string values;
  std::string updates;
  CheckpointRow row;
  VisitColumns(row, [&](const std::string& name, auto& /*column*/) {
    const char* const separator = names.empty() ? "" : ", ";
    names += separator + name;
    values += separator + (":" + name);
    if (name == "generation") return;
    updates += fmt::format("{}{} = excluded.{}", updates.empty() ? "" : ", ",
                           name, name);
  });
  return fmt::format(
      "INSERT INTO checkpoints ({}) VALUES ({}) ON CONFLICT (generation) DO "
      "UPDATE SET {}",
      names, values, updates);
}

std::string SelectText(std::string_view condition) {
  std::string names;
  CheckpointRow row;
  VisitColumns(row, [&names](const std::string& name, auto& /*column*/) {
    names += (names.empty() ? "" : ", ") + name;
  });
  return fmt::format("SELECT {} FROM checkpoints{}{}", names,
                     condition.empty() ? "" : " WHERE ", condition);
}

std::string LabelsToColumn(const std::map<std::string, std::string>& labels) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [name, value] : labels) {
    object[EscapeName(name)] = EscapeName(value);
  }
  return object.dump();
}

absl::StatusOr<std::map<std::string, std::string>> LabelsFromColumn(
    const std::string& column) {
  std::map<std::string, std::string> labels;
  const nlohmann::json object =
      nlohmann::json::parse(column, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return absl::DataLossError("labels are no object");
  for (const auto& [name, value] : object.items()) {
    if (!value.is_string()) return absl::DataLossError("a label is no text");
    CAIRN_ASSIGN_OR_RETURN(std::string raw_name, FromColumn(name));
    CAIRN_ASSIGN_OR_RETURN(labels[raw_name],
                           FromColumn(value.get<std::string>()));
  }
  return labels;
}

CopyColumns CopyToColumns(const CopyRecord& copy) {
  return {copy.manifest ? 1 : 0,    copy.present ? 1 : 0,
          copy.damaged ? 1 : 0,     ToColumn(copy.damage),
          copy.verified_ns,         ToColumn(copy.fingerprint),
          copy.fingerprint_known_ns};
}

absl::StatusOr<CopyRecord> CopyFromColumns(const CopyColumns& columns) {
  CopyRecord copy;
  copy.manifest = columns.manifest != 0;
  copy.present = columns.present != 0;
  copy.damaged = columns.damaged != 0;
  CAIRN_ASSIGN_OR_RETURN(copy.damage, FromColumn(columns.damage));
  copy.verified_ns = columns.verified_ns;
  CAIRN_ASSIGN_OR_RETURN(copy.fingerprint, FromColumn(columns.fingerprint));
  copy.fingerprint_known_ns = columns.fingerprint_known_ns;
  return copy;
}

absl::Status ToRow(const CheckpointRecord& record, CheckpointRow* row) {
  for (const uint64_t number : {record.sequence, record.files, record.bytes}) {
    if (number > kInt64Max) {
      return absl::InvalidArgumentError(
          fmt::format("generation {}: {} is beyond 2^63-1",
                      EscapeName(record.generation), number));
    }
  }
  row->generation = ToColumn(record.generation);
  row->run = ToColumn(record.run);
  row->name = ToColumn(record.name);
  row->is_directory = record.is_directory ? 1 : 0;
  row->sequence = static_cast<long long>(record.sequence);
  row->framework = ToColumn(record.framework);
  row->step = ToColumn(record.step);
  row->epoch = ToColumn(record.epoch);
  row->files = static_cast<long long>(record.files);
  row->bytes = static_cast<long long>(record.bytes);
  row->created_ns = record.created_ns;
  row->marker_mtime_ns = record.marker_mtime_ns;
  row->origin = ToColumn(record.origin);
  row->labels = LabelsToColumn(record.labels);
  row->accelerator = CopyToColumns(record.accelerator);
  row->core = CopyToColumns(record.core);
  row->dirty = record.dirty ? 1 : 0;
  row->released = record.released ? 1 : 0;
  row->pinned = record.pinned ? 1 : 0;
  row->hold_until_ns = ToColumn(record.hold_until_ns);
  row->activity = ToColumn(record.activity);
  return absl::OkStatus();
}

absl::StatusOr<CheckpointRecord> FromRow(const CheckpointRow& row) {
  CheckpointRecord record;
  CAIRN_ASSIGN_OR_RETURN(record.generation, FromColumn(row.generation));
  CAIRN_ASSIGN_OR_RETURN(record.run, FromColumn(row.run));
  CAIRN_ASSIGN_OR_RETURN(record.name, FromColumn(row.name));
  record.is_directory = row.is_directory != 0;
  record.sequence = static_cast<uint64_t>(row.sequence);
  CAIRN_ASSIGN_OR_RETURN(record.framework, FromColumn(row.framework));
  record.step = FromColumn(row.step);
  record.epoch = FromColumn(row.epoch);
  record.files = static_cast<uint64_t>(row.files);
  record.bytes = static_cast<uint64_t>(row.bytes);
  record.created_ns = row.created_ns;
  record.marker_mtime_ns = row.marker_mtime_ns;
  CAIRN_ASSIGN_OR_RETURN(record.origin, FromColumn(row.origin));
  CAIRN_ASSIGN_OR_RETURN(record.labels, LabelsFromColumn(row.labels));
  CAIRN_ASSIGN_OR_RETURN(record.accelerator, CopyFromColumns(row.accelerator));
  CAIRN_ASSIGN_OR_RETURN(record.core, CopyFromColumns(row.core));
  record.dirty = row.dirty != 0;
  record.released = row.released != 0;
  record.pinned = row.pinned != 0;
  record.hold_until_ns = FromColumn(row.hold_until_ns);
  CAIRN_ASSIGN_OR_RETURN(record.activity, FromColumn(row.activity));
  return record;
}

}  // namespace

std::string ToColumn(std::string_view text) { return EscapeName(text); }

absl::StatusOr<std::string> FromColumn(std::string_view column) {
  absl::StatusOr<std::string> text = UnescapeName(column);
  if (text.ok()) return text;
  return absl::DataLossError(
      fmt::format("the catalog holds \"{}\", which cairn did not write; delete "
                  "it and run `cairn rebuild`",
                  EscapeName(column)));
}

OptionalColumn ToColumn(const std::optional<int64_t>& number) {
  if (!number.has_value()) return {};
  return {*number, soci::i_ok};
}

std::optional<int64_t> FromColumn(const OptionalColumn& column) {
  if (column.indicator == soci::i_null) return std::nullopt;
  return column.value;
}

absl::Status WriteCheckpoints(soci::session& session,
                              const std::vector<CheckpointRecord>& records) {
  static const std::string* const text = new std::string(UpsertText());
  CheckpointRow row;
  soci::statement statement(session);
  VisitColumns(row, Use{statement});
  statement.alloc();
  statement.prepare(*text);
  statement.define_and_bind();
  for (const CheckpointRecord& record : records) {
    CAIRN_RETURN_IF_ERROR(ToRow(record, &row));
    statement.execute(/*withDataExchange=*/true);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CheckpointRecord>> ReadCheckpoints(
    soci::session& session, std::string_view condition,
    std::vector<std::string> arguments) {
  CheckpointRow row;
  soci::statement statement(session);
  VisitColumns(row, Into{statement});
  for (std::string& argument : arguments) {
    statement.exchange(soci::use(argument));
  }
  statement.alloc();
  statement.prepare(SelectText(condition));
  statement.define_and_bind();
  statement.execute();
  std::vector<CheckpointRecord> records;
  while (statement.fetch()) {
    CAIRN_ASSIGN_OR_RETURN(CheckpointRecord record, FromRow(row));
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace cairn
