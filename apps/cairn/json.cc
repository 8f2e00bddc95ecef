#include "apps/cairn/json.h"

#include <optional>
#include <utility>

#include "apps/cairn/text.h"
#include "cairn/store.h"
#include "nlohmann/json.hpp"

namespace cairn {

namespace {

// Keeps keys in the order in which they are documented.
using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  // What is no UTF-8 has been escaped; should anything have slipped through,
  // the answer is still JSON.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string Name(const std::string& name) { return EscapeForDisplay(name); }

Json Time(int64_t time_ns) { return UtcTime(time_ns); }
Json KnownTime(int64_t time_ns) {
  return time_ns == 0 ? Json(nullptr) : Time(time_ns);
}
template <typename T>
Json Maybe(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <typename T, typename ToJson>
Json List(const std::vector<T>& values, ToJson to_json) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(to_json(value));
  return list;
}

Json Strings(const std::vector<std::string>& values) {
  return List(values, [](const std::string& value) { return Json(value); });
}

Json PathsWithReasons(
    const std::vector<std::pair<std::string, std::string>>& pairs) {
  return List(pairs, [](const auto& pair) {
    return Json{{"path", Name(pair.first)}, {"reason", pair.second}};
  });
}

Json Checkpoint(const CheckpointInfo& checkpoint) {
  Json json;
  json["path"] = Name(checkpoint.path);
  json["run"] = Name(checkpoint.run);
  json["name"] = Name(checkpoint.name);
  json["generation"] = checkpoint.generation;
  json["newest_generation"] = checkpoint.newest_generation;
  json["sequence"] = checkpoint.sequence;
  json["framework"] = Name(checkpoint.framework);
  json["step"] = Maybe(checkpoint.step);
  json["epoch"] = Maybe(checkpoint.epoch);
  json["files"] = checkpoint.files;
  json["bytes"] = checkpoint.bytes;
  json["created"] = Time(checkpoint.created_ns);
  json["origin"] = checkpoint.origin;
  json["labels"] = Json::object();
  for (const auto& [key, value] : checkpoint.labels) {
    json["labels"][key] = value;
  }
  json["state"] = StateName(checkpoint.state);
  json["present"] = checkpoint.present;
  json["archived"] = checkpoint.archived;
  json["dirty"] = checkpoint.dirty;
  json["pinned"] = checkpoint.pinned;
  json["hold_until"] = checkpoint.hold_until_ns
                           ? Time(*checkpoint.hold_until_ns)
                           : Json(nullptr);
  json["damaged"] = checkpoint.damaged;
  json["lost"] = checkpoint.lost;
  json["damage"] = checkpoint.damage;
  return json;
}

Json Candidate(const CandidateInfo& candidate) {
  return {{"path", Name(candidate.path)},
          {"framework", Name(candidate.framework)},
          {"step", Maybe(candidate.step)},
          {"verdict", candidate.verdict},
          {"reason", candidate.reason}};
}

Json OneOutcome(const Outcome& outcome) {
  return {{"path", Name(outcome.path)},
          {"generation", outcome.generation},
          {"result", OutcomeName(outcome.kind)},
          {"message", outcome.message},
          {"bytes", outcome.bytes},
          {"bytes_skipped", outcome.bytes_skipped},
          {"files", outcome.files}};
}

Json OneDamage(const Damage& damage) {
  return {{"tier", damage.tier},
          {"file", Name(damage.file)},
          {"offset", damage.offset},
          {"kind", damage.kind},
          {"message", damage.message}};
}

Json OneVerifyOutcome(const VerifyOutcome& outcome) {
  return {{"path", Name(outcome.path)},
          {"generation", outcome.generation},
          {"tier", outcome.tier},
          {"good", outcome.good},
          {"content_read", outcome.content_read},
          {"message", outcome.message},
          {"files", outcome.files},
          {"bytes", outcome.bytes},
          {"damages", List(outcome.damages, OneDamage)}};
}

Json OneFile(const FileInfo& file) {
  return {{"path", Name(file.path)},      {"type", file.type},
          {"bytes", file.size_bytes},     {"mode", file.mode},
          {"mtime", Time(file.mtime_ns)}, {"target", Name(file.target)},
          {"key", Name(file.key)},        {"sha256", file.sha256}};
}

Json OneSweepItem(const SweepItem& item) {
  return {{"what", item.what},
          {"name", Name(item.name)},
          {"bytes", item.bytes},
          {"reason", item.reason},
          {"removed", item.removed}};
}

Json OneFailure(const FailureInfo& failure) {
  return {{"time", Time(failure.time_ns)},
          {"operation", failure.operation},
          {"path", Name(failure.path)},
          {"message", failure.message}};
}

const char* LevelName(DoctorItem::Level level) {
  switch (level) {
    case DoctorItem::Level::kGood:
      return "good";
    case DoctorItem::Level::kNote:
      return "note";
    case DoctorItem::Level::kBad:
      return "bad";
  }
  return "bad";
}

Json OneDoctorItem(const DoctorItem& item) {
  return {{"level", LevelName(item.level)},
          {"subject", item.subject},
          {"finding", item.finding},
          {"advice", item.advice}};
}

}  // namespace

std::string JsonOf(const CheckpointInfo& checkpoint) {
  return Dump({{"checkpoint", Checkpoint(checkpoint)}});
}

std::string JsonOf(const std::vector<CheckpointInfo>& checkpoints) {
  return Dump({{"checkpoints", List(checkpoints, Checkpoint)}});
}

std::string JsonOf(const ScanReport& report) {
  return Dump({{"committed", List(report.committed, Checkpoint)},
               {"changes", List(report.changes, OneOutcome)},
               {"candidates", List(report.candidates, Candidate)},
               {"ignored", PathsWithReasons(report.ignored)},
               {"checkpoints", report.checkpoints},
               {"files", report.files},
               {"bytes", report.bytes}});
}

std::string JsonOf(const ShowReport& report) {
  const auto pointer = [](const std::pair<std::string, std::string>& pair) {
    return Json{{"path", Name(pair.first)}, {"content", Name(pair.second)}};
  };
  return Dump(
      {{"checkpoint", Checkpoint(report.checkpoint)},
       {"generations", List(report.generations, Checkpoint)},
       {"files", List(report.files, OneFile)},
       {"pointers", List(report.pointers, pointer)},
       {"marker", Name(report.marker)},
       {"verified_accelerator", KnownTime(report.verified_accelerator_ns)},
       {"verified_core", KnownTime(report.verified_core_ns)},
       {"release", report.release}});
}

std::string JsonOf(const LatestReport& report) {
  return Dump({{"checkpoint", Checkpoint(report.checkpoint)},
               {"location", Name(report.location)},
               {"restored", report.restored},
               {"passed_over", PathsWithReasons(report.passed_over)},
               {"warnings", Strings(report.warnings)}});
}

std::string JsonOf(const BatchReport& report) {
  return Dump({{"dry_run", report.dry_run},
               {"outcomes", List(report.outcomes, OneOutcome)}});
}

std::string JsonOf(const RestoreReport& report) {
  return Dump({{"checkpoint", Checkpoint(report.checkpoint)},
               {"location", Name(report.location)},
               {"already_there", report.already_there},
               {"bytes", report.bytes},
               {"bytes_skipped", report.bytes_skipped},
               {"warnings", Strings(report.warnings)}});
}

std::string JsonOf(const VerifyReport& report) {
  return Dump({{"outcomes", List(report.outcomes, OneVerifyOutcome)}});
}

std::string JsonOf(const SweepReport& report) {
  return Dump({{"dry_run", report.dry_run},
               {"items", List(report.items, OneSweepItem)}});
}

std::string JsonOf(const RebuildReport& report) {
  return Dump({{"manifests_accelerator", report.manifests_accelerator},
               {"manifests_core", report.manifests_core},
               {"checkpoints", report.checkpoints},
               {"marks", report.marks},
               {"warnings", Strings(report.warnings)}});
}

std::string JsonOf(const StatusReport& report) {
  Json states = Json::object();
  for (const auto& [state, count] : report.count_by_state) {
    const auto bytes = report.bytes_by_state.find(state);
    states[state] = {
        {"checkpoints", count},
        {"bytes", bytes == report.bytes_by_state.end() ? 0 : bytes->second}};
  }
  return Dump(
      {{"accelerator",
        {{"path", Name(report.accelerator_path)},
         {"id", report.accelerator_id},
         {"total_bytes", report.accelerator_total_bytes},
         {"free_bytes", report.accelerator_free_bytes}}},
       {"core",
        {{"urls", List(report.core_urls,
                       [](const std::string& url) { return Json(Name(url)); })},
         {"id", report.core_id}}},
       {"states", std::move(states)},
       {"unarchived",
        {{"checkpoints", report.unarchived},
         {"bytes", report.unarchived_bytes},
         {"oldest", KnownTime(report.oldest_unarchived_ns)}}},
       {"pinned", report.pinned},
       {"damaged", report.damaged},
       {"lost", report.lost},
       {"staging_bytes", report.staging_bytes},
       {"candidates", List(report.candidates, Candidate)},
       {"failures", List(report.failures, OneFailure)}});
}

std::string JsonOf(const DoctorReport& report) {
  return Dump({{"items", List(report.items, OneDoctorItem)}});
}

std::string JsonOfInit(const std::string& config, bool config_written,
                       const Options& options) {
  return Dump(
      {{"config", Name(config)},
       {"config_written", config_written},
       {"accelerator", Name(options.accelerator_path)},
       {"core", List(options.core_urls,
                     [](const std::string& url) { return Json(Name(url)); })},
       {"state_dir", Name(options.state_dir)}});
}

std::string JsonOfPin(const std::string& path, bool pinned) {
  return Dump({{"path", Name(path)}, {"pinned", pinned}});
}

}  // namespace cairn
