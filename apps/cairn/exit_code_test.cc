#include "apps/cairn/exit_code.h"

#include <gtest/gtest.h>

#include <vector>

namespace cairn {
namespace {

using Kind = Outcome::Kind;

ExitCode CodeOf(const std::vector<Kind>& kinds, Asked asked) {
  BatchReport report;
  for (const Kind kind : kinds) {
    report.outcomes.emplace_back();
    report.outcomes.back().kind = kind;
  }
  return ExitCodeOf(report, asked);
}

TEST(ExitCodeTest, TheNumbersAreAPromise) {
  EXPECT_EQ(static_cast<int>(ExitCode::kDone), 0);
  EXPECT_EQ(static_cast<int>(ExitCode::kFailed), 1);
  EXPECT_EQ(static_cast<int>(ExitCode::kUsage), 2);
  EXPECT_EQ(static_cast<int>(ExitCode::kDamaged), 3);
  EXPECT_EQ(static_cast<int>(ExitCode::kNothing), 4);
  EXPECT_EQ(static_cast<int>(ExitCode::kPartly), 5);
}

TEST(ExitCodeTest, OfAStatus) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), ExitCode::kDone);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(absl::DataLossError("")), ExitCode::kDamaged);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("")), ExitCode::kFailed);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("")), ExitCode::kFailed);
}

TEST(ExitCodeTest, NothingToDoMattersOnlyWhereNamed) {
  for (const auto& kinds :
       {std::vector<Kind>{}, std::vector<Kind>{Kind::kNothingToDo}}) {
    EXPECT_EQ(CodeOf(kinds, Asked::kNamed), ExitCode::kNothing);
    EXPECT_EQ(CodeOf(kinds, Asked::kEverything), ExitCode::kDone);
    EXPECT_EQ(CodeOf(kinds, Asked::kEverythingAllowed), ExitCode::kDone);
  }
  EXPECT_EQ(CodeOf({Kind::kDone, Kind::kNothingToDo}, Asked::kNamed),
            ExitCode::kDone);
}

TEST(ExitCodeTest, PartlyWhereSomeFailed) {
  EXPECT_EQ(CodeOf({Kind::kFailed}, Asked::kNamed), ExitCode::kFailed);
  EXPECT_EQ(CodeOf({Kind::kRefused}, Asked::kNamed), ExitCode::kFailed);
  EXPECT_EQ(CodeOf({Kind::kFailed, Kind::kDone}, Asked::kNamed),
            ExitCode::kPartly);
  EXPECT_EQ(CodeOf({Kind::kFailed, Kind::kNothingToDo}, Asked::kEverything),
            ExitCode::kPartly);
  EXPECT_EQ(CodeOf({Kind::kRefused, Kind::kDone}, Asked::kEverything),
            ExitCode::kPartly);
}

TEST(ExitCodeTest, WhatGuardsKeepIsAsItShouldBe) {
  EXPECT_EQ(CodeOf({Kind::kRefused}, Asked::kEverythingAllowed),
            ExitCode::kDone);
  EXPECT_EQ(CodeOf({Kind::kRefused, Kind::kFailed}, Asked::kEverythingAllowed),
            ExitCode::kPartly);
}

TEST(ExitCodeTest, DamageOutranksAll) {
  for (const Asked asked : {Asked::kNamed, Asked::kEverything}) {
    EXPECT_EQ(CodeOf({Kind::kDone, Kind::kDamaged, Kind::kFailed}, asked),
              ExitCode::kDamaged);
  }
}

TEST(ExitCodeTest, OfVerify) {
  VerifyReport report;
  EXPECT_EQ(ExitCodeOf(report, Asked::kNamed), ExitCode::kNothing);
  EXPECT_EQ(ExitCodeOf(report, Asked::kEverything), ExitCode::kDone);
  report.outcomes.emplace_back().good = true;
  EXPECT_EQ(ExitCodeOf(report, Asked::kNamed), ExitCode::kDone);
  report.outcomes.emplace_back();  // Unreadable.
  EXPECT_EQ(ExitCodeOf(report, Asked::kNamed), ExitCode::kPartly);
  report.outcomes.back().damages.emplace_back();
  EXPECT_EQ(ExitCodeOf(report, Asked::kNamed), ExitCode::kDamaged);
}

TEST(ExitCodeTest, OfOtherReports) {
  ScanReport scan;
  scan.changes.emplace_back().kind = Kind::kDone;
  scan.candidates.emplace_back().verdict = "damaged";  // Not a checkpoint.
  EXPECT_EQ(ExitCodeOf(scan), ExitCode::kDone);
  scan.changes.emplace_back().kind = Kind::kFailed;
  EXPECT_EQ(ExitCodeOf(scan), ExitCode::kPartly);
  scan.changes.emplace_back().kind = Kind::kDamaged;
  EXPECT_EQ(ExitCodeOf(scan), ExitCode::kDamaged);

  StatusReport status;
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kDone);
  status.lost = 1;
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kDamaged);

  RebuildReport rebuild;
  EXPECT_EQ(ExitCodeOf(rebuild), ExitCode::kDone);
  rebuild.warnings.emplace_back("a manifest");
  EXPECT_EQ(ExitCodeOf(rebuild), ExitCode::kDamaged);

  DoctorReport doctor;
  doctor.items.emplace_back().level = DoctorItem::Level::kNote;
  EXPECT_EQ(ExitCodeOf(doctor), ExitCode::kDone);
  doctor.items.emplace_back().level = DoctorItem::Level::kBad;
  EXPECT_EQ(ExitCodeOf(doctor), ExitCode::kFailed);
}

}  // namespace
}  // namespace cairn
