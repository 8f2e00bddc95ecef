// What concerns every framework: the generic rule, staging, users' rules,
// errors, cost. The frameworks themselves are in framework_rules_test.cc.

#include "format/recogniser.h"

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "format/judge.h"
#include "testing/recogniser_fixture.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// --- The generic rule ---

TEST_F(RecogniserTest, GenericIsUnknownUnlessSaidOtherwise) {
  tree_.Put("m/step_100/model.pt", SampleTorchFile());
  tree_.Put("m/step_100/optim.pt", SampleTorchFile());
  Touch("m");
  ExpectVerdict("m/step_100", Verdict::kUnknown, "no commit record");
  EXPECT_THAT(One("m/step_100").reason, HasSubstr("cairn commit"));
  EXPECT_THAT(One("m/step_100").reason, HasSubstr("[[framework]]"));
  EXPECT_EQ(One("m/step_100").framework, "generic");
  EXPECT_EQ(One("m/step_100").step, 100);

  Use({.user_rules = {}, .generic_quiet = absl::Minutes(10)});
  ExpectVerdict("m/step_100", Verdict::kWriting, "unchanged for 10 min");
  now_ += absl::Minutes(11);
  ExpectVerdict("m/step_100", Verdict::kComplete, "nothing has changed");
}

TEST_F(RecogniserTest, GenericMarkersCountAtOnce) {
  for (const char* marker :
       {"DONE", "COMPLETE", "_SUCCESS", ".complete", "commit_success.txt"}) {
    const std::string base = std::string("m/ckpt-7") + marker[0];
    tree_.Put("x/ckpt-7/model.pt", SampleTorchFile());
    tree_.Put(std::string("x/ckpt-7/") + marker, "");
    Touch("x");
    ExpectVerdict("x/ckpt-7", Verdict::kComplete, marker);
    EXPECT_EQ(One("x/ckpt-7").marker, marker);
    tree_.Put("x/ckpt-7/model.pt", "");
    ExpectVerdict("x/ckpt-7", Verdict::kDamaged, "model.pt");
    tree_.Remove("x/ckpt-7");
  }
}

TEST_F(RecogniserTest, GenericDamage) {
  const std::string whole = SampleTorchFile();
  tree_.Put("m/step-300/model.pt", whole.substr(0, whole.size() / 2));
  ExpectVerdict("m/step-300", Verdict::kDamaged, "model.pt");
  Touch("m");
  ExpectVerdict("m/step-300", Verdict::kWriting, "model.pt");
  tree_.MakeDirectory("m/step-400", Now());
  Use({.user_rules = {}, .generic_quiet = absl::Minutes(10)});
  EXPECT_NE(One("m/step-400").verdict, Verdict::kComplete);
}

TEST_F(RecogniserTest, GenericNames) {
  const std::tuple<const char*, int64_t, int64_t> names[] = {
      {"step-100", 100, -1},
      {"step_100", 100, -1},
      {"step100", 100, -1},
      {"ckpt-0100", 100, -1},
      {"checkpoint-100", 100, -1},
      {"checkpoint_100", 100, -1},
      {"global_step100", 100, -1},
      {"epoch_3", -1, 3},
      {"epoch=10-step=950", 950, 10},
      {"100", 100, -1},
      {"iter_0000100", 100, -1},
      {"llama-step-5", 5, -1},
      {"m--val=2.5-step=1000-last", 1000, -1}};
  for (const auto& [name, step, epoch] : names) {
    tree_.Put(std::string("m/") + name + "/weights.pt", SampleTorchFile());
    const Finding finding = One(std::string("m/") + name);
    EXPECT_EQ(finding.framework, "generic") << name;
    EXPECT_EQ(finding.step.value_or(-1), step) << name;
    EXPECT_EQ(finding.epoch.value_or(-1), epoch) << name;
  }
}

TEST_F(RecogniserTest, DirectoriesThatAreNoCheckpoints) {
  tree_.Put("2024/train/0/cat.png", "x");                // Classes, years.
  tree_.Put("trial/7/model-100.pt", SampleTorchFile());  // A trial's run.
  tree_.Put("trial/7/model-200.pt", SampleTorchFile());
  tree_.Put("m/epoch_1/step_10/w.pt", SampleTorchFile());
  tree_.Put("m/logs/events", "x");
  tree_.Put("m/.git/config", "x");
  for (const char* path : {"2024", "2024/train/0", "m/epoch_1", "m/logs"}) {
    EXPECT_THAT(In(path).findings, IsEmpty()) << path;
    EXPECT_THAT(recogniser_->ExamineOne(tree_, path, now_),
                FailsWith(absl::StatusCode::kNotFound, "[[framework]]"));
  }
  EXPECT_EQ(In("trial/7").findings.size(), 2u);
  EXPECT_THAT(In("m").descend, ElementsAre("m/epoch_1", "m/logs"));
  EXPECT_THAT(In("m").ignored, ElementsAre(Pair(".git", "hidden")));
  EXPECT_THAT(In("").descend, ElementsAre("2024", "m", "trial"));
  // One model of several ranks is one checkpoint.
  tree_.Put("m/30/model_rank_0.pt", SampleTorchFile());
  tree_.Put("m/30/model_rank_1.pt", SampleTorchFile());
  EXPECT_EQ(One("m/30").layout, Layout::kDirectory);
}

// --- Staging ---

TEST_F(RecogniserTest, StagingIsNeverACheckpoint) {
  const std::pair<const char*, int64_t> names[] = {
      {"tmp-checkpoint-400", 400}, {"step-400.tmp", 400},
      {".tmp_step-400", 400},      {"tmp_step-400", 400},
      {"step-400.tmp.1234", 400},  {".step-400.partial", 400}};
  for (const auto& [name, step] : names) {
    const std::string path = std::string("m/") + name;
    PutTrainer(path, 400);
    tree_.Put(path + "/DONE", "");
    const auto examined = In(path);
    ASSERT_EQ(examined.findings.size(), 1u) << name;
    EXPECT_EQ(examined.findings[0].verdict, Verdict::kWriting) << name;
    EXPECT_THAT(examined.findings[0].reason, HasSubstr("stale staging?"));
    EXPECT_EQ(examined.findings[0].step, step) << name;
    EXPECT_EQ(examined.findings[0].name, name);
    EXPECT_THAT(In("m").descend, testing::Contains(path));
  }
}

TEST_F(RecogniserTest, StagingByItsContent) {
  PutDcp("m/.tmpXyZ");
  ExpectVerdict("m/.tmpXyZ", Verdict::kWriting, "stale staging?");
  // A run may be called what it likes.
  PutTrainer("tmp_experiment/checkpoint-5", 5);
  EXPECT_THAT(In("tmp_experiment").findings, IsEmpty());
  EXPECT_THAT(In("tmp_experiment").descend,
              ElementsAre("tmp_experiment/checkpoint-5"));
  tree_.Put(".tmpfiles/notes.txt", "x");
  EXPECT_THAT(In(".tmpfiles").findings, IsEmpty());
  EXPECT_THAT(In(".tmpfiles").descend, IsEmpty());
}

TEST_F(RecogniserTest, TemporaryFileInsideHoldsBackOnlyWithoutAMarker) {
  PutTrainer("m/checkpoint-5", 5);
  tree_.Put("m/checkpoint-5/.tmpAbC", "half", Now());
  ExpectVerdict("m/checkpoint-5", Verdict::kComplete);
  tree_.Put("m/checkpoint_5/random_states_0.pkl", SamplePickle({}));
  tree_.Put("m/checkpoint_5/.tmpAbC", "half", Now());
  ExpectVerdict("m/checkpoint_5", Verdict::kWriting, ".tmpAbC");
  now_ += 2 * kFreshFor;
  ExpectVerdict("m/checkpoint_5", Verdict::kComplete);
}

// --- Users' rules ---

TEST_F(RecogniserTest, UserRule) {
  UserRule rule;
  rule.name = "ours";
  rule.directory = R"(save_e(?P<epoch>\d+)_s(?P<step>\d+))";
  rule.complete = {"DONE", "sub/ALSO"};
  rule.in_progress = {"*.lock"};
  rule.pointer = "newest";
  rule.pointer_content = "{name} at {step}/{epoch}\n";
  Use({.user_rules = {rule}, .generic_quiet = {}});
  const std::string base = "m/save_e2_s30";
  tree_.Put(base + "/model.pt", SampleTorchFile());
  tree_.Put(base + "/DONE", "", MemoryTree::kOldNs + 5);
  Touch("m");
  ExpectVerdict(base, Verdict::kWriting, "sub/ALSO");
  tree_.Put(base + "/sub/ALSO", "", MemoryTree::kOldNs + 9);
  tree_.SetTimes("m", MemoryTree::kOldNs);
  tree_.SetTime(base + "/sub/ALSO", MemoryTree::kOldNs + 9);
  const Finding finding = One(base);
  EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
  EXPECT_EQ(finding.framework, "ours");
  EXPECT_EQ(finding.step, 30);
  EXPECT_EQ(finding.epoch, 2);
  EXPECT_EQ(finding.marker, "DONE");
  EXPECT_EQ(finding.marker_mtime_ns, MemoryTree::kOldNs + 9);
  EXPECT_THAT(finding.pointers,
              ElementsAre(PointerFile{"newest", "save_e2_s30 at 30/2\n"}));
  tree_.Put(base + "/sub/x.lock", "");
  ExpectVerdict(base, Verdict::kWriting, "x.lock");
  tree_.Remove(base + "/sub/x.lock");
  tree_.Put(base + "/model.pt", std::string(10, '\0'));
  ExpectVerdict(base, Verdict::kDamaged, "model.pt");
  tree_.Put("m/newest", "x");
  EXPECT_THAT(In("m").ignored, IsEmpty());
}

TEST_F(RecogniserTest, UserRuleComesFirstAndMayBeQuiet) {
  UserRule rule;
  rule.name = "mine";
  rule.directory = R"(checkpoint-(?P<step>\d+))";
  rule.quiet = absl::Minutes(5);
  Use({.user_rules = {rule}, .generic_quiet = {}});
  PutTrainer("m/checkpoint-5", 5);
  Touch("m");
  EXPECT_EQ(One("m/checkpoint-5").framework, "mine");
  ExpectVerdict("m/checkpoint-5", Verdict::kWriting, "unchanged");
  now_ += absl::Minutes(6);
  ExpectVerdict("m/checkpoint-5", Verdict::kComplete);
  EXPECT_EQ(recogniser_->Describe().at(0).first, "mine");
}

TEST_F(RecogniserTest, UserRuleRefused) {
  const auto create = [](UserRule rule) {
    return Recogniser::Create(
               {.user_rules = {std::move(rule)}, .generic_quiet = {}})
        .status();
  };
  UserRule good;
  good.name = "ours";
  good.directory = "a";
  good.complete = {"DONE"};
  EXPECT_OK(create(good));
  const auto refused = [&](void (*change)(UserRule&), const char* text) {
    UserRule rule = good;
    change(rule);
    EXPECT_THAT(create(rule),
                FailsWith(absl::StatusCode::kInvalidArgument, text));
  };
  refused([](UserRule& r) { r.name = ""; }, "no name");
  refused([](UserRule& r) { r.name = "dcp"; }, "another rule");
  refused([](UserRule& r) { r.directory = "("; }, "'ours'");
  refused([](UserRule& r) { r.directory = "(a+)+"; }, "forever");
  refused([](UserRule& r) { r.complete = {}; }, "nothing says");
  refused([](UserRule& r) { r.complete = {"/etc/x"}; }, "absolute");
  refused([](UserRule& r) { r.quiet = absl::Seconds(-1); }, "negative");
  EXPECT_THAT(
      Recogniser::Create({.user_rules = {good, good}, .generic_quiet = {}}),
      FailsWith(absl::StatusCode::kInvalidArgument, "another rule"));
}

// --- What concerns all of them ---

TEST_F(RecogniserTest, ReasonsArePrintableWhateverTheNames) {
  tree_.Put("m/step_1/a\n\xff.pt", "");
  const Finding finding = One("m/step_1");
  EXPECT_EQ(finding.verdict, Verdict::kDamaged);
  EXPECT_THAT(finding.reason, HasSubstr("a%0A%FF.pt"));
}

TEST_F(RecogniserTest, ErrorsOfTheTreeAreErrorsAndUnreadableFilesAreNot) {
  PutTrainer("m/checkpoint-5", 5);
  tree_.FailAt("m/checkpoint-5/optimizer.pt",
               absl::PermissionDeniedError("cannot open"));
  ExpectVerdict("m/checkpoint-5", Verdict::kUnknown, "optimizer.pt");
  tree_.FailAt("m/checkpoint-5/optimizer.pt",
               absl::UnavailableError("stale handle"));
  EXPECT_THAT(recogniser_->Examine(tree_, "m/checkpoint-5", now_),
              HasCode(absl::StatusCode::kUnavailable));
  tree_.FailAt("m/checkpoint-5/optimizer.pt", absl::NotFoundError("gone"));
  ExpectVerdict("m/checkpoint-5", Verdict::kWriting, "gone");
  EXPECT_THAT(recogniser_->Examine(tree_, "absent", now_),
              HasCode(absl::StatusCode::kNotFound));
  EXPECT_THAT(recogniser_->ExamineOne(tree_, "m/absent", now_),
              HasCode(absl::StatusCode::kNotFound));
  EXPECT_THAT(recogniser_->ExamineOne(tree_, "", now_),
              HasCode(absl::StatusCode::kNotFound));
}

TEST_F(RecogniserTest, RunAtTheRootOfTheTier) {
  PutTrainer("checkpoint-5", 5);
  tree_.Put("model-3.pt", SampleTorchFile());
  EXPECT_EQ(One("checkpoint-5").run, "");
  EXPECT_EQ(One("checkpoint-5/").name, "checkpoint-5");
  EXPECT_EQ(One("model-3.pt").run, "");
  const auto examined = In("");
  EXPECT_EQ(examined.findings.size(), 1u);
  EXPECT_THAT(examined.descend, ElementsAre("checkpoint-5"));
}

TEST_F(RecogniserTest, ListsEachDirectoryOnceAndReadsFilesAFewTimes) {
  PutTrainer("m/checkpoint-5", 5);
  PutDcp("m/checkpoint-5/pytorch_model_fsdp_0");
  In("m/checkpoint-5");
  EXPECT_EQ(tree_.lists(), 2);
  EXPECT_LE(tree_.opens(), 8);
  EXPECT_LE(tree_.reads(), 40);
}

TEST_F(RecogniserTest, TenThousandEntries) {
  for (int i = 0; i < 10000; ++i) {
    tree_.MakeDirectory(fmt::format("runs/checkpoint-{}", i));
    tree_.Put(fmt::format("tokens/shard_{:05}.idx", i), "x");
    tree_.Put(fmt::format("m/global_step1000/zero_pp_rank_{}_mp_rank_00_optim_"
                          "states.pt",
                          i),
              "");
  }
  const absl::Time start = absl::Now();
  EXPECT_EQ(In("runs").descend.size(), 10000u);
  EXPECT_EQ(In("tokens").ignored.size(), 10000u);
  EXPECT_EQ(In("m/global_step1000").findings.size(), 1u);
  // A square of 10,000 would be far beyond this, sanitizers and all.
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
}

TEST_F(RecogniserTest, RanksThatNobodyHasDoNotCostTime) {
  tree_.Put("m/t/zero_pp_rank_9223372036854775806_mp_rank_00_optim_states.pt",
            "x");
  tree_.Put("m/t/mp_rank_999999999999_model_states.pt", "x");
  tree_.Put("m/t/model-00001-of-99999999999.safetensors", "x");
  EXPECT_NE(One("m/t").verdict, Verdict::kComplete);
}

TEST_F(RecogniserTest, DescribeNamesEveryRule) {
  std::vector<std::string> names;
  for (const auto& [name, summary] : recogniser_->Describe()) {
    names.push_back(name);
    EXPECT_FALSE(summary.empty()) << name;
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"huggingface", "deepspeed",
                                            "megatron-dist", "orbax", "dcp",
                                            "lightning", "torch", "generic"}));
}

}  // namespace
}  // namespace cairn
