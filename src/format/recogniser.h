// Which files are a checkpoint, and is it complete?
//
// The conventions of the frameworks are data (framework_rules.cc, and users'
// own
// [[framework]] tables); this is the machine that applies them. A checkpoint is
// complete when its framework's completion markers are there, no in-progress
// marker is, and every file checks out structurally (torch zip directory,
// safetensors header against the file's size, DCP .metadata extents against the
// files, shard sets whole). Nothing is ever unpickled. The outermost framework
// wins: a Hugging Face checkpoint that holds a DCP one is one checkpoint.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "format/tree_view.h"

namespace cairn {

// kDirectory: the checkpoint is the directory run/name and all below it.
// kFiles: it is one or more files of the run's directory; run/name is the path
// a framework is given to load it (the file itself, or a TF prefix).
enum class Layout { kDirectory, kFiles };

enum class Verdict {
  kComplete,  // Markers there, structure sound.
  kWriting,   // An in-progress marker, or a completion marker not there yet.
  kDamaged,  // It says it is complete, but a file is cut, missing or malformed.
  kUnknown,  // Looks like a checkpoint of no known convention, or undecidable.
};
const char* VerdictName(Verdict verdict);

// A framework's own "newest is ..." file, as it has to read when this
// checkpoint is the newest.
struct PointerFile {
  std::string path;     // Relative to the run's directory.
  std::string content;  // Whole content.

  bool operator==(const PointerFile&) const = default;
};

struct Finding {
  std::string run;   // Directory of the run, relative to the root; may be "".
  std::string name;  // Relative to the run, usually one component.
  Layout layout = Layout::kDirectory;
  std::string framework;  // Name of the rule, e.g. "deepspeed".
  std::optional<int64_t> step;
  std::optional<int64_t> epoch;
  Verdict verdict = Verdict::kUnknown;
  std::string
      reason;  // One sentence for a person: why this verdict. Printable.

  // kFiles: the files, relative to the run's directory, sorted.
  std::vector<std::string> files;
  // The framework's own completion marker, relative to the base (the
  // checkpoint's directory, or the run's for kFiles): exported last, removed
  // first. May be "".
  std::string marker;
  int64_t marker_mtime_ns = 0;  // Of the marker; else the newest file's.
  std::vector<PointerFile> pointers;
};

// A rule of the user's, from [[framework]] in cairn.toml.
struct UserRule {
  std::string name;
  std::string directory;  // RE2/ECMAScript regex on the directory's name; may
                          // have the named groups (?P<step>..), (?P<epoch>..).
  std::vector<std::string> complete;     // All of these files must exist.
  std::vector<std::string> in_progress;  // None of these (globs) may.
  // Without `complete`: complete when nothing changed for this long.
  std::optional<absl::Duration> quiet;
  std::string pointer;          // Pointer file in the run; may be "".
  std::string pointer_content;  // With {name}, {step}, {epoch} replaced.
};

struct RecogniserOptions {
  std::vector<UserRule>
      user_rules;  // Tried before the built-in ones, in order.
  // The generic rule: a directory whose name ends in a number, or a file with a
  // checkpoint's suffix, of no known convention, counts as complete when
  // unchanged for this long. nullopt: never (it is reported kUnknown).
  std::optional<absl::Duration> generic_quiet;
};

// Thread-safe after creation.
class Recogniser {
 public:
  // kInvalidArgument: a rule of the user's that cannot be understood; names it.
  static absl::StatusOr<Recogniser> Create(RecogniserOptions options);

  struct Examined {
    std::vector<Finding> findings;
    // Subdirectories that belong to no checkpoint and are to be examined next,
    // relative to the root.
    std::vector<std::string> descend;
    // Names in this directory that were seen and belong to nothing (pointer
    // files are not among them), with why: junk, stale staging. For `scan
    // --verbose`.
    std::vector<std::pair<std::string, std::string>> ignored;
  };

  // Looks at one directory: is it itself a checkpoint (then `findings` has just
  // that one, and nothing is descended into)? If not, which file checkpoints
  // does it hold? `now` is for quiet rules. Errors are of the tree, not of what
  // it holds: malformed content is a verdict.
  absl::StatusOr<Examined> Examine(TreeView& tree, std::string_view directory,
                                   absl::Time now) const;

  // The verdict on one known path "run/name" (as `commit` and `adopt` need it).
  // kNotFound: no rule takes it for a checkpoint.
  absl::StatusOr<Finding> ExamineOne(TreeView& tree, std::string_view path,
                                     absl::Time now) const;

  // For `doctor` and docs: name and one line for each rule, in order tried.
  std::vector<std::pair<std::string, std::string>> Describe() const;

 private:
  struct Impl;
  explicit Recogniser(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl>
      impl_;  // Shared: immutable, and copies are cheap.
};

}  // namespace cairn
