// The two macros of the code base.

#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define CAIRN_RETURN_IF_ERROR(expression)                               \
  do {                                                                  \
    if (absl::Status cairn_status = (expression); !cairn_status.ok()) { \
      return cairn_status;                                              \
    }                                                                   \
  } while (false)

#define CAIRN_CONCAT_INNER(a, b) a##b
#define CAIRN_CONCAT(a, b) CAIRN_CONCAT_INNER(a, b)

// CAIRN_ASSIGN_OR_RETURN(const auto value, Call());
//
// A declaration cannot be put in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define CAIRN_ASSIGN_OR_RETURN(declaration, expression)              \
  CAIRN_ASSIGN_OR_RETURN_IMPL(CAIRN_CONCAT(cairn_result_, __LINE__), \
                              declaration, expression)
#define CAIRN_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                        \
  if (!result.ok()) return std::move(result).status();               \
  declaration = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)
