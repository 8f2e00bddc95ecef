#include "format/name_pattern.h"

// GCC 12 takes parts of std::regex for uninitialized when it optimizes under
// AddressSanitizer; the pragma has to stand before the header.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <charconv>
#include <regex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/escape.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace cairn {
namespace {

absl::Status Refused(std::string_view why) {
  return absl::InvalidArgumentError(std::string(why));
}

// Rewrites named groups to plain ones while it reads the pattern once.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern) {}

  absl::Status Run() {
    open_.push_back({});
    while (!rest_.empty()) {
      CAIRN_RETURN_IF_ERROR(Next());
    }
    return open_.size() == 1 ? absl::OkStatus()
                             : Refused("a group is not closed");
  }

  std::string text;
  std::vector<std::pair<std::string, size_t>> groups;

 private:
  struct Group {
    bool varies = false;  // It holds a repetition or a choice.
  };

  void Copy(size_t count) {
    text += rest_.substr(0, count);
    rest_.remove_prefix(count);
  }

  absl::Status Next() {
    const char c = rest_.front();
    const bool after_varying_group = std::exchange(closed_varying_, false);
    switch (c) {
      case '\\':
        return Escape();
      case '[':
        return Class();
      case '(':
        return Open();
      case ')':
        return Close();
      case '|':
        open_.back().varies = true;
        break;
      case '*':
      case '+':
      case '{':
        if (after_varying_group) {
          return Refused(
              "a repeated group may not itself repeat or choose, as matching "
              "it can take forever");
        }
        if (++repetitions_ > kRepetitionsMax) {
          return Refused(
              fmt::format("more than {} repetitions", kRepetitionsMax));
        }
        open_.back().varies = true;
        break;
      default:
        break;
    }
    Copy(1);
    return absl::OkStatus();
  }

  absl::Status Escape() {
    if (rest_.size() < 2) return Refused("it ends in a backslash");
    if (rest_[1] >= '1' && rest_[1] <= '9') {
      return Refused("back-references are not supported");
    }
    Copy(2);
    return absl::OkStatus();
  }

  absl::Status Class() {
    size_t end = 1;
    if (end < rest_.size() && rest_[end] == '^') ++end;
    while (end < rest_.size() && rest_[end] != ']') {
      end += rest_[end] == '\\' ? 2 : 1;
    }
    if (end >= rest_.size()) return Refused("a [class] is not closed");
    Copy(end + 1);
    return absl::OkStatus();
  }

  absl::Status Open() {
    open_.push_back({});
    if (rest_.substr(0, 3) == "(?:") {
      Copy(3);
      return absl::OkStatus();
    }
    const size_t name_at = rest_.substr(0, 4) == "(?P<"  ? 4
                           : rest_.substr(0, 3) == "(?<" ? 3
                                                         : 0;
    ++group_count_;
    if (name_at == 0) {
      if (rest_.substr(0, 2) == "(?") {
        return Refused("of (?..) only (?:..) and (?P<name>..) are supported");
      }
      Copy(1);
      return absl::OkStatus();
    }
    const size_t end = rest_.find('>');
    if (end == std::string_view::npos) {
      return Refused("the name of a group is not closed with '>'");
    }
    const std::string_view name = rest_.substr(name_at, end - name_at);
    if (name.empty() ||
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST"
                               "UVWXYZ0123456789_") != std::string_view::npos) {
      return Refused("the name of a group has to be a word");
    }
    groups.emplace_back(std::string(name), group_count_);
    text += '(';
    rest_.remove_prefix(end + 1);
    return absl::OkStatus();
  }

  absl::Status Close() {
    if (open_.size() == 1) return Refused("')' without '('");
    closed_varying_ = open_.back().varies;
    open_.pop_back();
    open_.back().varies = open_.back().varies || closed_varying_;
    Copy(1);
    return absl::OkStatus();
  }

  std::string_view rest_;
  std::vector<Group> open_;
  bool closed_varying_ = false;
  size_t group_count_ = 0;
  int repetitions_ = 0;
};

}  // namespace

struct NamePattern::Compiled {
  std::regex regex;
  std::vector<std::pair<std::string, size_t>> groups;  // Name -> index.
};

NamePattern::NamePattern(std::shared_ptr<const Compiled> compiled)
    : compiled_(std::move(compiled)) {}

absl::StatusOr<NamePattern> NamePattern::Compile(std::string_view pattern) {
  const auto refuse = [&](std::string_view why) {
    return absl::InvalidArgumentError(
        fmt::format("the pattern '{}' cannot be used: {}",
                    EscapeName(pattern.substr(0, kPatternLengthMax)), why));
  };
  if (pattern.empty()) return refuse("it is empty");
  if (pattern.size() > kPatternLengthMax) {
    return refuse(fmt::format("it is longer than {} bytes", kPatternLengthMax));
  }
  Translator translator(pattern);
  if (const absl::Status status = translator.Run(); !status.ok()) {
    return refuse(std::string(status.message()));
  }
  auto result = std::make_shared<Compiled>();
  result->groups = std::move(translator.groups);
  try {
    result->regex = std::regex(translator.text,
                               std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::exception& error) {
    return refuse(error.what());
  }
  return NamePattern(std::move(result));
}

std::optional<NameMatch> NamePattern::Match(std::string_view name) const {
  if (name.size() > kNameLengthMax) return std::nullopt;
  std::match_results<std::string_view::const_iterator> found;
  try {
    if (!std::regex_match(name.begin(), name.end(), found, compiled_->regex)) {
      return std::nullopt;
    }
  } catch (const std::exception&) {
    return std::nullopt;  // Out of the matcher's own bounds: no match.
  }
  NameMatch result;
  for (const auto& [group, index] : compiled_->groups) {
    if (!found[index].matched) continue;
    const std::string text = found[index].str();
    if (group == "step") result.step = ParseNumber(text);
    if (group == "epoch") result.epoch = ParseNumber(text);
    if (group == "base") result.base = text;
  }
  return result;
}

bool IsGlob(std::string_view text) {
  return text.find_first_of("*?") != std::string_view::npos;
}

bool GlobMatches(std::string_view glob, std::string_view name) {
  // The classic two-finger walk: on a mismatch, let the last '*' take one more.
  size_t g = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;
  size_t taken = 0;
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      taken = n;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == name[n])) {
      ++g;
      ++n;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

std::optional<int64_t> ParseNumber(std::string_view digits) {
  if (digits.empty() || digits.front() == '-') return std::nullopt;
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace cairn
