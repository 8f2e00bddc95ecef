#include "apps/cairn/text.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "base/check.h"
#include "fmt/format.h"

namespace cairn {

namespace {

bool ContinuesCodePoint(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// The first `width` code points.
std::string_view Front(std::string_view text, size_t width) {
  size_t end = 0;
  while (end < text.size()) {
    if (!ContinuesCodePoint(text[end]) && width-- == 0) break;
    ++end;
  }
  return text.substr(0, end);
}

}  // namespace

size_t DisplayWidth(std::string_view text) {
  return text.size() -
         std::count_if(text.begin(), text.end(), ContinuesCodePoint);
}

std::string Shortened(std::string_view text, size_t width) {
  const size_t all = DisplayWidth(text);
  if (all <= width) return std::string(text);
  constexpr std::string_view kGap = "...";
  if (width <= kGap.size()) return std::string(Front(text, width));
  const size_t kept = width - kGap.size();
  const size_t front = kept / 2;
  const size_t back = kept - front;
  return fmt::format("{}{}{}", Front(text, front), kGap,
                     text.substr(Front(text, all - back).size()));
}

std::string Count(uint64_t number, std::string_view thing) {
  return fmt::format("{} {}{}", number, thing, number == 1 ? "" : "s");
}

std::string LocalTime(int64_t time_ns) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%S%Ez", absl::FromUnixNanos(time_ns),
                          absl::LocalTimeZone());
}

std::string UtcTime(int64_t time_ns) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E9SZ", absl::FromUnixNanos(time_ns),
                          absl::UTCTimeZone());
}

Table::Table(const std::vector<std::string>& columns) {
  std::vector<std::string> head;
  for (const std::string& column : columns) {
    right_.push_back(column.starts_with('>'));
    head.push_back(column.substr(right_.back() ? 1 : 0));
  }
  rows_.push_back(std::move(head));
}

void Table::Add(std::vector<std::string> row) {
  CAIRN_CHECK(row.size() == right_.size());
  rows_.push_back(std::move(row));
}

std::string Table::Text(size_t indent) const {
  std::vector<size_t> widths(right_.size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line(indent, ' ');
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string fill(widths[i] - DisplayWidth(row[i]), ' ');
      line += right_[i] ? fill + row[i] : row[i] + fill;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace cairn
