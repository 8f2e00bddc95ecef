#include "engine/nearest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace cairn {

namespace {

// Bounds the work: nobody means a key with a name longer than this.
constexpr size_t kNameMax = 64;

// Optimal string alignment: Levenshtein, and neighbours exchanged count as one.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1),
      row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string_view NearestName(std::string_view name,
                             std::span<const std::string_view> known) {
  if (name.size() > kNameMax) return "";
  std::string_view nearest;
  size_t least = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  if (!nearest.empty()) return nearest;
  // A part of it, as "url" for "core_url" or "rate" for "max_rate".
  for (const std::string_view candidate : known) {
    const bool part = name.size() >= 3 && candidate.size() >= 3 &&
                      (candidate.find(name) != std::string_view::npos ||
                       name.find(candidate) != std::string_view::npos);
    if (part) return candidate;
  }
  return "";
}

}  // namespace cairn
