#include "format/content_checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "format/name_pattern.h"
#include "format/structure.h"
#include "nlohmann/json.hpp"

namespace cairn {
namespace {

// Data that changed in the last minute, and this much later than the record
// that describes it, is being rewritten in place; anything else may be the
// order in which files were copied.
constexpr absl::Duration kRewriteSlack = absl::Seconds(60);

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(CheckContext& context,
                                                     std::string_view path) {
  return context.tree.Open(JoinPath(context.content.base(), path));
}

// Sets `json`, which stays discarded where there is a problem.
Verdicts ReadJson(CheckContext& context, const ContentFile& file,
                  nlohmann::json& json) {
  json = nlohmann::json(nlohmann::json::value_t::discarded);
  const auto text = ReadSmallFile(
      context.tree, JoinPath(context.content.base(), file.path), kJsonBytesMax);
  if (!text.ok()) return AsProblem(text.status(), file.path, file.mtime_ns);
  json = ParsePythonJson(*text);
  if (json.is_discarded() || !json.is_object()) {
    return Broken(file.path,
                  text->empty() ? "is empty" : "is not a JSON object",
                  file.mtime_ns);
  }
  return std::nullopt;
}

std::optional<int64_t> IntegerAt(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

Verdicts CheckTrainerState(CheckContext& context) {
  const ContentFile* file = context.content.Find("trainer_state.json");
  if (file == nullptr) return std::nullopt;  // The marker is looked for before.
  nlohmann::json json;
  CAIRN_ASSIGN_OR_RETURN(auto problem, ReadJson(context, *file, json));
  if (problem) return problem;
  const auto step = IntegerAt(json, "global_step");
  if (!step) return Broken(file->path, "has no global_step", file->mtime_ns);
  if (context.step && context.name.starts_with("checkpoint-") &&
      *step != *context.step) {
    return Broken(file->path,
                  fmt::format("says global_step {}, the directory says {}",
                              *step, *context.step),
                  file->mtime_ns);
  }
  context.step = step;
  const auto epoch = json.find("epoch");
  if (epoch != json.end() && epoch->is_number()) {
    const double value = epoch->get<double>();
    if (value >= 0 && value < 1e15) {
      context.epoch = static_cast<int64_t>(std::floor(value));
    }
  }
  return std::nullopt;
}

// A checkpoint that holds a DeepSpeed one has to say which of its directories
// it is, or loading it fails.
Verdicts CheckInnerLatest(CheckContext& context) {
  const auto& directories = context.content.directories();
  const auto is_inner = [](const ContentDirectory& directory) {
    return !directory.path.empty() &&
           directory.path.find('/') == std::string::npos &&
           std::any_of(directory.entries.begin(), directory.entries.end(),
                       [](const TreeEntry& entry) {
                         return HasSuffix(entry.name, "_states.pt");
                       });
  };
  const auto inner =
      std::find_if(directories.begin(), directories.end(), is_inner);
  const ContentFile* latest = context.content.Find("latest");
  if (latest == nullptr) {
    if (inner == directories.end()) return std::nullopt;
    return Problem{ProblemKind::kLate,
                   fmt::format("there is a DeepSpeed checkpoint in {}, but no "
                               "file `latest` that names it",
                               EscapeName(inner->path))};
  }
  CAIRN_ASSIGN_OR_RETURN(
      const std::string tag,
      ReadPointer(context.tree, JoinPath(context.content.base(), "latest")));
  if (tag.empty()) {
    return Broken("latest", "is empty or is no text", latest->mtime_ns);
  }
  for (const ContentDirectory& directory : directories) {
    if (directory.path == tag) return std::nullopt;
  }
  return Broken("latest",
                fmt::format("names {}, which is not there", EscapeName(tag)),
                latest->mtime_ns);
}

Verdicts CheckWeights(CheckContext& context) {
  for (const ContentFile& file : context.content.files()) {
    for (const std::string& suffix : WeightSuffixes()) {
      if (HasSuffix(file.path, suffix)) return std::nullopt;
    }
  }
  return Problem{ProblemKind::kBroken,
                 "no file of it holds weights (they may have been lost in a "
                 "crash)"};
}

bool HasDcpRecord(const CheckpointContent& content) {
  if (content.Find(".metadata") != nullptr) return true;
  const auto& entries = content.directories().front().entries;
  return std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
    return GlobMatches("__*.metadata", entry.name);
  });
}

Verdicts CheckMegatronBackend(CheckContext& context) {
  const ContentFile* file = context.content.Find("metadata.json");
  if (file == nullptr) return std::nullopt;
  nlohmann::json json;
  CAIRN_ASSIGN_OR_RETURN(auto problem, ReadJson(context, *file, json));
  if (problem) return problem;
  const auto backend = json.find("sharded_backend");
  if (backend == json.end() || !backend->is_string()) {
    return Broken(file->path, "has no sharded_backend", file->mtime_ns);
  }
  if (*backend == "torch_dist" && !HasDcpRecord(context.content)) {
    return Broken(".metadata",
                  "is missing, though metadata.json, which is written after "
                  "it, is there");
  }
  return std::nullopt;
}

Verdicts CheckOrbaxCommit(CheckContext& context) {
  for (const ContentFile& file : context.content.files()) {
    const std::string_view name =
        std::string_view(file.path).substr(file.path.rfind('/') + 1);
    if (file.size_bytes == 0 &&
        (name == "_METADATA" || name == "manifest.ocdbt" ||
         name == "_CHECKPOINT_METADATA" || name == "commit_success.txt")) {
      return Broken(file.path, "is empty", file.mtime_ns);
    }
  }
  nlohmann::json json;
  const ContentFile* file = context.content.Find("_CHECKPOINT_METADATA");
  if (file != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(auto problem, ReadJson(context, *file, json));
    if (problem) return problem;
  }
  if (context.content.Find("commit_success.txt") != nullptr ||
      (file != nullptr && IntegerAt(json, "commit_timestamp_nsecs"))) {
    return std::nullopt;
  }
  return Problem{ProblemKind::kUndecided,
                 "no commit record: commit_success.txt is not there and "
                 "_CHECKPOINT_METADATA has no commit time"};
}

Verdicts CheckJsonMarkers(CheckContext& context) {
  for (const char* name : {"model_config.json", "checkpoint_metadata.json"}) {
    const ContentFile* file = context.content.Find(name);
    if (file == nullptr) continue;
    nlohmann::json json;
    CAIRN_ASSIGN_OR_RETURN(auto problem, ReadJson(context, *file, json));
    if (problem) return problem;
  }
  return std::nullopt;
}

// All zeros where a format never is: what a crash of the machine leaves.
Verdicts CheckNotZeros(CheckContext& context, const ContentFile& file,
                       uint64_t offset, size_t count) {
  if (file.size_bytes == 0) {
    return Broken(file.path, "is empty", file.mtime_ns);
  }
  auto source = OpenFile(context, file.path);
  if (!source.ok()) {
    return AsProblem(source.status(), file.path, file.mtime_ns);
  }
  std::array<std::byte, 8> bytes = {};
  const MutableByteView read(bytes.data(), count);
  if (const absl::Status status = (*source)->ReadAt(offset, read);
      !status.ok()) {
    return AsProblem(status, file.path, file.mtime_ns);
  }
  if (std::all_of(read.begin(), read.end(),
                  [](std::byte byte) { return byte == std::byte{0}; })) {
    return Broken(file.path, "is filled with zeros", file.mtime_ns);
  }
  return std::nullopt;
}

// An index is a sorted table, which always ends in its magic number.
Verdicts CheckTableIndex(CheckContext& context) {
  for (const ContentDirectory& directory : context.content.directories()) {
    for (const TreeEntry& entry : directory.entries) {
      if (entry.type != FileType::kFile) continue;
      const std::string path = JoinPath(directory.path, entry.name);
      if (HasSuffix(entry.name, ".pb") && entry.size_bytes == 0) {
        return Broken(path, "is empty", entry.mtime_ns);
      }
      const size_t data = entry.name.find(".data-");
      if (data != std::string::npos) {
        const std::string index =
            JoinPath(directory.path, entry.name.substr(0, data) + ".index");
        if (context.content.Find(index) == nullptr) {
          return Broken(index, "is missing");
        }
      }
      if (!HasSuffix(entry.name, ".index")) continue;
      const std::string glob =
          entry.name.substr(0, entry.name.size() - 6) + ".data-";
      if (std::none_of(directory.entries.begin(), directory.entries.end(),
                       [&](const auto& other) {
                         return other.name.starts_with(glob);
                       })) {
        return Broken(path, "has no data file beside it", entry.mtime_ns);
      }
      const size_t count = std::min<uint64_t>(8, entry.size_bytes);
      CAIRN_ASSIGN_OR_RETURN(
          auto problem,
          CheckNotZeros(context, {path, entry.size_bytes, entry.mtime_ns},
                        entry.size_bytes - count, count));
      if (problem) return problem;
    }
  }
  return std::nullopt;
}

// Content is better than a name, which is a template of the user's.
Verdicts TakeLightningNumbers(CheckContext& context) {
  std::string path = context.name;
  if (context.content.directories().size() > 1 ||
      context.content.Find(path) == nullptr) {
    path = context.content.Find("meta.pt") != nullptr
               ? "meta.pt"
               : "checkpoint/mp_rank_00_model_states.pt";
  }
  const ContentFile* file = context.content.Find(path);
  if (file == nullptr || file->size_bytes == 0) return std::nullopt;
  auto source = OpenFile(context, path);
  if (!source.ok()) {
    return AsProblem(source.status(), file->path, file->mtime_ns);
  }
  const auto found = ReadTopLevelInts(**source, {"epoch", "global_step"});
  if (!found.ok()) return std::nullopt;  // kFileFormats says what is wrong.
  context.lightning = found->values.size() == 2;
  for (const auto& [key, value] : found->values) {
    if (value < 0) continue;
    if (key == "epoch") context.epoch = value;
    if (key == "global_step") context.step = value;
  }
  return std::nullopt;
}

// The files of one directory that make up a DCP checkpoint.
struct DcpFiles {
  const TreeEntry* record = nullptr;     // .metadata
  const TreeEntry* temporary = nullptr;  // .metadata.tmp
  const TreeEntry* newest_data = nullptr;
  size_t data_files = 0;
  bool other_record = false;                         // torch_checkpointing's.
  std::map<int64_t, const TreeEntry*> rank_records;  // __R.metadata
  int64_t rank_max = -1;
};

DcpFiles CollectDcpFiles(const ContentDirectory& directory) {
  DcpFiles files;
  for (const TreeEntry& entry : directory.entries) {
    if (entry.type != FileType::kFile) continue;
    const std::string_view name = entry.name;
    if (name == ".metadata") files.record = &entry;
    if (name == ".metadata.tmp") files.temporary = &entry;
    if (name == "metadata.pkl") files.other_record = true;
    if (GlobMatches("__*.metadata", name)) {
      const auto rank = ParseNumber(name.substr(2, name.size() - 11));
      if (rank) files.rank_records[*rank] = &entry;
    }
    if (!HasSuffix(name, ".distcp")) continue;
    ++files.data_files;
    if (files.newest_data == nullptr ||
        entry.mtime_ns > files.newest_data->mtime_ns) {
      files.newest_data = &entry;
    }
    const size_t start = name.rfind("__");
    const size_t end = name.rfind('_');
    if (start != std::string_view::npos && end > start + 2) {
      const auto rank = ParseNumber(name.substr(start + 2, end - start - 2));
      if (rank) files.rank_max = std::max(files.rank_max, *rank);
    }
  }
  return files;
}

Verdicts CheckDcpRecord(CheckContext& context, const std::string& directory,
                        const TreeEntry& record) {
  const std::string path = JoinPath(directory, record.name);
  auto source = OpenFile(context, path);
  if (!source.ok()) return AsProblem(source.status(), path, record.mtime_ns);
  const auto metadata = ReadDcpMetadata(**source);
  if (!metadata.ok()) {
    return ContentProblem(metadata.status(), path, record.mtime_ns);
  }
  std::unordered_set<std::string_view> data_files;
  for (const DcpExtent& extent : metadata->extents) {
    const std::string data_path = JoinPath(directory, extent.relative_path);
    const ContentFile* data = context.content.Find(data_path);
    if (data == nullptr) {
      return Broken(data_path,
                    fmt::format("is missing; {} says that it holds data",
                                EscapeName(path)));
    }
    if (extent.offset > data->size_bytes ||
        extent.length > data->size_bytes - extent.offset) {
      return Broken(
          data_path,
          fmt::format("is cut: it has {} bytes, {} says that it holds {} at "
                      "offset {}",
                      data->size_bytes, EscapeName(path), extent.length,
                      extent.offset),
          data->mtime_ns);
    }
    data_files.insert(extent.relative_path);
  }
  context.files_checked += 1 + data_files.size();
  return std::nullopt;
}

bool IsRewritten(const TreeEntry& data, const TreeEntry& record,
                 absl::Time now) {
  const absl::Time changed = absl::FromUnixNanos(data.mtime_ns);
  return changed - absl::FromUnixNanos(record.mtime_ns) > kRewriteSlack &&
         now - changed < kRewriteSlack;
}

Verdicts CheckDcpDirectory(CheckContext& context,
                           const ContentDirectory& directory) {
  const DcpFiles files = CollectDcpFiles(directory);
  const std::string where = EscapeName(JoinPath(directory.path, ".metadata"));
  if (files.temporary != nullptr &&
      (files.record == nullptr ||
       files.temporary->mtime_ns > files.record->mtime_ns)) {
    return Problem{
        ProblemKind::kInProgress,
        fmt::format("{}.tmp is there: the save has not finished", where)};
  }
  if (files.record != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(
        auto problem, CheckDcpRecord(context, directory.path, *files.record));
    if (problem) return problem;
    if (files.newest_data != nullptr &&
        IsRewritten(*files.newest_data, *files.record, context.now)) {
      return Problem{ProblemKind::kInProgress,
                     fmt::format("{} is newer than {}: rewritten in place",
                                 EscapeName(JoinPath(directory.path,
                                                     files.newest_data->name)),
                                 where),
                     files.newest_data->mtime_ns};
    }
    return std::nullopt;
  }
  if (files.rank_records.empty()) {
    if (files.data_files == 0 || files.other_record) return std::nullopt;
    return Problem{
        context.marked ? ProblemKind::kLate : ProblemKind::kUncommitted,
        fmt::format("{} is not there beside {} .distcp files", where,
                    files.data_files)};
  }
  // Each rank commits by itself; only all of them together are a checkpoint.
  int64_t expected = 0;
  for (const auto& [rank, record] : files.rank_records) {
    if (rank != expected) break;
    CAIRN_ASSIGN_OR_RETURN(auto problem,
                           CheckDcpRecord(context, directory.path, *record));
    if (problem) return problem;
    ++expected;
  }
  if (expected <= files.rank_max ||
      expected < static_cast<int64_t>(files.rank_records.size())) {
    return Problem{ProblemKind::kLate,
                   fmt::format("{} is not there, other ranks have theirs",
                               EscapeName(JoinPath(
                                   directory.path,
                                   fmt::format("__{}.metadata", expected))))};
  }
  return std::nullopt;
}

Verdicts CheckDcpExtents(CheckContext& context) {
  for (const ContentDirectory& directory : context.content.directories()) {
    CAIRN_ASSIGN_OR_RETURN(auto problem, CheckDcpDirectory(context, directory));
    if (problem) return problem;
  }
  return std::nullopt;
}

// Whether `shard`, a safetensors file, has all of `tensors`.
Verdicts CheckShard(CheckContext& context, const ContentFile& shard,
                    const std::vector<std::string_view>& tensors) {
  auto source = OpenFile(context, shard.path);
  if (!source.ok()) {
    return AsProblem(source.status(), shard.path, shard.mtime_ns);
  }
  auto names = SafetensorsNames(**source);
  if (!names.ok()) {
    return ContentProblem(names.status(), shard.path, shard.mtime_ns);
  }
  std::sort(names->begin(), names->end());
  for (const std::string_view tensor : tensors) {
    if (!std::binary_search(names->begin(), names->end(), tensor)) {
      return Broken(shard.path,
                    fmt::format("has no tensor {}, which the index looks for "
                                "there",
                                EscapeName(tensor)),
                    shard.mtime_ns);
    }
  }
  return std::nullopt;
}

Verdicts CheckOneShardIndex(CheckContext& context, const std::string& directory,
                            const ContentFile& file) {
  auto source = OpenFile(context, file.path);
  if (!source.ok()) {
    return AsProblem(source.status(), file.path, file.mtime_ns);
  }
  const auto index = ReadShardIndex(**source);
  if (!index.ok())
    return ContentProblem(index.status(), file.path, file.mtime_ns);
  std::map<std::string_view, std::vector<std::string_view>> shards;
  for (const auto& [tensor, shard] : index->weight_map) {
    shards[shard].push_back(tensor);
  }
  for (const auto& [shard, tensors] : shards) {
    const std::string path = JoinPath(directory, shard);
    const ContentFile* found = context.content.Find(path);
    if (found == nullptr) {
      return Broken(
          path, fmt::format("is missing; {} names it", EscapeName(file.path)));
    }
    if (!HasSuffix(path, ".safetensors")) continue;
    CAIRN_ASSIGN_OR_RETURN(auto problem, CheckShard(context, *found, tensors));
    if (problem) return problem;
  }
  return std::nullopt;
}

Verdicts CheckShardIndexes(CheckContext& context) {
  for (const ContentDirectory& directory : context.content.directories()) {
    for (const TreeEntry& entry : directory.entries) {
      if (entry.type != FileType::kFile ||
          (!HasSuffix(entry.name, ".safetensors.index.json") &&
           !HasSuffix(entry.name, ".bin.index.json"))) {
        continue;
      }
      CAIRN_ASSIGN_OR_RETURN(
          auto problem,
          CheckOneShardIndex(context, directory.path,
                             {JoinPath(directory.path, entry.name),
                              entry.size_bytes, entry.mtime_ns}));
      if (problem) return problem;
    }
  }
  return std::nullopt;
}

bool HasKnownFormat(std::string_view path) {
  if (HasSuffix(path, ".index.json")) return false;  // kShardIndex reads it.
  for (const std::string_view suffix :
       {".safetensors", ".pt", ".pth", ".ckpt", ".bin", ".npz", ".keras",
        ".json", ".pkl"}) {
    if (HasSuffix(path, suffix)) return true;
  }
  return false;
}

Verdicts CheckFileFormats(CheckContext& context) {
  for (const ContentFile& file : context.content.files()) {
    if (!HasKnownFormat(file.path)) continue;
    auto source = OpenFile(context, file.path);
    if (!source.ok()) {
      return AsProblem(source.status(), file.path, file.mtime_ns);
    }
    const std::string_view name =
        std::string_view(file.path).substr(file.path.rfind('/') + 1);
    const auto report = CheckFile(name, **source);
    if (!report.ok()) {
      return AsProblem(report.status(), file.path, file.mtime_ns);
    }
    if (!report->status.ok()) {
      return ContentProblem(report->status, file.path, file.mtime_ns);
    }
    if (report->format != "opaque") ++context.files_checked;
  }
  return std::nullopt;
}

}  // namespace

Problem Broken(std::string_view path, std::string_view why, int64_t mtime_ns) {
  return {ProblemKind::kBroken, fmt::format("{} {}", EscapeName(path), why),
          mtime_ns};
}

Verdicts AsProblem(const absl::Status& status, std::string_view path,
                   int64_t mtime_ns) {
  const auto problem = [&](ProblemKind kind, std::string_view why) {
    return Problem{kind, fmt::format("{}: {}", EscapeName(path), why),
                   mtime_ns};
  };
  switch (status.code()) {
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return problem(ProblemKind::kBroken, Message(status));
    case absl::StatusCode::kNotFound:
      return problem(ProblemKind::kInProgress,
                     "it was there a moment ago and is gone");
    case absl::StatusCode::kPermissionDenied:
      return problem(ProblemKind::kUnreadable, Message(status));
    default:
      return status;
  }
}

Verdicts ContentProblem(const absl::Status& status, std::string_view path,
                        int64_t mtime_ns) {
  if (!absl::IsResourceExhausted(status)) {
    return AsProblem(status, path, mtime_ns);
  }
  return Problem{ProblemKind::kUnreadable,
                 fmt::format("{}: {}", EscapeName(path), Message(status)),
                 mtime_ns};
}

nlohmann::json ParsePythonJson(std::string text) {
  // The words of the same length that stand for them here are white space and a
  // number.
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"')
        in_string = false;
      continue;
    }
    if (text[i] == '"') in_string = true;
    for (const std::string_view word : {"NaN", "Infinity"}) {
      if (text.compare(i, word.size(), word) != 0) continue;
      text.replace(i, word.size(), word.size(), ' ');
      text[i] = '0';
      i += word.size() - 1;
      break;
    }
  }
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

absl::StatusOr<std::string> ReadSmallFile(TreeView& tree, std::string_view path,
                                          uint64_t bytes_max) {
  CAIRN_ASSIGN_OR_RETURN(const auto source, tree.Open(path));
  if (source->SizeBytes() > bytes_max) {
    return absl::DataLossError(fmt::format(
        "it is longer than the {} bytes that such a file may have", bytes_max));
  }
  std::string text(source->SizeBytes(), '\0');
  CAIRN_RETURN_IF_ERROR(source->ReadAt(
      0, std::as_writable_bytes(std::span(text.data(), text.size()))));
  return text;
}

absl::StatusOr<std::string> ReadPointer(TreeView& tree, std::string_view path) {
  const auto text = ReadSmallFile(tree, path, kPointerBytesMax);
  if (absl::IsNotFound(text.status()) || absl::IsDataLoss(text.status()) ||
      absl::IsOutOfRange(text.status())) {
    return std::string();
  }
  if (!text.ok()) return text.status();
  const char kSpace[] = " \t\r\n";
  const size_t start = text->find_first_not_of(kSpace);
  if (start == std::string::npos) return std::string();
  std::string trimmed =
      text->substr(start, text->find_last_not_of(kSpace) + 1 - start);
  if (trimmed.find('\0') != std::string::npos) return std::string();
  return trimmed;
}

Verdicts RunCheck(Check check, CheckContext& context) {
  switch (check) {
    case Check::kDcpExtents:
      return CheckDcpExtents(context);
    case Check::kDeepSpeedShards:
      return CheckDeepSpeedShards(context);
    case Check::kShardIndex:
      return CheckShardIndexes(context);
    case Check::kNumberedShards:
      return CheckNumberedShards(context);
    case Check::kRankFiles:
      return CheckRankFiles(context);
    case Check::kFileFormats:
      return CheckFileFormats(context);
    case Check::kTrainerState:
      return CheckTrainerState(context);
    case Check::kInnerLatest:
      return CheckInnerLatest(context);
    case Check::kWeights:
      return CheckWeights(context);
    case Check::kMegatronBackend:
      return CheckMegatronBackend(context);
    case Check::kMegatronRanks:
      return CheckMegatronRanks(context);
    case Check::kOrbaxCommit:
      return CheckOrbaxCommit(context);
    case Check::kJsonMarkers:
      return CheckJsonMarkers(context);
    case Check::kTableIndex:
      return CheckTableIndex(context);
    case Check::kLightningNumbers:
      return TakeLightningNumbers(context);
  }
  return std::nullopt;
}

}  // namespace cairn
