// The conventions of the frameworks, as data: what their checkpoints are
// called, what tells one from another, which file says that it is complete,
// which one says that it is not, and which "newest is ..." file lies beside it.
// The recogniser interprets these tables; docs/frameworks.md tells them to
// users.
//
// Names are matched by regular expressions (name_pattern.h), contents by globs
// on the names directly in a directory; a glob that ends in '/' is for
// directories, any other for regular files.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace cairn {

// What shows that a checkpoint is complete.
enum class Proof {
  kMarker,     // A file that is written last: what fails a check is damage.
  kStructure,  // No such file, but the set of files says whether it is whole:
               // what fails a check may still be being written.
  kQuiet,      // Neither: complete when nothing has changed for a time.
};

// What is looked at beyond names. The first group is about files and applies in
// every directory of a checkpoint, so that what a framework wraps is checked
// too.
enum class Check {
  kDcpExtents,       // .metadata parses, its files reach offset + length.
  kDeepSpeedShards,  // Model and optimizer states: all ranks there.
  kShardIndex,       // *.index.json: shards there, each tensor in its shard.
  kNumberedShards,   // x-00001-of-00003: all of them.
  kRankFiles,        // random_states_0.pkl ..., rng_state_0.pth ...: no gap.
  kFileFormats,      // Every file of a known format is whole.

  kTrainerState,  // trainer_state.json parses; global_step is the directory's.
  kInnerLatest,   // A DeepSpeed checkpoint inside is named by its `latest`.
  kWeights,       // At least one file that holds weights.
  kMegatronBackend,  // metadata.json says how it is stored, and it is so.
  kMegatronRanks,  // mp_rank_TT_PPP_EEE: all combinations, tracker not behind.
  kOrbaxCommit,    // commit_success.txt, or a commit time in the metadata.
  kJsonMarkers,    // The completion markers are JSON.
  kTableIndex,     // A TF index ends in its footer, its data is there.
  kLightningNumbers,  // Takes epoch and global_step from the content.
};

// `content` is the whole content. Replaced are {name}, {step}, {epoch},
// {step_or_name} (for a name without a number), and {quoted_name}, the name
// escaped for a protocol buffer's text form.
struct PointerTemplate {
  std::string path;  // Relative to the run.
  std::string content;
};

struct Completion {
  Proof proof = Proof::kMarker;
  // All of these are there; "a|b" is one of the two (a glob may stand for one).
  // {key} is the name of a checkpoint that is made of files.
  std::vector<std::string> complete = {};
  // Any of these makes it complete, whatever the proof is without it.
  std::vector<std::string> at_once = {};
  // The framework renames the finished directory into place, so that a missing
  // marker does not mean that somebody is still writing.
  bool renamed_into_place = false;
  // None of these (globs, on the name or on the path) is, at any depth.
  std::vector<std::string> in_progress = {};
  // Of these one says the same, but only while `complete` is not there.
  std::vector<std::string> unfinished = {};
  // kQuiet: nullopt leaves it to the setting for the generic rule.
  std::optional<absl::Duration> quiet = std::nullopt;
  std::vector<Check> checks = {};
  std::vector<PointerTemplate> pointers = {};
};

// A directory is taken when one of `sure` is in it, or when its name matches
// one of `names` and one of `hints` (if there are any) is in it; never when one
// of `unless` is.
struct DirectoryRule {
  std::string name = {};
  std::string summary = {};  // One line, for people.
  std::vector<std::string> names = {};
  std::vector<std::string> sure = {};
  std::vector<std::string> hints = {};
  std::vector<std::string> unless = {};
  bool sure_needs_backend = false;  // `sure` is JSON with a "sharded_backend".
  Completion completion = {};
};

// Files of one directory with the same key are one checkpoint; the key is its
// name. A rule may need more than one way of saying which file belongs where.
struct FilePattern {
  std::vector<std::string> globs = {};  // One of these, and
  std::string pattern = {};             // this, if it is not empty.
  std::string key = "{file}";           // {file}, {base}: group of the pattern.
};
struct FileRule {
  std::string name = {};
  std::string summary = {};
  std::vector<FilePattern> patterns = {};
  // A group is a checkpoint only with a file of these (patterns).
  std::vector<std::string> needs = {};
  bool needs_torch_content =
      false;  // By its first bytes: the suffix says little.
  Completion completion = {};
};

// A name that a save has until it is done. What is under it is never a
// checkpoint; group "base" is the name to come.
struct StagingRule {
  std::string framework;
  std::string pattern;
  bool sure = false;  // The name alone says so; else its content has to, too.
};

// Each in the order tried; the outer framework comes before what it wraps.
const std::vector<DirectoryRule>& DirectoryRules();
const std::vector<FileRule>& FileRules();
const std::vector<StagingRule>& StagingRules();

// The rule for directories with a step in their name and no known convention.
const DirectoryRule& GenericDirectoryRule();

// Names with a step or an epoch in them, whoever wrote them; for directories
// and for files without their suffix. The second is for files alone: a number
// at the end; names that match the third have none.
const std::vector<std::string>& StepNamePatterns();
const std::vector<std::string>& NumberedFilePatterns();
const std::vector<std::string>& RankNamePatterns();

// Files that go with a checkpoint's and are none (globs).
const std::vector<std::string>& CompanionFiles();

// Suffixes of files that hold weights, with the dot.
const std::vector<std::string>& WeightSuffixes();

// The checks that a user's own rule gets.
const std::vector<Check>& StructuralChecks();

}  // namespace cairn
