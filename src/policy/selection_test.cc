// Every guard of a release, one by one, and every piece of evidence that tells
// a rewrite from damage. Pure functions: the cases are the specification.

#include "policy/selection.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cairn {
namespace {

constexpr int64_t kNow = 1'000'000;

CheckpointRecord Archived(uint64_t sequence) {
  CheckpointRecord record;
  record.run = "run";
  record.name = "step-" + std::to_string(sequence);
  record.sequence = sequence;
  record.generation = std::string(32, 'a' + static_cast<char>(sequence % 26));
  record.accelerator.manifest = true;
  record.accelerator.present = true;
  record.core.manifest = true;
  record.core.present = true;
  record.core.verified_ns = 5;
  return record;
}

std::string Reason(const CheckpointRecord& record,
                   const CheckpointRecord& newest) {
  const ReleaseDecision decision =
      DecideRelease(record, {newest, record}, kNow);
  return decision.allowed ? "" : decision.reason;
}

TEST(DecideReleaseTest, LetsGoWhatIsArchivedAndNotTheNewest) {
  EXPECT_EQ(Reason(Archived(1), Archived(2)), "");
}

TEST(DecideReleaseTest, EachGuardHolds) {
  const CheckpointRecord newest = Archived(2);
  CheckpointRecord record = Archived(1);
  record.accelerator.present = false;
  EXPECT_EQ(Reason(record, newest), "kept: not on the accelerator tier");
  record = Archived(1);
  record.core.manifest = false;
  EXPECT_EQ(Reason(record, newest), "kept: not archived");
  record = Archived(1);
  record.core.damaged = true;
  EXPECT_EQ(Reason(record, newest), "kept: its archived copy is damaged");
  record = Archived(1);
  record.core.verified_ns = 0;
  EXPECT_EQ(Reason(record, newest),
            "kept: its archived copy was never verified");
  record = Archived(1);
  record.dirty = true;
  EXPECT_EQ(Reason(record, newest), "kept: changed since it was archived");
  record = Archived(1);
  record.pinned = true;
  EXPECT_EQ(Reason(record, newest), "kept: pinned");
  record = Archived(1);
  record.hold_until_ns = kNow + 1;
  EXPECT_EQ(Reason(record, newest), "kept: on hold");
  record.hold_until_ns = kNow;  // Over.
  EXPECT_EQ(Reason(record, newest), "");
}

TEST(DecideReleaseTest, NewestRestorableStaysThoughANewerOneIsLost) {
  CheckpointRecord lost = Archived(3);
  lost.core.damaged = true;
  lost.accelerator.damaged = true;
  EXPECT_EQ(Reason(Archived(2), lost), "kept: newest of run");
  lost.accelerator.damaged = false;
  EXPECT_EQ(Reason(Archived(2), lost), "");
}

TEST(OrderTest, NewestIsBySequenceAlone) {
  std::vector<CheckpointRecord> records = {Archived(900), Archived(1000),
                                           Archived(950)};
  SortNewestFirst(records);
  EXPECT_EQ(records[0].sequence, 1000u);
  EXPECT_EQ(records[2].sequence, 900u);
}

TEST(OrderTest, StepsAreNumbersAndTimesBreakTies) {
  std::string warning;
  const std::vector<NewFind> order = OrderOfAdoption(
      {{.index = 0, .step = 1000, .marker_mtime_ns = 30, .name = "a"},
       {.index = 1, .step = 900, .marker_mtime_ns = 20, .name = "b"},
       {.index = 2, .step = std::nullopt, .marker_mtime_ns = 99, .name = "c"},
       {.index = 3, .step = 900, .marker_mtime_ns = 10, .name = "d"}},
      &warning);
  std::vector<size_t> indices;
  for (const NewFind& find : order) indices.push_back(find.index);
  EXPECT_EQ(indices, (std::vector<size_t>{2, 3, 1, 0}));
  EXPECT_EQ(warning, "");
}

TEST(OrderTest, StepAgainstTimeIsWarnedOf) {
  std::string warning;
  OrderOfAdoption(
      {{.index = 0, .step = 100, .marker_mtime_ns = 50, .name = "step-100"},
       {.index = 1, .step = 900, .marker_mtime_ns = 20, .name = "step-900"}},
      &warning);
  EXPECT_NE(warning.find("step-100 has a lower step than step-900"),
            std::string::npos);
}

TEST(JudgeChangeTest, TheMarkerTellsARewriteFromDamage) {
  ChangeEvidence evidence{.complete = true, .content_changed = true};
  EXPECT_EQ(JudgeChange(evidence), ChangeVerdict::kRewritten);
  evidence.marker_known = true;
  EXPECT_EQ(JudgeChange(evidence), ChangeVerdict::kDamaged);
  evidence.marker_rewritten = true;
  EXPECT_EQ(JudgeChange(evidence), ChangeVerdict::kRewritten);
  evidence.checksum_failed = true;
  EXPECT_EQ(JudgeChange(evidence), ChangeVerdict::kDamaged);
}

TEST(JudgeChangeTest, FilesThatOnlyCameToItAreNoDamage) {
  ChangeEvidence evidence{.complete = true, .marker_known = true};
  EXPECT_EQ(JudgeChange(evidence), ChangeVerdict::kRewritten);
  evidence.complete = false;
  EXPECT_EQ(JudgeChange(evidence), ChangeVerdict::kWriting);
}

TEST(JudgeChangeTest, WhatIsNotCompleteIsDamagedIfMalformed) {
  ChangeEvidence evidence{.content_changed = true};
  EXPECT_EQ(JudgeChange(evidence), ChangeVerdict::kWriting);
  evidence.malformed = true;
  EXPECT_EQ(JudgeChange(evidence), ChangeVerdict::kDamaged);
  evidence = {.marker_known = true, .files_vanished = true};
  EXPECT_EQ(JudgeChange(evidence), ChangeVerdict::kDamaged);
}

}  // namespace
}  // namespace cairn
