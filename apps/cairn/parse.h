// What several verbs take, checked. Errors are kInvalidArgument (exit code 2)
// and name the argument. Pure functions.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/cairn/exit_code.h"
#include "cairn/types.h"

namespace cairn {

// Either names or --all, never both and never neither.
absl::StatusOr<Asked> AskedFor(const std::vector<std::string>& names, bool all);

// "KEY=VALUE" each; a key may stand there once.
absl::StatusOr<std::map<std::string, std::string>> ParseLabels(
    const std::vector<std::string>& texts);

// "accelerator", "core" or "both".
absl::StatusOr<TierChoice> ParseTier(const std::string& text);

}  // namespace cairn
