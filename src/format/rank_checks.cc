// The sets of files that the ranks of a job write together: is one missing? The
// names say which rank wrote a file, so a set with a hole is not whole; how
// many ranks there are is in the content (DeepSpeed) or nowhere, and then a
// pointer file that the framework writes afterwards has to vouch for it.

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/escape.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "format/content_checks.h"
#include "format/name_pattern.h"
#include "format/structure.h"

namespace cairn {
namespace {

using Point = std::vector<int64_t>;

// The first point of the box 0..size-1 in each dimension that is not in `seen`.
// Takes steps for each point seen, however large the box is.
std::optional<Point> FirstMissing(const std::set<Point>& seen,
                                  const Point& sizes) {
  Point next(sizes.size(), 0);
  for (const Point& point : seen) {
    if (point != next) return next;
    size_t digit = sizes.size();
    while (digit > 0 && ++next[digit - 1] == sizes[digit - 1]) {
      next[--digit] = 0;
    }
    if (digit == 0) return std::nullopt;  // That was the last one of the box.
  }
  return next;
}

// The tag that a DeepSpeed `latest` names is this one, or a later one.
bool IsNotAfter(std::string_view tag, std::string_view latest) {
  if (latest == tag) return true;
  const auto split = [](std::string_view text) {
    const size_t end = text.find_last_not_of("0123456789");
    return end == std::string_view::npos ? size_t{0} : end + 1;
  };
  const size_t at = split(tag);
  if (at != split(latest) || tag.substr(0, at) != latest.substr(0, at)) {
    return false;
  }
  const auto ours = ParseNumber(tag.substr(at));
  const auto newest = ParseNumber(latest.substr(at));
  return ours && newest && *ours <= *newest;
}

// --- DeepSpeed ---

// "mp_rank_" and so on, each with the ranks that a job has of it.
struct ShardFamily {
  std::vector<std::string> labels;
  std::set<Point> seen;
};

struct ShardSet {
  std::map<std::string, ShardFamily> families;  // By name with '#' for ranks.
  std::map<std::string, int64_t> sizes;         // Largest rank + 1 of a label.
  bool optimizer = false;
  std::string model_states;  // One that holds the sizes of the job.
};

// What stands before a rank in a name; of two that end alike, the longer first.
constexpr std::string_view kRankLabels[] = {"expp_rank_", "pp_rank_",
                                            "mp_rank_", "-model_"};

void AddShard(const std::string& name, ShardSet& shards) {
  constexpr std::string_view kDigits = "0123456789";
  ShardFamily found;
  Point point;
  std::string key;
  std::string_view rest = name;
  while (!rest.empty()) {
    const auto* const label = std::find_if(
        std::begin(kRankLabels), std::end(kRankLabels),
        [&](std::string_view one) { return rest.starts_with(one); });
    if (label == std::end(kRankLabels)) {
      key += rest.front();
      rest.remove_prefix(1);
      continue;
    }
    key += *label;
    rest.remove_prefix(label->size());
    const size_t end = std::min(rest.find_first_not_of(kDigits), rest.size());
    if (end == 0) continue;
    const auto rank = ParseNumber(rest.substr(0, end));
    if (!rank || *rank == INT64_MAX) return;
    found.labels.emplace_back(*label);
    point.push_back(*rank);
    key += '#';
    rest.remove_prefix(end);
  }
  if (point.empty()) return;
  for (size_t i = 0; i < point.size(); ++i) {
    int64_t& size = shards.sizes[found.labels[i]];
    size = std::max(size, point[i] + 1);
  }
  ShardFamily& family = shards.families[key];
  family.labels = std::move(found.labels);
  family.seen.insert(std::move(point));
  if (HasSuffix(name, "_optim_states.pt")) shards.optimizer = true;
  if (HasSuffix(name, "mp_rank_00_model_states.pt") &&
      name.find("expert") == std::string::npos &&
      (shards.model_states.empty() || name < shards.model_states)) {
    shards.model_states = name;
  }
}

std::string ShardName(const std::string& key, const ShardFamily& family,
                      const Point& point) {
  std::string name;
  size_t next = 0;
  for (const char c : key) {
    if (c != '#' || next == point.size()) {
      name += c;
      continue;
    }
    const bool padded =
        family.labels[next] == "mp_rank_" || family.labels[next] == "-model_";
    name += fmt::format("{:0{}}", point[next], padded ? 2 : 1);
    ++next;
  }
  return name;
}

// Reads the numbers of ranks from the content; false when they are not there.
absl::StatusOr<bool> TakeDeepSpeedSizes(CheckContext& context,
                                        const std::string& directory,
                                        ShardSet& shards) {
  if (shards.model_states.empty()) return false;
  auto source = context.tree.Open(JoinPath(
      context.content.base(), JoinPath(directory, shards.model_states)));
  if (absl::IsNotFound(source.status())) return false;
  if (!source.ok()) return source.status();
  const auto found = ReadTopLevelInts(
      **source, {"dp_world_size", "mp_world_size", "global_steps"});
  if (!found.ok()) return false;
  int known = 0;
  for (const auto& [key, value] : found->values) {
    if (key == "global_steps" && value >= 0 && directory.empty()) {
      context.step = value;
    }
    const char* label = key == "dp_world_size"   ? "pp_rank_"
                        : key == "mp_world_size" ? "mp_rank_"
                                                 : nullptr;
    if (label == nullptr || value <= 0) continue;
    ++known;
    // A label that no file has is one that this job does not shard by.
    const auto size = shards.sizes.find(label);
    if (size != shards.sizes.end()) {
      size->second = std::max(size->second, value);
    }
  }
  return known == 2;
}

// What `latest` beside a DeepSpeed checkpoint says of it. It is written after
// rank 0 has saved, and before the other ranks have to be done.
struct Voucher {
  bool vouches = false;
  std::string text;
};
absl::StatusOr<Voucher> ReadDeepSpeedLatest(CheckContext& context,
                                            const std::string& directory) {
  const std::string path = directory.empty()
                               ? JoinPath(context.run, context.name)
                               : JoinPath(context.content.base(), directory);
  const size_t slash = path.rfind('/');
  const std::string parent =
      slash == std::string::npos ? "" : path.substr(0, slash);
  CAIRN_ASSIGN_OR_RETURN(const std::string latest,
                         ReadPointer(context.tree, JoinPath(parent, "latest")));
  Voucher voucher;
  voucher.vouches = IsNotAfter(path.substr(slash + 1), latest);
  voucher.text = latest.empty()
                     ? std::string("there is no `latest` that names it")
                     : fmt::format("`latest` names {}", EscapeName(latest));
  return voucher;
}

Verdicts CheckDeepSpeedDirectory(CheckContext& context,
                                 const std::string& directory,
                                 ShardSet& shards) {
  CAIRN_ASSIGN_OR_RETURN(const bool sizes_known,
                         TakeDeepSpeedSizes(context, directory, shards));
  std::optional<Problem> problem;
  for (const auto& [key, family] : shards.families) {
    Point sizes;
    for (const std::string& label : family.labels) {
      sizes.push_back(shards.sizes[label]);
    }
    if (const auto missing = FirstMissing(family.seen, sizes)) {
      problem = Broken(JoinPath(directory, ShardName(key, family, *missing)),
                       "is missing; other ranks have written theirs");
      break;
    }
  }
  if (context.marked || (!problem && sizes_known && shards.optimizer)) {
    return problem;
  }
  // Names alone do not show whether the last ranks' files, or the optimizer's,
  // are still to come.
  CAIRN_ASSIGN_OR_RETURN(const Voucher latest,
                         ReadDeepSpeedLatest(context, directory));
  if (latest.vouches) return problem;
  return Problem{ProblemKind::kUncommitted,
                 fmt::format("no commit record: {}, and {}",
                             problem ? problem->text
                                     : "the files do not say how many ranks "
                                       "there are",
                             latest.text)};
}

// --- Megatron ---

constexpr char kMegatronTracker[] = "latest_checkpointed_iteration.txt";

std::optional<Point> MegatronRanks(std::string_view directory) {
  constexpr std::string_view kPrefix = "mp_rank_";
  if (!directory.starts_with(kPrefix)) return std::nullopt;
  directory.remove_prefix(kPrefix.size());
  Point ranks;
  while (true) {
    const size_t end = directory.find('_');
    const auto rank = ParseNumber(directory.substr(0, end));
    if (!rank || *rank >= INT64_MAX) return std::nullopt;
    ranks.push_back(*rank);
    if (end == std::string_view::npos) return ranks;
    directory.remove_prefix(end + 1);
  }
}

std::string MegatronDirectory(const Point& ranks) {
  std::string name = fmt::format("mp_rank_{:02}", ranks[0]);
  for (size_t i = 1; i < ranks.size(); ++i) {
    name += fmt::format("_{:03}", ranks[i]);
  }
  return name;
}

// `problem`, weighed: without the tracker's word it is a save that has not
// ended.
Verdicts WeighMegatron(CheckContext& context, std::optional<Problem> problem) {
  CAIRN_ASSIGN_OR_RETURN(
      const std::string tracker,
      ReadPointer(context.tree, JoinPath(context.run, kMegatronTracker)));
  const auto newest = ParseNumber(tracker);
  if (tracker == context.name || tracker == "release" ||
      (newest && context.step && *context.step <= *newest)) {
    return problem;
  }
  const std::string says =
      tracker.empty()
          ? fmt::format("there is no {}", kMegatronTracker)
          : fmt::format("{} says {}", kMegatronTracker, EscapeName(tracker));
  return Problem{
      ProblemKind::kUncommitted,
      problem ? fmt::format("no commit record: {}, and {}", problem->text, says)
              : fmt::format("no commit record: {}", says)};
}

// --- Numbered sets ---

struct NumberedName {
  std::string family;
  int64_t index = 0;
  int64_t count = 0;
};

// "model-00001-of-00003.safetensors" and the like; the last "-of-" counts.
std::optional<NumberedName> ParseNumbered(std::string_view name) {
  constexpr std::string_view kOf = "-of-";
  constexpr std::string_view kDigits = "0123456789";
  const size_t of = name.rfind(kOf);
  if (of == std::string_view::npos) return std::nullopt;
  const std::string_view before = name.substr(0, of);
  const std::string_view after = name.substr(of + kOf.size());
  const size_t start = before.find_last_not_of(kDigits);
  const size_t index_at = start == std::string_view::npos ? 0 : start + 1;
  const size_t end = std::min(after.find_first_not_of(kDigits), after.size());
  const auto index = ParseNumber(before.substr(index_at));
  const auto count = ParseNumber(after.substr(0, end));
  if (!index || !count) return std::nullopt;
  std::string family(name.substr(0, index_at));
  family += '#';
  family += name.substr(of);
  return NumberedName{std::move(family), *index, *count};
}

bool IsWeights(std::string_view name) {
  return name.find(".data-") != std::string_view::npos ||
         std::any_of(
             WeightSuffixes().begin(), WeightSuffixes().end(),
             [&](const auto& suffix) { return HasSuffix(name, suffix); });
}

std::optional<Problem> CheckNumberedFamily(const std::string& directory,
                                           const std::string& family,
                                           const std::set<int64_t>& indexes,
                                           int64_t count) {
  // From 0 (TensorFlow, ranks) or from 1 (Hugging Face).
  const int64_t base = *indexes.begin() == 0 ? 0 : 1;
  int64_t expected = base;
  for (const int64_t index : indexes) {
    if (index != expected) break;
    ++expected;
  }
  if (expected - base >= count) return std::nullopt;
  return Broken(JoinPath(directory, family),
                fmt::format("number {} of {} is missing", expected, count));
}

// --- One small file for each rank ---

constexpr std::pair<std::string_view, std::string_view> kRankFiles[] = {
    {"random_states_", ".pkl"}, {"rng_state_", ".pth"}};

// Ranks that wrote data files of a DCP checkpoint in it.
int64_t DcpRanks(const CheckpointContent& content) {
  int64_t ranks = 0;
  for (const ContentFile& file : content.files()) {
    if (!HasSuffix(file.path, ".distcp")) continue;
    const size_t start = file.path.rfind("__");
    const size_t end = file.path.rfind('_');
    if (start == std::string::npos || end <= start + 2) continue;
    const auto rank = ParseNumber(
        std::string_view(file.path).substr(start + 2, end - start - 2));
    if (rank && *rank < INT64_MAX) ranks = std::max(ranks, *rank + 1);
  }
  return ranks;
}

}  // namespace

Verdicts CheckDeepSpeedShards(CheckContext& context) {
  for (const ContentDirectory& directory : context.content.directories()) {
    ShardSet shards;
    for (const TreeEntry& entry : directory.entries) {
      if (entry.type == FileType::kFile &&
          (HasSuffix(entry.name, "_optim_states.pt") ||
           HasSuffix(entry.name, "model_states.pt"))) {
        AddShard(entry.name, shards);
      }
    }
    if (shards.families.empty()) continue;
    CAIRN_ASSIGN_OR_RETURN(
        auto problem, CheckDeepSpeedDirectory(context, directory.path, shards));
    if (problem) return problem;
  }
  return std::nullopt;
}

Verdicts CheckMegatronRanks(CheckContext& context) {
  std::set<Point> seen;
  std::vector<const ContentDirectory*> directories;
  Point sizes;
  bool distributed_optimizer = false;
  for (const ContentDirectory& directory : context.content.directories()) {
    const auto ranks = MegatronRanks(directory.path);
    if (!ranks) continue;
    if (sizes.empty()) sizes.resize(ranks->size(), 0);
    if (ranks->size() != sizes.size()) {
      return Broken(directory.path,
                    "has another number of ranks in its name "
                    "than the directories beside it");
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      sizes[i] = std::max(sizes[i], (*ranks)[i] + 1);
    }
    seen.insert(*ranks);
    directories.push_back(&directory);
    distributed_optimizer =
        distributed_optimizer ||
        context.content.Find(directory.path + "/distrib_optim.pt") != nullptr;
  }
  if (seen.empty()) return std::nullopt;
  if (const auto missing = FirstMissing(seen, sizes)) {
    return WeighMegatron(context,
                         Broken(MegatronDirectory(*missing), "is missing"));
  }
  for (const ContentDirectory* directory : directories) {
    const auto lacks = [&](std::string_view name) {
      return context.content.Find(JoinPath(directory->path, name)) == nullptr;
    };
    if (lacks("model_optim_rng.pt") && lacks("model_rng.pt")) {
      return WeighMegatron(
          context,
          Broken(directory->path + "/model_optim_rng.pt", "is missing"));
    }
    if (distributed_optimizer && lacks("distrib_optim.pt")) {
      return WeighMegatron(context,
                           Broken(directory->path + "/distrib_optim.pt",
                                  "is missing; other ranks have theirs"));
    }
  }
  return WeighMegatron(context, std::nullopt);
}

Verdicts CheckRankFiles(CheckContext& context) {
  const auto& entries = context.content.directories().front().entries;
  for (const auto& [prefix, suffix] : kRankFiles) {
    std::set<int64_t> ranks;
    for (const TreeEntry& entry : entries) {
      if (entry.type != FileType::kFile || !entry.name.starts_with(prefix) ||
          !HasSuffix(entry.name, suffix)) {
        continue;
      }
      const auto rank = ParseNumber(
          std::string_view(entry.name)
              .substr(prefix.size(),
                      entry.name.size() - prefix.size() - suffix.size()));
      if (rank && *rank < INT64_MAX) ranks.insert(*rank);
    }
    if (ranks.empty()) continue;
    int64_t expected = 0;
    while (ranks.contains(expected)) ++expected;
    const int64_t count =
        std::max(DcpRanks(context.content), *ranks.rbegin() + 1);
    if (expected >= count) continue;
    Problem problem = Broken(fmt::format("{}{}{}", prefix, expected, suffix),
                             "is missing; other ranks have written theirs");
    if (context.marked) problem.kind = ProblemKind::kLate;
    return problem;
  }
  return std::nullopt;
}

Verdicts CheckNumberedShards(CheckContext& context) {
  for (const ContentDirectory& directory : context.content.directories()) {
    std::map<std::string, std::pair<int64_t, std::set<int64_t>>> families;
    bool has_index = false;  // It says better which shards are live.
    for (const TreeEntry& entry : directory.entries) {
      if (entry.type != FileType::kFile) continue;
      has_index = has_index || HasSuffix(entry.name, ".index.json");
      if (!IsWeights(entry.name)) continue;
      if (const auto parsed = ParseNumbered(entry.name)) {
        auto& [count, indexes] = families[parsed->family];
        count = parsed->count;
        indexes.insert(parsed->index);
      }
    }
    if (has_index) continue;
    for (const auto& [family, members] : families) {
      auto problem = CheckNumberedFamily(directory.path, family, members.second,
                                         members.first);
      if (problem) return problem;
    }
  }
  return std::nullopt;
}

}  // namespace cairn
