// The engine over a core tier that fails: at every call of every verb in turn,
// with the call refused or its reply lost, and with bytes changed on the way.
// After each failure nothing counts as archived that is not, and the same call
// again finishes.

#include <filesystem>

#include "engine/checkpoint_files.h"
#include "engine/releaser.h"
#include "engine/sweeper.h"
#include "engine/verifier.h"
#include "testing/engine_fixture.h"

namespace cairn {
namespace {

using Fault = FaultyObjectStore::Fault;
using Verb = FaultyObjectStore::Verb;

class FaultsTest : public EngineFixture {
 protected:
  // What the core tier says, read without faults: no manifest, or all it names.
  void ExpectArchivedOrNothing(int step) {
    faulty_->ClearScripts();
    CheckpointRecord record = Newest(step);
    const absl::StatusOr<Manifest> manifest =
        ReadCoreManifest(context_, record);
    if (absl::IsNotFound(manifest.status())) {
      EXPECT_FALSE(record.core.manifest);
      return;
    }
    ASSERT_OK(manifest);
    const auto found = CompareCore(context_, *manifest, /*quick=*/false);
    ASSERT_OK(found);
    EXPECT_TRUE(found->empty()) << found->front().message;
  }

  // Fails the n-th call of `verb` during an export, for every n that there is.
  void FailEveryCall(Verb verb, Fault fault) {
    for (int skip = 0;; ++skip) {
      const int step = ++steps_;
      MakeCheckpoint(step, static_cast<uint64_t>(step) * 100);
      ASSERT_OK(Scan());
      const int before = faulty_->calls(verb);
      faulty_->Fail(verb, {.fault = fault, .skip = skip});
      const Outcome first = Export(step);
      const bool reached = faulty_->calls(verb) - before > skip;
      ExpectArchivedOrNothing(step);
      const Outcome again = Export(step);
      EXPECT_TRUE(again.kind == Outcome::Kind::kDone ||
                  again.kind == Outcome::Kind::kNothingToDo)
          << again.message;
      EXPECT_TRUE(Newest(step).core.manifest) << "call " << skip;
      ExpectArchivedOrNothing(step);
      if (!reached) return;
      ASSERT_LT(skip, 100);
    }
  }

  int steps_ = 0;
  int damages_ = 0;
};

TEST_F(FaultsTest, EveryRefusedPut) {
  FailEveryCall(Verb::kPut, Fault::kRefuse);
}

TEST_F(FaultsTest, EveryLostReplyOfAPut) {
  FailEveryCall(Verb::kPut, Fault::kApplyThenLoseReply);
}

TEST_F(FaultsTest, EveryPartRefusedOrItsReplyLost) {
  FailEveryCall(Verb::kAddPart, Fault::kRefuse);
  FailEveryCall(Verb::kAddPart, Fault::kApplyThenLoseReply);
}

TEST_F(FaultsTest, EveryCommitRefusedOrItsReplyLost) {
  FailEveryCall(Verb::kCommit, Fault::kRefuse);
  FailEveryCall(Verb::kCommit, Fault::kApplyThenLoseReply);
}

TEST_F(FaultsTest, EveryStatListAndBeginRefused) {
  FailEveryCall(Verb::kStat, Fault::kRefuse);
  FailEveryCall(Verb::kList, Fault::kRefuse);
  FailEveryCall(Verb::kBeginUpload, Fault::kRefuse);
  FailEveryCall(Verb::kListUploads, Fault::kRefuse);
}

// A store that checks what it is given and damages it afterwards can't be
// caught by an export; a verify finds every such byte, whichever object it is
// in.
TEST_F(FaultsTest, BytesChangedBehindTheStoresBackAreFound) {
  for (const Verb verb : {Verb::kPut, Verb::kAddPart}) {
    for (int skip = 0;; ++skip) {
      const int step = ++steps_;
      MakeCheckpoint(step, static_cast<uint64_t>(step) * 100);
      ASSERT_OK(Scan());
      const int before = faulty_->calls(verb);
      faulty_->Fail(verb, {.fault = Fault::kFlipByte, .skip = skip});
      ASSERT_EQ(Export(step).kind, Outcome::Kind::kDone);
      const bool reached = faulty_->calls(verb) - before > skip;
      faulty_->ClearScripts();
      VerifyOptions core_only;
      core_only.tier = TierChoice::kCore;
      const auto verified = VerifyCheckpoint(context_, Newest(step), core_only);
      ASSERT_OK(verified);
      EXPECT_TRUE(verified->front().good || reached) << "call " << skip;
      damages_ += !verified->front().good;
      if (!reached) break;
    }
  }
  // Three of four small objects (one is empty), the manifest, and three parts.
  EXPECT_GE(damages_, 7);
}

TEST_F(FaultsTest, ARestoreNamesTheFileAndTheOffsetOfABadByte) {
  MakeCheckpoint(1, 7);
  ASSERT_OK(Scan());
  ASSERT_EQ(Export(1).kind, Outcome::Kind::kDone);
  std::filesystem::remove_all(File("run/ckpt-1"));
  ASSERT_OK(Scan());
  memory_.FlipByte("run/ckpt-1/large.bin", kDigestBlockBytes + 17);
  const auto report = RestoreCheckpoint(context_, "run/ckpt-1", {});
  EXPECT_THAT(report,
              FailsWith(absl::StatusCode::kDataLoss, "run/ckpt-1/large.bin"));
  EXPECT_THAT(report, FailsWith(absl::StatusCode::kDataLoss, "offset 8388608"));
  EXPECT_FALSE(std::filesystem::exists(File("run/ckpt-1")));
  EXPECT_TRUE(Newest(1).core.damaged);
}

TEST_F(FaultsTest, ARestoreGoesOnWhereItFailed) {
  MakeCheckpoint(1, 7);
  const std::string large = ReadTestFile(File("run/ckpt-1/large.bin"));
  ASSERT_OK(Scan());
  ASSERT_EQ(Export(1).kind, Outcome::Kind::kDone);
  std::filesystem::remove_all(File("run/ckpt-1"));
  ASSERT_OK(Scan());
  // The manifest, and some blocks; then the store is gone.
  faulty_->Fail(Verb::kReadAt, {.skip = 4, .times = 100});
  EXPECT_FALSE(RestoreCheckpoint(context_, "run/ckpt-1", {}).ok());
  EXPECT_FALSE(std::filesystem::exists(File("run/ckpt-1")));
  faulty_->ClearScripts();
  const auto report = RestoreCheckpoint(context_, "run/ckpt-1", {});
  ASSERT_OK(report);
  EXPECT_GT(report->bytes_skipped, 0u);
  EXPECT_EQ(report->bytes + report->bytes_skipped, Newest(1).bytes);
  EXPECT_EQ(ReadTestFile(File("run/ckpt-1/large.bin")), large);
}

TEST_F(FaultsTest, AnIncompleteListingSweepsNothing) {
  MakeCheckpoint(1, 7);
  ASSERT_OK(Scan());
  ASSERT_EQ(Export(1).kind, Outcome::Kind::kDone);
  ASSERT_OK(memory_.Put(".cairn/objects/orphan", AsBytes("x"), {}));
  const size_t before = memory_.size();
  faulty_->Fail(Verb::kList, {.fault = Fault::kStopHalfway, .times = 100});
  EXPECT_FALSE(SweepStore(context_, {}).ok());
  EXPECT_EQ(memory_.size(), before);
  faulty_->ClearScripts();
  ASSERT_OK(SweepStore(context_, {}));
  EXPECT_EQ(memory_.size(), before - 1);
}

TEST_F(FaultsTest, ARewriteIsANewGenerationAndTheOlderOneStaysRestorable) {
  MakeCheckpoint(1, 7);
  ASSERT_OK(Scan());
  ASSERT_EQ(Export(1).kind, Outcome::Kind::kDone);
  const CheckpointRecord older = Newest(1);
  const std::string old_content = ReadTestFile(File("run/ckpt-1/a.bin"));
  std::filesystem::remove_all(File("run/ckpt-1"));
  MakeCheckpoint(1, 8);
  clock_.Set(clock_.Now() - absl::Hours(24));  // Set back: newest stays newest.
  ASSERT_OK(Scan());
  ASSERT_EQ(Export(1).kind, Outcome::Kind::kDone);
  const CheckpointRecord newer = Newest(1);
  EXPECT_NE(newer.generation, older.generation);
  EXPECT_GT(newer.sequence, older.sequence);
  RestoreOptions options;
  options.generation = older.generation;
  EXPECT_THAT(RestoreCheckpoint(context_, "run/ckpt-1", options),
              HasCode(absl::StatusCode::kFailedPrecondition));
  options.force = true;
  ASSERT_OK(RestoreCheckpoint(context_, "run/ckpt-1", options));
  EXPECT_EQ(ReadTestFile(File("run/ckpt-1/a.bin")), old_content);
}

TEST_F(FaultsTest, AFileThatComesLaterDoesNotMakeAnOldCheckpointTheNewest) {
  MakeCheckpoint(900, 7);
  ASSERT_OK(Scan());
  clock_.SleepFor(absl::Seconds(1));
  MakeCheckpoint(1000, 8);
  ASSERT_OK(Scan());
  ASSERT_EQ(Export(900).kind, Outcome::Kind::kDone);
  ASSERT_EQ(Export(1000).kind, Outcome::Kind::kDone);
  const std::string older = Newest(900).generation;
  WriteTestFile(File("run/ckpt-900/eval.json"), "{}");
  ASSERT_OK(Scan());
  EXPECT_NE(Newest(900).generation, older);
  EXPECT_LT(Newest(900).sequence, Newest(1000).sequence);
}

TEST_F(FaultsTest, AReleaseBelievesTheMarksNotTheCatalog) {
  MakeCheckpoint(1, 7);
  ASSERT_OK(Scan());
  MakeCheckpoint(2, 8);
  ASSERT_OK(Scan());
  ASSERT_EQ(Export(1).kind, Outcome::Kind::kDone);
  ASSERT_EQ(Export(2).kind, Outcome::Kind::kDone);
  // Pinned by another process, whose catalog update has not come yet.
  Mark pin;
  pin.kind = MarkKind::kPin;
  ASSERT_OK(WriteMark(context_, "run/ckpt-1", pin));
  ASSERT_FALSE(Newest(1).pinned);
  const Outcome refused = ReleaseCheckpoint(context_, Newest(1), false);
  EXPECT_EQ(refused.kind, Outcome::Kind::kRefused);
  EXPECT_EQ(refused.message, "kept: pinned");
  EXPECT_TRUE(std::filesystem::exists(File("run/ckpt-1/DONE")));
}

TEST_F(FaultsTest, AReleaseLooksAtTheArchivedCopyFirst) {
  MakeCheckpoint(1, 7);
  ASSERT_OK(Scan());
  MakeCheckpoint(2, 8);
  ASSERT_OK(Scan());
  ASSERT_EQ(Export(1).kind, Outcome::Kind::kDone);
  ASSERT_EQ(Export(2).kind, Outcome::Kind::kDone);
  ASSERT_OK(memory_.Remove("run/ckpt-1/a.bin"));
  const Outcome refused = ReleaseCheckpoint(context_, Newest(1), false);
  EXPECT_EQ(refused.kind, Outcome::Kind::kRefused);
  EXPECT_TRUE(std::filesystem::exists(File("run/ckpt-1/DONE")));
}

}  // namespace
}  // namespace cairn
