#include "apps/cairn/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

CheckpointInfo Checkpoint() {
  CheckpointInfo checkpoint;
  checkpoint.run = "modelA";
  checkpoint.name = "step-100";
  checkpoint.path = "modelA/step-100";
  checkpoint.framework = "torch";
  checkpoint.step = 100;
  checkpoint.files = 12;
  checkpoint.bytes = 1'070'000'000;
  checkpoint.present = true;
  return checkpoint;
}

// What AnswerBatch() says, on both outputs.
struct Said {
  ExitCode code;
  std::string out, err;
};
Said SaidOf(const BatchReport& report, Asked asked, bool json = false) {
  GlobalFlags flags;
  flags.json = json;
  Session session("export", flags);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const ExitCode code = AnswerBatch(session, report, asked,
                                    {.done = "exported",
                                     .would_do = "would export",
                                     .nothing = "archived already",
                                     .is_transfer = true});
  return {code, testing::internal::GetCapturedStdout(),
          testing::internal::GetCapturedStderr()};
}

Outcome OutcomeOf(const std::string& path, Outcome::Kind kind,
                  const std::string& message) {
  Outcome outcome;
  outcome.path = path;
  outcome.kind = kind;
  outcome.message = message;
  outcome.bytes = 5'000'000;
  return outcome;
}

TEST(AnswerTest, CopiesAndFlags) {
  CheckpointInfo checkpoint = Checkpoint();
  EXPECT_EQ(Copies(checkpoint), "accelerator");
  EXPECT_EQ(Flags(checkpoint), "");
  checkpoint.archived = true;
  EXPECT_EQ(Copies(checkpoint), "accelerator,core");
  checkpoint.present = false;
  EXPECT_EQ(Copies(checkpoint), "core");
  checkpoint.archived = false;
  EXPECT_EQ(Copies(checkpoint), "none");
  checkpoint.lost = checkpoint.damaged = checkpoint.dirty = true;
  checkpoint.pinned = true;
  checkpoint.newest_generation = false;
  EXPECT_EQ(Flags(checkpoint), "lost,damaged,dirty,pinned,superseded");
  checkpoint.hold_until_ns = 1;
  EXPECT_THAT(Flags(checkpoint), HasSubstr("held"));
}

TEST(AnswerTest, TheTableHasARowForEachAndEscapesNames) {
  CheckpointInfo odd = Checkpoint();
  odd.path = "run/a\nb";
  odd.step = std::nullopt;
  const std::string table = CheckpointTable({Checkpoint(), odd});
  EXPECT_THAT(table, HasSubstr("PATH"));
  EXPECT_THAT(table, HasSubstr("modelA/step-100   100  local  accelerator"));
  EXPECT_THAT(table, HasSubstr("run/a%0Ab           -"));
}

TEST(AnswerTest, Description) {
  EXPECT_EQ(Described(Checkpoint()),
            "modelA/step-100 (step 100, 1.07 GB (1020 MiB), 12 files, torch)");
}

TEST(AnswerTest, WhatWentWrongIsOnStandardError) {
  BatchReport report;
  report.outcomes = {
      OutcomeOf("a/1", Outcome::Kind::kDone, ""),
      OutcomeOf("a/2", Outcome::Kind::kFailed, "the disk is full"),
      OutcomeOf("a/3", Outcome::Kind::kNothingToDo, "")};
  const Said said = SaidOf(report, Asked::kNamed);
  EXPECT_EQ(said.code, ExitCode::kPartly);
  EXPECT_EQ(said.err, "cairn export: a/2: failed: the disk is full\n");
  EXPECT_THAT(said.out, HasSubstr("exported 1 checkpoint, 5.00 MB"));
  EXPECT_THAT(said.out, HasSubstr("1 archived already; 1 not, see above"));
  EXPECT_THAT(said.out, HasSubstr("a/3"));
}

TEST(AnswerTest, WithAllWhatNeedsNothingIsOnlyCounted) {
  BatchReport report;
  report.dry_run = true;
  report.outcomes = {OutcomeOf("a/1", Outcome::Kind::kDone, ""),
                     OutcomeOf("a/3", Outcome::Kind::kNothingToDo, "")};
  const Said said = SaidOf(report, Asked::kEverything);
  EXPECT_EQ(said.code, ExitCode::kDone);
  EXPECT_THAT(said.out, Not(HasSubstr("a/3")));
  EXPECT_THAT(said.out, HasSubstr("would export 1 checkpoint"));
  EXPECT_THAT(said.out, HasSubstr("1 archived already; nothing was changed"));
}

TEST(AnswerTest, NothingToDoIsSaid) {
  BatchReport report;
  report.outcomes = {OutcomeOf("a/3", Outcome::Kind::kNothingToDo, "")};
  EXPECT_EQ(SaidOf(report, Asked::kEverything).out,
            "nothing to do; 1 archived already\n");
  EXPECT_EQ(SaidOf(report, Asked::kNamed).code, ExitCode::kNothing);
}

TEST(AnswerTest, ANameThatMatchesNothingIsSaid) {
  const Said said = SaidOf(BatchReport(), Asked::kNamed);
  EXPECT_EQ(said.code, ExitCode::kNothing);
  EXPECT_THAT(said.err, HasSubstr("no checkpoint of that name"));
}

TEST(AnswerTest, JsonHasStandardOutputForItself) {
  BatchReport report;
  report.outcomes = {OutcomeOf("a/2", Outcome::Kind::kDamaged, "bad block")};
  const Said said = SaidOf(report, Asked::kEverything, true);
  EXPECT_EQ(said.code, ExitCode::kDamaged);
  EXPECT_TRUE(said.out.starts_with("{")) << said.out;
  EXPECT_THAT(said.err, HasSubstr("a/2: damaged: bad block"));
}

}  // namespace
}  // namespace cairn
