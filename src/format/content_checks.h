// The checks that framework_rules.h names: each looks into a checkpoint's
// content and answers with the first problem that it finds, as a sentence for
// people. What to make of it (still being written, or damaged) depends on the
// framework's proof of completeness and is the recogniser's to say.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "format/checkpoint_content.h"
#include "format/framework_rules.h"
#include "format/tree_view.h"
#include "nlohmann/json.hpp"

namespace cairn {

// trainer_state.json holds the whole log of a run; a longer one is malformed.
inline constexpr uint64_t kJsonBytesMax = uint64_t{64} << 20;
// Pointer and tracker files hold one name.
inline constexpr uint64_t kPointerBytesMax = 4096;

enum class ProblemKind {
  kInProgress,   // A sign that somebody is writing.
  kUncommitted,  // What would say that it is complete is not there (yet).
  kUndecided,    // As above, but nobody seems to be writing.
  kLate,    // It says it is complete; another rank's part is not there (yet).
  kBroken,  // A file is cut, missing or malformed.
  kUnreadable,  // A file may not be read.
};

struct Problem {
  ProblemKind kind = ProblemKind::kBroken;
  std::string text;
  // When the file that it is about last changed; 0: it is about the whole.
  int64_t mtime_ns = 0;
};
using Verdicts = absl::StatusOr<std::optional<Problem>>;

struct CheckContext {
  TreeView& tree;
  const CheckpointContent& content;
  // The checkpoint: its run, its name in it and what is known of its number. A
  // check that finds a better number in the content puts it here.
  std::string run;
  std::string name;
  std::optional<int64_t> step;
  std::optional<int64_t> epoch;
  absl::Time now;
  // A marker of its own says that it is complete: no need to look for another.
  bool marked = false;
  bool lightning = false;    // The content has Lightning's numbers.
  size_t files_checked = 0;  // Looked into, and whole.
};

// Errors are of the tree.
Verdicts RunCheck(Check check, CheckContext& context);

// What follows is for the checks themselves.

Problem Broken(std::string_view path, std::string_view why,
               int64_t mtime_ns = 0);

// What the failure to read or to understand `path` means: a problem, or (left
// as it is) an error of the tree.
Verdicts AsProblem(const absl::Status& status, std::string_view path,
                   int64_t mtime_ns);
// The same for what a parser of content said, whose limits are no error.
Verdicts ContentProblem(const absl::Status& status, std::string_view path,
                        int64_t mtime_ns);

// JSON as Python writes it, with NaN and Infinity where a loss has exploded;
// these become 0. Discarded where it is no JSON.
nlohmann::json ParsePythonJson(std::string text);

// The content of a small file. kNotFound: absent. kDataLoss: longer than `max`.
absl::StatusOr<std::string> ReadSmallFile(TreeView& tree, std::string_view path,
                                          uint64_t bytes_max);

// What a pointer file says, without white space around it; "" when it is
// absent, empty, too long, or not text: a pointer is a hint, never the truth.
absl::StatusOr<std::string> ReadPointer(TreeView& tree, std::string_view path);

// In rank_checks.cc: the sets of files that the ranks of a job write together.
Verdicts CheckDeepSpeedShards(CheckContext& context);
Verdicts CheckMegatronRanks(CheckContext& context);
Verdicts CheckRankFiles(CheckContext& context);
Verdicts CheckNumberedShards(CheckContext& context);

}  // namespace cairn
