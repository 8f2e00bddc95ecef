// One line of JSON, read without building a tree: the keys that the caller
// knows, with values flat enough for manifests. Unknown keys are skipped
// whatever their value. Memory is bounded by the length of the line.
//
// Faults are kDataLoss; the caller says in which file and line.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cairn {

// One thread at a time. Reused for line after line; what it gives is valid
// until the next Parse().
class JsonLine {
 public:
  // `known_keys` must outlive it; a key is then named by its index.
  explicit JsonLine(std::span<const std::string_view> known_keys);

  // Refuses what is no object, ill-formed JSON or UTF-8, and a key given twice.
  absl::Status Parse(std::string_view line);

  bool Has(size_t key) const { return values_[key].type != Type::kAbsent; }
  absl::StatusOr<std::string_view> Text(size_t key) const;
  // Text in the escaped form of names, unescaped.
  absl::StatusOr<std::string> Name(size_t key) const;
  absl::StatusOr<int64_t> Integer(size_t key) const;
  // 0 to `max`, which is at most 2^63-1.
  absl::StatusOr<uint64_t> Unsigned(size_t key, uint64_t max) const;
  absl::StatusOr<bool> Bool(size_t key) const;
  // [1,2,3]
  absl::StatusOr<std::span<const uint64_t>> Unsigneds(size_t key) const;
  // {"a":"b"}: a, b, ...
  absl::StatusOr<std::span<const std::string>> TextObject(size_t key) const;
  // [["a","b"],["c","d"]]: a, b, c, d, ...
  absl::StatusOr<std::span<const std::string>> TextPairs(size_t key) const;

  // For the caller's own complaints about a value.
  absl::Status Fault(size_t key, std::string_view what) const;

 private:
  enum class Type { kAbsent, kNull, kBool, kInteger, kReal, kText, kNested };
  struct Value {
    Type type = Type::kAbsent;
    bool flag = false;
    int64_t integer = 0;
    std::string text;
    // What is nested in it, in order: brackets, k(ey), t(ext), u(nsigned) and
    // x for anything else; with the texts (keys too) and numbers beside it.
    std::string shape;
    std::vector<std::string> texts;
    std::vector<uint64_t> unsigneds;
  };
  class Handler;

  absl::Status Require(size_t key, Type type, const char* what) const;

  const std::span<const std::string_view> known_keys_;
  std::vector<Value> values_;
};

}  // namespace cairn
