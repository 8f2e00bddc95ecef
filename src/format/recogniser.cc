#include "format/recogniser.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "format/checkpoint_content.h"
#include "format/content_checks.h"
#include "format/framework_rules.h"
#include "format/judge.h"
#include "format/name_pattern.h"

namespace cairn {
namespace {

absl::StatusOr<std::vector<NamePattern>> CompileAll(
    const std::vector<std::string>& patterns) {
  std::vector<NamePattern> compiled;
  for (const std::string& pattern : patterns) {
    CAIRN_ASSIGN_OR_RETURN(auto one, NamePattern::Compile(pattern));
    compiled.push_back(std::move(one));
  }
  return compiled;
}

std::optional<NameMatch> FirstMatch(const std::vector<NamePattern>& patterns,
                                    std::string_view name) {
  for (const NamePattern& pattern : patterns) {
    if (auto match = pattern.Match(name)) return match;
  }
  return std::nullopt;
}

bool MatchesAnyGlob(const std::vector<std::string>& globs,
                    std::string_view name) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const auto& glob) { return GlobMatches(glob, name); });
}

bool HasDigit(std::string_view name) {
  return name.find_first_of("0123456789") != std::string_view::npos;
}

bool IsDigits(std::string_view name) {
  return name.find_first_not_of("0123456789") == std::string_view::npos;
}

bool HasWeightSuffix(std::string_view name) {
  return std::any_of(
      WeightSuffixes().begin(), WeightSuffixes().end(),
      [&](const auto& suffix) { return HasSuffix(name, suffix); });
}

// One directory's entries, which are sorted by name.
class Listing {
 public:
  explicit Listing(const std::vector<TreeEntry>& entries) : entries_(entries) {}

  const std::vector<TreeEntry>& entries() const { return entries_; }

  const TreeEntry* Find(std::string_view name) const {
    const auto found =
        std::lower_bound(entries_.begin(), entries_.end(), name,
                         [](const TreeEntry& entry, std::string_view wanted) {
                           return std::string_view(entry.name) < wanted;
                         });
    return found != entries_.end() && found->name == name ? &*found : nullptr;
  }

  // See framework_rules.h on globs.
  bool Has(std::string_view glob) const {
    const bool directory = glob.ends_with('/');
    if (directory) glob.remove_suffix(1);
    const FileType type = directory ? FileType::kDirectory : FileType::kFile;
    if (!IsGlob(glob)) {
      const TreeEntry* entry = Find(glob);
      return entry != nullptr && entry->type == type;
    }
    return std::any_of(
        entries_.begin(), entries_.end(), [&](const TreeEntry& entry) {
          return entry.type == type && GlobMatches(glob, entry.name);
        });
  }

  bool HasAny(const std::vector<std::string>& globs) const {
    return std::any_of(globs.begin(), globs.end(),
                       [&](const auto& glob) { return Has(glob); });
  }

 private:
  const std::vector<TreeEntry>& entries_;
};

struct CompiledDirectoryRule {
  DirectoryRule rule;
  std::vector<NamePattern> names;
};

struct CompiledFileRule {
  FileRule rule;
  std::vector<std::optional<NamePattern>>
      patterns;  // One for each of the rule's.
  std::vector<NamePattern> needs;
};

struct CompiledStagingRule {
  StagingRule rule;
  NamePattern pattern;
};

absl::Status CheckUserRule(const UserRule& rule,
                           const RecogniserOptions& options,
                           const std::set<std::string>& taken) {
  const auto refuse = [&](std::string_view why) {
    return absl::InvalidArgumentError(fmt::format(
        "[[framework]] '{}' cannot be used: {}", EscapeName(rule.name), why));
  };
  if (rule.name.empty()) return refuse("it has no name");
  if (taken.contains(rule.name)) {
    return refuse("there is another rule of this name");
  }
  if (rule.complete.empty() && rule.in_progress.empty() && !rule.quiet &&
      !options.generic_quiet) {
    return refuse(
        "nothing says when a checkpoint is complete: give it `complete`, "
        "`in_progress` or `quiet`");
  }
  for (const std::string& marker : rule.complete) {
    if (marker.empty() || marker.front() == '/') {
      return refuse("a name in `complete` is empty or absolute");
    }
  }
  if (rule.quiet && *rule.quiet < absl::ZeroDuration()) {
    return refuse("`quiet` is negative");
  }
  return absl::OkStatus();
}

DirectoryRule FromUser(const UserRule& user) {
  DirectoryRule rule;
  rule.name = user.name;
  rule.summary = fmt::format("your own rule: directories '{}'",
                             EscapeName(user.directory));
  rule.names = {user.directory};
  Completion& completion = rule.completion;
  completion.proof = !user.complete.empty()      ? Proof::kMarker
                     : user.quiet                ? Proof::kQuiet
                     : !user.in_progress.empty() ? Proof::kStructure
                                                 : Proof::kQuiet;
  completion.complete = user.complete;
  completion.in_progress = user.in_progress;
  completion.quiet = user.quiet;
  completion.checks = StructuralChecks();
  if (!user.pointer.empty()) {
    completion.pointers = {{user.pointer, user.pointer_content}};
  }
  return rule;
}

std::pair<std::string, std::string> SplitPath(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {"", std::string(path)};
  return {std::string(path.substr(0, slash)),
          std::string(path.substr(slash + 1))};
}

// Files of one directory that are one checkpoint.
struct FileGroup {
  const CompiledFileRule* rule = nullptr;
  NameMatch match;
  std::vector<TreeEntry> files;
};

}  // namespace

struct Recogniser::Impl {
  RecogniserOptions options;
  std::vector<CompiledDirectoryRule> user_rules;
  std::vector<CompiledDirectoryRule> directory_rules;
  CompiledDirectoryRule generic;
  std::vector<CompiledFileRule> file_rules;
  std::vector<CompiledStagingRule> staging_rules;
  std::vector<NamePattern> step_names;
  std::vector<NamePattern> numbered_files;
  std::vector<NamePattern> rank_names;

  absl::Status CompileUserRules();
  absl::Status CompileBuiltIn();

  const CompiledStagingRule* FindStaging(std::string_view name,
                                         NameMatch* match) const;
  bool LooksLikeCheckpointName(std::string_view name) const;
  bool HasCheckpointChildren(const Listing& listing) const;
  NameMatch NumbersOfDirectory(std::string_view name) const;
  NameMatch NumbersOfFile(std::string_view key) const;
  std::optional<int64_t> StepOfFile(std::string_view name) const;

  absl::StatusOr<bool> Matches(const CompiledDirectoryRule& compiled,
                               const Judge& judge, std::string_view directory,
                               const Listing& listing, NameMatch* match) const;
  bool MatchesGeneric(std::string_view name, const Listing& listing,
                      NameMatch* match) const;
  absl::StatusOr<std::optional<Finding>> ExamineDirectory(
      const Judge& judge, std::string_view directory,
      const Listing& listing) const;
  absl::StatusOr<std::optional<Finding>> ExamineStaging(
      const Judge& judge, std::string_view directory,
      const Listing& listing) const;

  using Ignored = std::vector<std::pair<std::string, std::string>>;
  std::map<std::string, FileGroup> GroupFiles(const Listing& listing,
                                              Ignored& ignored) const;
  const char* WhyNoCheckpoint(const TreeEntry& file) const;
  absl::StatusOr<std::optional<Finding>> ExamineGroup(
      const Judge& judge, std::string_view directory, const std::string& key,
      FileGroup& group, Ignored& ignored) const;
  bool IsPointer(std::string_view name) const;
};

absl::Status Recogniser::Impl::CompileUserRules() {
  std::set<std::string> taken = {GenericDirectoryRule().name};
  for (const auto& rule : DirectoryRules()) taken.insert(rule.name);
  for (const auto& rule : FileRules()) taken.insert(rule.name);
  for (const UserRule& user : options.user_rules) {
    CAIRN_RETURN_IF_ERROR(CheckUserRule(user, options, taken));
    taken.insert(user.name);
    auto names = CompileAll({user.directory});
    if (!names.ok()) {
      return Annotate(names.status(),
                      fmt::format("[[framework]] '{}'", EscapeName(user.name)));
    }
    user_rules.push_back({FromUser(user), *std::move(names)});
  }
  return absl::OkStatus();
}

absl::Status Recogniser::Impl::CompileBuiltIn() {
  for (const DirectoryRule& rule : DirectoryRules()) {
    CAIRN_ASSIGN_OR_RETURN(auto names, CompileAll(rule.names));
    directory_rules.push_back({rule, std::move(names)});
  }
  generic.rule = GenericDirectoryRule();
  for (const FileRule& rule : FileRules()) {
    CompiledFileRule compiled = {rule, {}, {}};
    for (const FilePattern& pattern : rule.patterns) {
      if (pattern.pattern.empty()) {
        compiled.patterns.push_back(std::nullopt);
        continue;
      }
      CAIRN_ASSIGN_OR_RETURN(auto one, NamePattern::Compile(pattern.pattern));
      compiled.patterns.push_back(std::move(one));
    }
    CAIRN_ASSIGN_OR_RETURN(compiled.needs, CompileAll(rule.needs));
    file_rules.push_back(std::move(compiled));
  }
  for (const StagingRule& rule : StagingRules()) {
    CAIRN_ASSIGN_OR_RETURN(auto pattern, NamePattern::Compile(rule.pattern));
    staging_rules.push_back({rule, std::move(pattern)});
  }
  CAIRN_ASSIGN_OR_RETURN(step_names, CompileAll(StepNamePatterns()));
  CAIRN_ASSIGN_OR_RETURN(numbered_files, CompileAll(NumberedFilePatterns()));
  CAIRN_ASSIGN_OR_RETURN(rank_names, CompileAll(RankNamePatterns()));
  return absl::OkStatus();
}

const CompiledStagingRule* Recogniser::Impl::FindStaging(
    std::string_view name, NameMatch* match) const {
  for (const CompiledStagingRule& staging : staging_rules) {
    if (auto found = staging.pattern.Match(name)) {
      if (match != nullptr) *match = *std::move(found);
      return &staging;
    }
  }
  return nullptr;
}

bool Recogniser::Impl::LooksLikeCheckpointName(std::string_view name) const {
  return HasDigit(name) && FirstMatch(step_names, name).has_value();
}

bool Recogniser::Impl::HasCheckpointChildren(const Listing& listing) const {
  return std::any_of(listing.entries().begin(), listing.entries().end(),
                     [&](const TreeEntry& entry) {
                       return entry.type == FileType::kDirectory &&
                              LooksLikeCheckpointName(entry.name);
                     });
}

NameMatch Recogniser::Impl::NumbersOfDirectory(std::string_view name) const {
  if (!HasDigit(name)) return {};
  return FirstMatch(step_names, name).value_or(NameMatch{});
}

NameMatch Recogniser::Impl::NumbersOfFile(std::string_view key) const {
  if (!HasDigit(key)) return {};
  for (const std::string_view suffix : {".safetensors", ".index.json", ".keras",
                                        ".ckpt", ".pth", ".bin", ".pt"}) {
    if (HasSuffix(key, suffix)) {
      key.remove_suffix(suffix.size());
      break;
    }
  }
  if (FirstMatch(rank_names, key)) return {};
  if (auto match = FirstMatch(step_names, key)) return *std::move(match);
  return FirstMatch(numbered_files, key).value_or(NameMatch{});
}

std::optional<int64_t> Recogniser::Impl::StepOfFile(
    std::string_view name) const {
  for (const CompiledFileRule& rule : file_rules) {
    for (const auto& pattern : rule.patterns) {
      if (!pattern) continue;
      const auto match = pattern->Match(name);
      if (match && match->step) return match->step;
    }
  }
  return NumbersOfFile(name).step;
}

// --- Directories ---

absl::StatusOr<bool> Recogniser::Impl::Matches(
    const CompiledDirectoryRule& compiled, const Judge& judge,
    std::string_view directory, const Listing& listing,
    NameMatch* match) const {
  const DirectoryRule& rule = compiled.rule;
  const std::string name = SplitPath(directory).second;
  if (listing.HasAny(rule.unless)) return false;
  if (auto named = FirstMatch(compiled.names, name)) {
    if (rule.hints.empty() ? rule.sure.empty() : listing.HasAny(rule.hints)) {
      *match = *std::move(named);
      return true;
    }
    *match = *std::move(named);  // For the numbers, if the content is sure.
  } else {
    *match = NumbersOfDirectory(name);
  }
  if (!listing.HasAny(rule.sure)) return false;
  if (rule.sure_needs_backend) {
    CAIRN_ASSIGN_OR_RETURN(
        const bool sharded,
        judge.NamesShardedBackend(JoinPath(directory, rule.sure.front())));
    if (!sharded) return false;
  }
  // A run may hold such files beside its checkpoints: its last model, say.
  return !HasCheckpointChildren(listing);
}

bool Recogniser::Impl::MatchesGeneric(std::string_view name,
                                      const Listing& listing,
                                      NameMatch* match) const {
  if (!HasDigit(name)) return false;
  auto named = FirstMatch(step_names, name);
  if (!named) return false;
  *match = *std::move(named);
  if (listing.HasAny(generic.rule.completion.at_once)) return true;
  if (HasCheckpointChildren(listing)) return false;
  bool files = false;
  bool weights = false;
  bool other_steps = false;
  const bool digits = IsDigits(name);
  for (const TreeEntry& entry : listing.entries()) {
    if (entry.type != FileType::kFile || entry.name.front() == '.') continue;
    files = true;
    if (!HasWeightSuffix(entry.name)) continue;
    weights = true;
    if (!digits) continue;
    const auto step = StepOfFile(entry.name);
    other_steps = other_steps || (step && step != match->step);
  }
  // Digits alone name many other things: years, classes of a data set, trials
  // with checkpoints of their own.
  if (digits) return weights && !other_steps;
  return files || listing.entries().empty();
}

absl::StatusOr<std::optional<Finding>> Recogniser::Impl::ExamineStaging(
    const Judge& judge, std::string_view directory,
    const Listing& listing) const {
  const auto [run, name] = SplitPath(directory);
  NameMatch match;
  const CompiledStagingRule* staging = FindStaging(name, &match);
  if (staging == nullptr) return std::nullopt;
  bool taken = staging->rule.sure || LooksLikeCheckpointName(match.base);
  std::string framework = staging->rule.framework;
  for (const CompiledDirectoryRule& rule : directory_rules) {
    if (taken) break;
    NameMatch unused;
    CAIRN_ASSIGN_OR_RETURN(taken,
                           Matches(rule, judge, directory, listing, &unused));
    if (taken && framework == "generic") framework = rule.rule.name;
  }
  if (!taken) return std::nullopt;
  const NameMatch numbers = NumbersOfDirectory(match.base);
  Finding finding;
  finding.run = run;
  finding.name = name;
  finding.framework = framework;
  finding.step = numbers.step;
  finding.epoch = numbers.epoch;
  judge.Staging(listing.entries(), finding);
  return finding;
}

absl::StatusOr<std::optional<Finding>> Recogniser::Impl::ExamineDirectory(
    const Judge& judge, std::string_view directory,
    const Listing& listing) const {
  Finding finding;
  std::tie(finding.run, finding.name) = SplitPath(directory);
  NameMatch match;
  const CompiledDirectoryRule* found = nullptr;
  for (const CompiledDirectoryRule& rule : user_rules) {
    CAIRN_ASSIGN_OR_RETURN(const bool matches,
                           Matches(rule, judge, directory, listing, &match));
    if (!matches) continue;
    found = &rule;
    break;
  }
  if (found == nullptr) {
    CAIRN_ASSIGN_OR_RETURN(auto staging,
                           ExamineStaging(judge, directory, listing));
    if (staging) return staging;
  }
  for (const CompiledDirectoryRule& rule : directory_rules) {
    if (found != nullptr) break;
    CAIRN_ASSIGN_OR_RETURN(const bool matches,
                           Matches(rule, judge, directory, listing, &match));
    if (matches) found = &rule;
  }
  if (found == nullptr && MatchesGeneric(finding.name, listing, &match)) {
    found = &generic;
  }
  if (found == nullptr) return std::nullopt;
  finding.layout = Layout::kDirectory;
  finding.framework = found->rule.name;
  finding.step = match.step;
  finding.epoch = match.epoch;
  CAIRN_ASSIGN_OR_RETURN(
      const CheckpointContent content,
      CheckpointContent::Walk(judge.tree(), std::string(directory),
                              listing.entries()));
  CAIRN_RETURN_IF_ERROR(judge.Decide(found->rule.completion, content, finding));
  return finding;
}

// --- Files ---

bool Recogniser::Impl::IsPointer(std::string_view name) const {
  const auto has = [&](const Completion& completion) {
    return std::any_of(
        completion.pointers.begin(), completion.pointers.end(),
        [&](const PointerTemplate& pointer) { return pointer.path == name; });
  };
  const auto rule_has = [&](const auto& rule) {
    return has(rule.rule.completion);
  };
  return name == "latest_universal" ||
         std::any_of(user_rules.begin(), user_rules.end(), rule_has) ||
         std::any_of(directory_rules.begin(), directory_rules.end(),
                     rule_has) ||
         std::any_of(file_rules.begin(), file_rules.end(), rule_has);
}

const char* Recogniser::Impl::WhyNoCheckpoint(const TreeEntry& file) const {
  const std::string_view name = file.name;
  if (FindStaging(name, nullptr) != nullptr || HasSuffix(name, "~")) {
    return "a temporary name: a save that runs, or stale staging";
  }
  if (name.front() == '.') return "hidden";
  if (MatchesAnyGlob(CompanionFiles(), name)) {
    return "goes with a checkpoint, is none";
  }
  return nullptr;
}

std::map<std::string, FileGroup> Recogniser::Impl::GroupFiles(
    const Listing& listing, Ignored& ignored) const {
  std::map<std::string, FileGroup> groups;
  for (const TreeEntry& entry : listing.entries()) {
    if (entry.type != FileType::kFile || IsPointer(entry.name)) continue;
    if (const char* why = WhyNoCheckpoint(entry)) {
      ignored.emplace_back(entry.name, why);
      continue;
    }
    bool taken = false;
    for (const CompiledFileRule& compiled : file_rules) {
      for (size_t i = 0; i < compiled.patterns.size() && !taken; ++i) {
        const FilePattern& pattern = compiled.rule.patterns[i];
        if (!MatchesAnyGlob(pattern.globs, entry.name)) continue;
        std::optional<NameMatch> match = NameMatch{};
        if (compiled.patterns[i]) {
          match = compiled.patterns[i]->Match(entry.name);
        }
        if (!match) continue;
        std::string key = Expand(
            pattern.key, {{"{file}", entry.name}, {"{base}", match->base}});
        FileGroup& group = groups[std::move(key)];
        if (group.rule == nullptr) {
          group.rule = &compiled;
          group.match = *std::move(match);
        }
        group.files.push_back(entry);
        taken = true;
      }
      if (taken) break;
    }
    if (taken) continue;
    ignored.emplace_back(entry.name,
                         LooksLikeCheckpointName(entry.name)
                             ? "named like a checkpoint's directory, but a file"
                             : "no file of a checkpoint");
  }
  return groups;
}

absl::StatusOr<std::optional<Finding>> Recogniser::Impl::ExamineGroup(
    const Judge& judge, std::string_view directory, const std::string& key,
    FileGroup& group, Ignored& ignored) const {
  const CompiledFileRule& compiled = *group.rule;
  const auto needed = [&](const TreeEntry& file) {
    return FirstMatch(compiled.needs, file.name).has_value();
  };
  const char* reject = nullptr;
  if (!compiled.needs.empty() &&
      std::none_of(group.files.begin(), group.files.end(), needed)) {
    reject = "no file of a checkpoint";
  }
  if (reject == nullptr && compiled.rule.needs_torch_content) {
    CAIRN_ASSIGN_OR_RETURN(
        const bool torch,
        judge.BeginsAsTorch(JoinPath(directory, group.files.front().name)));
    if (!torch) reject = "does not begin as a file of torch.save does";
  }
  if (reject != nullptr) {
    for (const TreeEntry& file : group.files) {
      ignored.emplace_back(file.name, reject);
    }
    return std::nullopt;
  }
  Finding finding;
  finding.run = std::string(directory);
  finding.name = key;
  finding.layout = Layout::kFiles;
  finding.framework = compiled.rule.name;
  finding.step = group.match.step;
  finding.epoch = group.match.epoch;
  if (!finding.step && !finding.epoch) {
    const NameMatch numbers = NumbersOfFile(key);
    finding.step = numbers.step;
    finding.epoch = numbers.epoch;
  }
  for (const TreeEntry& file : group.files) finding.files.push_back(file.name);
  const auto content = CheckpointContent::OfFiles(std::string(directory),
                                                  std::move(group.files));
  CAIRN_RETURN_IF_ERROR(
      judge.Decide(compiled.rule.completion, content, finding));
  return finding;
}

// --- The interface ---

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kComplete:
      return "complete";
    case Verdict::kWriting:
      return "writing";
    case Verdict::kDamaged:
      return "damaged";
    case Verdict::kUnknown:
      return "unknown";
  }
  return "unknown";
}

Recogniser::Recogniser(std::shared_ptr<const Impl> impl)
    : impl_(std::move(impl)) {}

absl::StatusOr<Recogniser> Recogniser::Create(RecogniserOptions options) {
  auto impl = std::make_shared<Impl>();
  impl->options = std::move(options);
  CAIRN_RETURN_IF_ERROR(impl->CompileUserRules());
  CAIRN_RETURN_IF_ERROR(impl->CompileBuiltIn());
  return Recogniser(std::move(impl));
}

absl::StatusOr<Recogniser::Examined> Recogniser::Examine(
    TreeView& tree, std::string_view directory, absl::Time now) const {
  CAIRN_ASSIGN_OR_RETURN(const auto entries, tree.List(directory));
  const Listing listing(entries);
  const Judge judge(tree, now, impl_->options.generic_quiet);
  Examined examined;
  if (!directory.empty()) {
    CAIRN_ASSIGN_OR_RETURN(auto finding,
                           impl_->ExamineDirectory(judge, directory, listing));
    if (finding) {
      examined.findings.push_back(*std::move(finding));
      return examined;
    }
    // Hidden, and no staging after all: not a place for runs.
    if (SplitPath(directory).second.starts_with('.')) return examined;
  }
  for (const TreeEntry& entry : entries) {
    switch (entry.type) {
      case FileType::kFile:
        break;
      case FileType::kDirectory:
        if (entry.name.starts_with('.') &&
            impl_->FindStaging(entry.name, nullptr) == nullptr) {
          examined.ignored.emplace_back(entry.name, "hidden");
        } else {
          examined.descend.push_back(JoinPath(directory, entry.name));
        }
        break;
      case FileType::kSymlink:
        examined.ignored.emplace_back(entry.name,
                                      "a symbolic link, not followed");
        break;
      case FileType::kOther:
        examined.ignored.emplace_back(entry.name, "no regular file");
        break;
    }
  }
  auto groups = impl_->GroupFiles(listing, examined.ignored);
  for (auto& [key, group] : groups) {
    CAIRN_ASSIGN_OR_RETURN(
        auto finding,
        impl_->ExamineGroup(judge, directory, key, group, examined.ignored));
    if (finding) examined.findings.push_back(*std::move(finding));
  }
  std::sort(examined.ignored.begin(), examined.ignored.end());
  return examined;
}

absl::StatusOr<Finding> Recogniser::ExamineOne(TreeView& tree,
                                               std::string_view path,
                                               absl::Time now) const {
  while (path.ends_with('/')) path.remove_suffix(1);
  const auto not_found = [&](std::string_view why) {
    return absl::NotFoundError(
        fmt::format("'{}' is no checkpoint: {}", EscapeName(path), why));
  };
  if (path.empty()) return not_found("the tier itself is never one");
  const auto [run, name] = SplitPath(path);
  CAIRN_ASSIGN_OR_RETURN(const auto entries, tree.List(run));
  const Listing listing(entries);
  const Judge judge(tree, now, impl_->options.generic_quiet);
  const TreeEntry* entry = listing.Find(name);
  if (entry != nullptr && entry->type == FileType::kDirectory) {
    CAIRN_ASSIGN_OR_RETURN(const auto below, tree.List(path));
    CAIRN_ASSIGN_OR_RETURN(
        auto finding, impl_->ExamineDirectory(judge, path, Listing(below)));
    if (finding) return *std::move(finding);
    return not_found(
        "no rule takes this directory for one; put a step into its name, or "
        "describe it in a [[framework]] table of cairn.toml");
  }
  Recogniser::Impl::Ignored ignored;
  auto groups = impl_->GroupFiles(listing, ignored);
  for (auto& [key, group] : groups) {
    if (key != name && std::none_of(group.files.begin(), group.files.end(),
                                    [&](const TreeEntry& file) {
                                      return file.name == name;
                                    })) {
      continue;
    }
    CAIRN_ASSIGN_OR_RETURN(
        auto finding, impl_->ExamineGroup(judge, run, key, group, ignored));
    if (finding) return *std::move(finding);
  }
  for (const auto& [ignored_name, why] : ignored) {
    if (ignored_name == name) return not_found(why);
  }
  return not_found(entry == nullptr ? "nothing of that name is there"
                                    : "it is neither a directory nor a file");
}

std::vector<std::pair<std::string, std::string>> Recogniser::Describe() const {
  std::vector<std::pair<std::string, std::string>> lines;
  const auto add = [&](const auto& rule) {
    lines.emplace_back(rule.rule.name, rule.rule.summary);
  };
  std::for_each(impl_->user_rules.begin(), impl_->user_rules.end(), add);
  std::for_each(impl_->directory_rules.begin(), impl_->directory_rules.end(),
                add);
  add(impl_->generic);
  std::for_each(impl_->file_rules.begin(), impl_->file_rules.end(), add);
  return lines;
}

}  // namespace cairn
