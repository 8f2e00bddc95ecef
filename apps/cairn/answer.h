// The answers that several verbs give, for people and as JSON.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/cairn/exit_code.h"
#include "apps/cairn/session.h"
#include "cairn/types.h"

namespace cairn {

// One row a checkpoint: PATH STEP STATE COPIES SIZE FILES CREATED FLAGS.
std::string CheckpointTable(const std::vector<CheckpointInfo>& checkpoints);

// Where its copies are: "accelerator,core", "accelerator", "core", "none".
std::string Copies(const CheckpointInfo& checkpoint);

// What is not as usual, by words: "dirty,pinned"; "" for nothing.
std::string Flags(const CheckpointInfo& checkpoint);

// "modelA/step-100 (step 100, 1.07 GB, 12 files, torch)".
std::string Described(const CheckpointInfo& checkpoint);

// The words for a verb over several checkpoints.
struct BatchWords {
  std::string_view done;      // "exported"
  std::string_view would_do;  // "would export"
  std::string_view nothing;   // "there already"
  bool is_transfer = false;   // Bytes move, so there is a rate.
};

// Prints the outcomes; what went wrong also goes to standard error.
ExitCode AnswerBatch(Session& session, const BatchReport& report, Asked asked,
                     const BatchWords& words);

}  // namespace cairn
