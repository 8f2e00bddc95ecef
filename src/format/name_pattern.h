// Patterns over names: regular expressions with named groups for what a name
// says (step, epoch), and the two wildcards of a glob.
//
// The regular expressions are ECMAScript's, with the named groups (?P<step>..)
// that std::regex lacks. They come from users too, so a pattern that could make
// matching explode is refused when it is compiled, and names are bounded.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace cairn {

inline constexpr size_t kPatternLengthMax = 512;
// NAME_MAX of every file system in use; a longer name matches nothing.
inline constexpr size_t kNameLengthMax = 255;
// Repetitions in one pattern. Backtracking over k of them costs at most about
// 255^k steps in theory; real patterns have two or three.
inline constexpr int kRepetitionsMax = 8;

struct NameMatch {
  std::optional<int64_t> step;
  std::optional<int64_t> epoch;
  std::string base;  // Group "base": the name without what was added to it.
};

// Thread-safe.
class NamePattern {
 public:
  // kInvalidArgument: no regular expression, one of its limits passed, or a
  // repeated group that itself repeats or chooses ("(a+)*").
  static absl::StatusOr<NamePattern> Compile(std::string_view pattern);

  // The whole name has to match. A number that does not fit is no number.
  std::optional<NameMatch> Match(std::string_view name) const;

 private:
  struct Compiled;
  explicit NamePattern(std::shared_ptr<const Compiled> compiled);

  std::shared_ptr<const Compiled>
      compiled_;  // Shared: immutable, cheap copies.
};

// '*' is any run of bytes, '?' any one byte; everything else is itself.
bool GlobMatches(std::string_view glob, std::string_view name);
bool IsGlob(std::string_view text);

// Digits only, and in the range of int64_t.
std::optional<int64_t> ParseNumber(std::string_view digits);

}  // namespace cairn
