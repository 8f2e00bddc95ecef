// Expectations about absl::Status and absl::StatusOr.

#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cairn {

inline const absl::Status& ToStatus(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& ToStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, "is OK") {
  const absl::Status& status = ToStatus(arg);
  *result_listener << status.ToString();
  return status.ok();
}

MATCHER_P(HasCode, code, "has code " + absl::StatusCodeToString(code)) {
  const absl::Status& status = ToStatus(arg);
  *result_listener << status.ToString();
  return status.code() == code;
}

// The code, and `text` somewhere in the message.
MATCHER_P2(FailsWith, code, text, "fails with that code and text") {
  const absl::Status& status = ToStatus(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         std::string(status.message()).find(text) != std::string::npos;
}

}  // namespace cairn

#define EXPECT_OK(expression) EXPECT_THAT(expression, ::cairn::IsOk())
#define ASSERT_OK(expression) ASSERT_THAT(expression, ::cairn::IsOk())
