// How cairn's answers look to people: tables, times, counts. Pure functions.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

// Columns on a terminal: one for each code point, which is right for all but
// East Asian wide and combining characters.
size_t DisplayWidth(std::string_view text);

// At most `width` columns; what does not fit is left out of the middle and
// replaced by "...". Does not cut code points.
std::string Shortened(std::string_view text, size_t width);

// "1 checkpoint", "2 checkpoints", "0 files".
std::string Count(uint64_t number, std::string_view thing);

// "2026-01-01T12:00:00+01:00" in the local time zone, for people.
std::string LocalTime(int64_t time_ns);
// "2026-01-01T11:00:00.000000000Z", for programs.
std::string UtcTime(int64_t time_ns);

// Rows under a head, in aligned columns, two blanks between. One thread at a
// time.
class Table {
 public:
  // A column whose name begins with '>' is aligned to the right; the sign is
  // not shown.
  explicit Table(const std::vector<std::string>& columns);

  // As many cells as columns.
  void Add(std::vector<std::string> row);
  bool empty() const { return rows_.size() == 1; }

  // Every line indented by `indent` and ended by a line feed.
  std::string Text(size_t indent = 0) const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace cairn
