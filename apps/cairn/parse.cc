#include "apps/cairn/parse.h"

#include "cairn/store.h"
#include "fmt/format.h"

namespace cairn {

absl::StatusOr<Asked> AskedFor(const std::vector<std::string>& names,
                               bool all) {
  if (all && !names.empty()) {
    return absl::InvalidArgumentError("give either names or --all, not both");
  }
  if (!all && names.empty()) {
    return absl::InvalidArgumentError(
        "name a checkpoint or a run, or give --all for everything");
  }
  return all ? Asked::kEverything : Asked::kNamed;
}

absl::StatusOr<std::map<std::string, std::string>> ParseLabels(
    const std::vector<std::string>& texts) {
  std::map<std::string, std::string> labels;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(fmt::format(
          "--label \"{}\": write it as KEY=VALUE", EscapeForDisplay(text)));
    }
    const std::string key = text.substr(0, equals);
    if (!labels.emplace(key, text.substr(equals + 1)).second) {
      return absl::InvalidArgumentError(
          fmt::format("--label {}: given twice", EscapeForDisplay(key)));
    }
  }
  return labels;
}

absl::StatusOr<TierChoice> ParseTier(const std::string& text) {
  if (text == "accelerator") return TierChoice::kAccelerator;
  if (text == "core") return TierChoice::kCore;
  if (text == "both") return TierChoice::kBoth;
  return absl::InvalidArgumentError(
      fmt::format("--tier \"{}\": write accelerator, core or both",
                  EscapeForDisplay(text)));
}

}  // namespace cairn
