// One section for each framework: complete, being written, each kind of damage,
// numbers, pointers, marker.

#include "format/framework_rules.h"

#include <algorithm>
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
using ::testing::UnorderedElementsAre;

using FrameworkRulesTest = RecogniserTest;

// --- Hugging Face Trainer ---

TEST_F(FrameworkRulesTest, TrainerComplete) {
  PutTrainer("m/checkpoint-1000", 1000);
  const Finding finding = One("m/checkpoint-1000");
  EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
  EXPECT_EQ(finding.run, "m");
  EXPECT_EQ(finding.name, "checkpoint-1000");
  EXPECT_EQ(finding.layout, Layout::kDirectory);
  EXPECT_EQ(finding.framework, "huggingface");
  EXPECT_EQ(finding.step, 1000);
  EXPECT_EQ(finding.epoch, 2);
  EXPECT_EQ(finding.marker, "trainer_state.json");
  EXPECT_EQ(finding.marker_mtime_ns, MemoryTree::kOldNs);
  EXPECT_THAT(finding.pointers, IsEmpty());
}

TEST_F(FrameworkRulesTest,
       TrainerWithoutItsStateIsBeingWrittenAndLaterUnknown) {
  PutTrainer("m/checkpoint-7", 7);
  tree_.Remove("m/checkpoint-7/trainer_state.json");
  Touch("m");
  ExpectVerdict("m/checkpoint-7", Verdict::kWriting, "trainer_state.json");
  now_ += 2 * kAbandonedAfter;
  ExpectVerdict("m/checkpoint-7", Verdict::kUnknown, "no commit record");
  ExpectVerdict("m/checkpoint-7", Verdict::kUnknown, "cairn adopt");
}

TEST_F(FrameworkRulesTest, TrainerDamage) {
  const std::pair<const char*, std::string> damages[] = {
      {"trainer_state.json", ""},
      {"trainer_state.json", "{\"global_step\": 10"},
      {"trainer_state.json", std::string(64, '\0')},
      {"trainer_state.json", "{}"},
      {"trainer_state.json", "{\"global_step\": 900}"},
      {"optimizer.pt", ""},
      {"optimizer.pt", std::string(500, '\0')},
      {"optimizer.pt", SampleTorchFile().substr(0, 200)},
      {"model.safetensors", SampleSafetensors({"w"}).substr(0, 40)},
      {"config.json", ""}};
  for (const auto& [name, content] : damages) {
    PutTrainer("m/checkpoint-1000", 1000);
    tree_.Put(std::string("m/checkpoint-1000/") + name, content);
    Touch("m");  // With its marker there, new damage is damage.
    ExpectVerdict("m/checkpoint-1000", Verdict::kDamaged, name);
  }
}

TEST_F(FrameworkRulesTest, TrainerWithoutWeightsIsDamaged) {
  tree_.Put("m/checkpoint-5/trainer_state.json", "{\"global_step\":5}");
  ExpectVerdict("m/checkpoint-5", Verdict::kDamaged, "weights");
}

TEST_F(FrameworkRulesTest, TrainerWithShards) {
  PutTrainer("m/checkpoint-5", 5);
  const std::string base = "m/checkpoint-5/";
  tree_.Remove(base + "model.safetensors");
  const std::string first = "model-00001-of-00002.safetensors";
  const std::string second = "model-00002-of-00002.safetensors";
  tree_.Put(base + first, SampleSafetensors({"a", "b"}));
  tree_.Put(base + second, SampleSafetensors({"c"}));
  tree_.Put(base + "model.safetensors.index.json",
            SampleShardIndex({{"a", first}, {"b", first}, {"c", second}}));
  ExpectVerdict("m/checkpoint-5", Verdict::kComplete);

  tree_.Put(base + second, SampleSafetensors({"d"}));
  ExpectVerdict("m/checkpoint-5", Verdict::kDamaged, second);
  tree_.Remove(base + second);
  ExpectVerdict("m/checkpoint-5", Verdict::kDamaged, second);
  tree_.Remove(base + "model.safetensors.index.json");
  ExpectVerdict("m/checkpoint-5", Verdict::kDamaged, "number 2 of 2");
}

TEST_F(FrameworkRulesTest, TrainerWrapsDcpAndIsOne) {
  PutTrainer("m/checkpoint-5", 5);
  PutDcp("m/checkpoint-5/pytorch_model_fsdp_0");
  PutDcp("m/checkpoint-5/optimizer_0");
  EXPECT_THAT(In("m").descend, ElementsAre("m/checkpoint-5"));
  const auto examined = In("m/checkpoint-5");
  ASSERT_EQ(examined.findings.size(), 1u);
  EXPECT_THAT(examined.descend, IsEmpty());
  EXPECT_EQ(examined.findings[0].framework, "huggingface");
  EXPECT_EQ(examined.findings[0].verdict, Verdict::kComplete);

  tree_.Put("m/checkpoint-5/optimizer_0/__1_0.distcp", "short");
  ExpectVerdict("m/checkpoint-5", Verdict::kDamaged,
                "optimizer_0/__1_0.distcp");
  tree_.Remove("m/checkpoint-5/optimizer_0/.metadata");
  ExpectVerdict("m/checkpoint-5", Verdict::kDamaged, "optimizer_0/.metadata");
  Touch("m");  // Rank 0's state file does not wait for the others.
  ExpectVerdict("m/checkpoint-5", Verdict::kWriting, "optimizer_0/.metadata");
}

TEST_F(FrameworkRulesTest, TrainerWrapsDeepSpeedAndNeedsItsLatest) {
  PutTrainer("m/checkpoint-1000", 1000);
  PutDeepSpeed("m/checkpoint-1000/global_step1000", 2, 2);
  tree_.Put("m/checkpoint-1000/latest", "global_step1000");
  ExpectVerdict("m/checkpoint-1000", Verdict::kComplete);
  EXPECT_EQ(One("m/checkpoint-1000").framework, "huggingface");
  EXPECT_THAT(One("m/checkpoint-1000").pointers, IsEmpty());

  for (const std::string& latest :
       {std::string(), std::string(8, '\0'), std::string("global_step900")}) {
    tree_.Put("m/checkpoint-1000/latest", latest);
    ExpectVerdict("m/checkpoint-1000", Verdict::kDamaged, "latest");
  }
  tree_.Remove("m/checkpoint-1000/latest");
  ExpectVerdict("m/checkpoint-1000", Verdict::kDamaged, "latest");
  tree_.Put("m/checkpoint-1000/latest", "global_step1000");
  PutDeepSpeed("m/checkpoint-1000/global_step1000", 2, 3);
  ExpectVerdict("m/checkpoint-1000", Verdict::kDamaged,
                "zero_pp_rank_2_mp_rank_00_optim_states.pt");
}

TEST_F(FrameworkRulesTest, TrainerRankFileMissing) {
  PutTrainer("m/checkpoint-5", 5);
  tree_.Put("m/checkpoint-5/rng_state_0.pth", SampleTorchFile());
  tree_.Put("m/checkpoint-5/rng_state_2.pth", SampleTorchFile());
  ExpectVerdict("m/checkpoint-5", Verdict::kDamaged, "rng_state_1.pth");
  Touch("m");
  ExpectVerdict("m/checkpoint-5", Verdict::kWriting, "rng_state_1.pth");
}

TEST_F(FrameworkRulesTest, TrainersOutputDirectoryIsARunWhateverLiesInIt) {
  PutTrainer("m/checkpoint-5", 5);
  PutTrainer("m", 5);  // save_state() and save_model() at the end.
  tree_.Put("m/training_args.bin", SampleTorchFile());
  const auto examined = In("m");
  EXPECT_THAT(examined.descend, ElementsAre("m/checkpoint-5"));
  ASSERT_EQ(examined.findings.size(), 2u);
  EXPECT_EQ(examined.findings[0].name, "model.safetensors");
  EXPECT_EQ(examined.findings[0].framework, "safetensors");
  EXPECT_EQ(examined.findings[1].name, "optimizer.pt");
  EXPECT_THAT(
      examined.ignored,
      UnorderedElementsAre(Pair("config.json", HasSubstr("no file")),
                           Pair("trainer_state.json", testing::_),
                           Pair("training_args.bin", HasSubstr("goes with"))));
}

// --- accelerate ---

TEST_F(FrameworkRulesTest, Accelerate) {
  const std::string base = "m/checkpoints/checkpoint_12";
  tree_.Put(base + "/model.safetensors", SampleSafetensors({"w"}));
  tree_.Put(base + "/optimizer.bin", SampleTorchFile());
  tree_.Put(base + "/random_states_0.pkl", SamplePickle({{"step", 1}}));
  const Finding finding = One(base);
  EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
  EXPECT_EQ(finding.framework, "accelerate");
  EXPECT_EQ(finding.run, "m/checkpoints");
  EXPECT_EQ(finding.step, 12);
  EXPECT_EQ(finding.marker, "");  // None commits the others.

  tree_.Put(base + "/random_states_2.pkl", SamplePickle({}));
  ExpectVerdict(base, Verdict::kDamaged, "random_states_1.pkl");
  Touch("m");
  ExpectVerdict(base, Verdict::kWriting, "random_states_1.pkl");
  tree_.Remove(base + "/random_states_0.pkl");
  tree_.Remove(base + "/random_states_2.pkl");
  ExpectVerdict(base, Verdict::kWriting, "random_states_*.pkl");
}

TEST_F(FrameworkRulesTest, AccelerateKnowsItsRanksFromDcp) {
  const std::string base = "m/checkpoint_0";
  PutDcp(base + "/pytorch_model_fsdp_0");  // Two ranks.
  tree_.Put(base + "/random_states_0.pkl", SamplePickle({}));
  Touch("m");
  ExpectVerdict(base, Verdict::kWriting, "random_states_1.pkl");
  tree_.Put(base + "/random_states_1.pkl", SamplePickle({}));
  ExpectVerdict(base, Verdict::kComplete);
  tree_.Put(base + "/random_states_1.pkl", "");
  ExpectVerdict(base, Verdict::kDamaged, "random_states_1.pkl");
}

TEST_F(FrameworkRulesTest, AccelerateInADirectoryNamedAsTheTrainersIs) {
  tree_.Put("m/checkpoint-500/random_states_0.pkl", SamplePickle({}));
  tree_.Put("m/checkpoint-500/optimizer.bin", SampleTorchFile());
  const Finding finding = One("m/checkpoint-500");
  EXPECT_EQ(finding.framework, "accelerate");
  EXPECT_EQ(finding.step, 500);
  EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
}

// --- DCP and what builds on it ---

TEST_F(FrameworkRulesTest, DcpComplete) {
  PutDcp("m/anything");
  const Finding finding = One("m/anything");
  EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
  EXPECT_EQ(finding.framework, "dcp");
  EXPECT_EQ(finding.step, std::nullopt);
  EXPECT_EQ(finding.marker, ".metadata");
  PutDcp("m/ckpt_40");
  EXPECT_EQ(One("m/ckpt_40").step, 40);
}

TEST_F(FrameworkRulesTest, DcpBeingWritten) {
  PutDcp("m/a");
  tree_.Remove("m/a/.metadata");
  Touch("m");
  ExpectVerdict("m/a", Verdict::kWriting, ".metadata");
  tree_.Put("m/a/.metadata.tmp", "half", Now());
  ExpectVerdict("m/a", Verdict::kWriting, ".metadata.tmp");
  PutDcp("m/a");  // An older record, and a newer one on its way.
  ExpectVerdict("m/a", Verdict::kWriting, ".metadata.tmp");
  tree_.SetTime("m/a/.metadata", Now() + 1);  // The newer one has arrived.
  ExpectVerdict("m/a", Verdict::kComplete);
}

TEST_F(FrameworkRulesTest, DcpRewrittenInPlace) {
  PutDcp("m/a");
  tree_.SetTime("m/a/__1_0.distcp", Now());
  ExpectVerdict("m/a", Verdict::kWriting, "rewritten in place");
  now_ += absl::Minutes(5);  // Copies look like that, too.
  ExpectVerdict("m/a", Verdict::kComplete);
}

TEST_F(FrameworkRulesTest, DcpDamage) {
  PutDcp("m/a");
  Touch("m");
  tree_.Put("m/a/__0_0.distcp", std::string(99, 'a'), Now());
  ExpectVerdict("m/a", Verdict::kDamaged, "__0_0.distcp is cut");
  tree_.Remove("m/a/__0_0.distcp");
  ExpectVerdict("m/a", Verdict::kDamaged, "__0_0.distcp is missing");
  for (const std::string& record :
       {std::string(), std::string(50, '\0'), std::string("\x80\x02junk"),
        DcpPickle({{"../../etc/passwd", 0, 1}})}) {
    PutDcp("m/a");
    tree_.Put("m/a/.metadata", record, Now());
    EXPECT_NE(One("m/a").verdict, Verdict::kComplete) << record;
  }
}

TEST_F(FrameworkRulesTest, DcpOfRanksThatCommitByThemselves) {
  tree_.Put("m/a/__0_0.distcp", "aaaa");
  tree_.Put("m/a/__1_0.distcp", "bb");
  tree_.Put("m/a/__0.metadata", DcpPickle({{"__0_0.distcp", 0, 4}}));
  Touch("m");
  ExpectVerdict("m/a", Verdict::kWriting, "__1.metadata");
  tree_.Put("m/a/__1.metadata", DcpPickle({{"__1_0.distcp", 0, 2}}));
  ExpectVerdict("m/a", Verdict::kComplete);
  EXPECT_EQ(One("m/a").marker, "");
  tree_.Put("m/a/__1_0.distcp", "b");
  ExpectVerdict("m/a", Verdict::kDamaged, "__1_0.distcp");
}

TEST_F(FrameworkRulesTest, Torchtitan) {
  PutDcp("m/step-20");
  EXPECT_EQ(One("m/step-20").framework, "torchtitan");
  EXPECT_EQ(One("m/step-20").step, 20);
  ExpectVerdict("m/step-20", Verdict::kComplete, ".metadata");
  tree_.Remove("m/step-20/.metadata");
  Touch("m");
  ExpectVerdict("m/step-20", Verdict::kWriting, ".metadata");

  // Saved as safetensors: `sharded/` until all is consolidated.
  tree_.Put("m/step-30/sharded/shard-00001.safetensors",
            SampleSafetensors({"a"}), Now());
  ExpectVerdict("m/step-30", Verdict::kWriting, "index.json");
  tree_.Put("m/step-30/model-00001-of-00001.safetensors",
            SampleSafetensors({"a"}));
  tree_.Put("m/step-30/model.safetensors.index.json",
            SampleShardIndex({{"a", "model-00001-of-00001.safetensors"}}));
  ExpectVerdict("m/step-30", Verdict::kComplete,
                "model.safetensors.index.json");
}

TEST_F(FrameworkRulesTest, TorchCheckpointing) {
  tree_.Put("m/step_9/metadata.pkl", SamplePickle({}));
  tree_.Put("m/step_9/__0_0.distcp", "data");
  tree_.Put("m/tmp_step_10/metadata.pkl", SamplePickle({}));
  EXPECT_EQ(One("m/step_9").framework, "torch-checkpointing");
  ExpectVerdict("m/step_9", Verdict::kComplete);
  ExpectVerdict("m/tmp_step_10", Verdict::kWriting, "stale staging?");
  EXPECT_EQ(One("m/tmp_step_10").step, 10);
  tree_.Put("m/step_9/metadata.pkl", "");
  ExpectVerdict("m/step_9", Verdict::kDamaged, "metadata.pkl");
}

// --- Megatron ---

TEST_F(FrameworkRulesTest, MegatronDist) {
  const std::string base = "m/iter_0001000";
  PutDcp(base);
  tree_.Put(base + "/common.pt", SampleTorchFile());
  Touch("m");
  ExpectVerdict(base, Verdict::kWriting, "metadata.json");
  tree_.Put(base + "/metadata.json", R"({"sharded_backend": "torch_dist"})");
  const Finding finding = One(base);
  EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
  EXPECT_EQ(finding.framework, "megatron-dist");
  EXPECT_EQ(finding.step, 1000);
  EXPECT_EQ(finding.marker, "metadata.json");
  EXPECT_THAT(
      finding.pointers,
      ElementsAre(PointerFile{"latest_checkpointed_iteration.txt", "1000"}));
  tree_.Put(base + "/metadata.json", "");
  ExpectVerdict(base, Verdict::kDamaged, "metadata.json");
  tree_.Put(base + "/metadata.json", "{}");
  ExpectVerdict(base, Verdict::kDamaged, "sharded_backend");
  tree_.Put(base + "/metadata.json", R"({"sharded_backend": "torch_dist"})");
  tree_.Put(base + "/common.pt", "");
  ExpectVerdict(base, Verdict::kDamaged, "common.pt");
  tree_.Remove(base + "/.metadata");
  ExpectVerdict(base, Verdict::kDamaged, ".metadata is missing");
}

TEST_F(FrameworkRulesTest, MegatronDistByContentAndRelease) {
  PutDcp("m/final");
  tree_.Put("m/final/metadata.json", R"({"sharded_backend": "torch_dist"})");
  EXPECT_EQ(One("m/final").framework, "megatron-dist");
  PutDcp("m/release");
  tree_.Put("m/release/metadata.json", R"({"sharded_backend": "torch_dist"})");
  EXPECT_THAT(
      One("m/release").pointers,
      ElementsAre(PointerFile{"latest_checkpointed_iteration.txt", "release"}));
}

TEST_F(FrameworkRulesTest, MegatronLegacy) {
  const std::string base = "m/iter_0000500";
  for (const char* rank : {"mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000",
                           "mp_rank_01_001"}) {
    tree_.Put(base + "/" + rank + "/model_optim_rng.pt", SampleTorchFile());
    tree_.Put(base + "/" + rank + "/distrib_optim.pt", SampleTorchFile());
  }
  ExpectVerdict(base, Verdict::kUnknown, "no commit record");
  for (const std::string& behind : {std::string("400"), std::string(),
                                    std::string(4, '\0'), std::string("4x")}) {
    tree_.Put("m/latest_checkpointed_iteration.txt", behind);
    ExpectVerdict(base, Verdict::kUnknown, "no commit record");
  }
  tree_.Put("m/latest_checkpointed_iteration.txt", "500\n");
  const Finding finding = One(base);
  EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
  EXPECT_EQ(finding.framework, "megatron-legacy");
  EXPECT_EQ(finding.step, 500);
  EXPECT_EQ(finding.pointers.at(0).content, "500");
  tree_.Put("m/latest_checkpointed_iteration.txt", "1000");
  ExpectVerdict(base, Verdict::kComplete);

  tree_.Remove(base + "/mp_rank_01_000/distrib_optim.pt");
  ExpectVerdict(base, Verdict::kDamaged, "mp_rank_01_000/distrib_optim.pt");
  tree_.Remove(base + "/mp_rank_01_000");
  ExpectVerdict(base, Verdict::kDamaged, "mp_rank_01_000 is missing");
  tree_.Remove("m/latest_checkpointed_iteration.txt");
  Touch("m");
  ExpectVerdict(base, Verdict::kWriting, "mp_rank_01_000 is missing");
}

TEST_F(FrameworkRulesTest, MegatronLocal) {
  tree_.Put("l/s/0/iter_0000040_0_local.pt", SampleTorchFile());
  tree_.Put("l/s/0/iter_0000050_0_local.dirty.pt", SampleTorchFile());
  const auto examined = In("l/s/0");
  ASSERT_EQ(examined.findings.size(), 1u);
  EXPECT_EQ(examined.findings[0].framework, "megatron-local");
  EXPECT_EQ(examined.findings[0].step, 40);
  EXPECT_THAT(examined.ignored,
              ElementsAre(Pair("iter_0000050_0_local.dirty.pt",
                               HasSubstr("temporary"))));
}

// --- DeepSpeed ---

TEST_F(FrameworkRulesTest, DeepSpeedComplete) {
  PutDeepSpeed("m/global_step1000", 4, 4);
  Touch("m");  // All ranks are there: no need to wait.
  const Finding finding = One("m/global_step1000");
  EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
  EXPECT_EQ(finding.framework, "deepspeed");
  EXPECT_EQ(finding.step, 1000);
  EXPECT_THAT(finding.pointers,
              ElementsAre(PointerFile{"latest", "global_step1000"}));
  PutDeepSpeed("m/my tag", 1, 1);
  EXPECT_EQ(One("m/my tag").step, 1000);  // From the content.
  EXPECT_EQ(One("m/my tag").pointers.at(0).content, "my tag");
}

TEST_F(FrameworkRulesTest, DeepSpeedRankMissing) {
  PutDeepSpeed("m/global_step1000", 3, 4);
  const char kMissing[] = "zero_pp_rank_3_mp_rank_00_optim_states.pt";
  ExpectVerdict("m/global_step1000", Verdict::kUnknown, kMissing);
  tree_.Put("m/latest", "global_step1000");
  ExpectVerdict("m/global_step1000", Verdict::kDamaged, kMissing);
  Touch("m");  // `latest` may be early.
  ExpectVerdict("m/global_step1000", Verdict::kWriting, kMissing);
  tree_.Put("m/latest", "global_step900");
  ExpectVerdict("m/global_step1000", Verdict::kWriting, kMissing);
}

TEST_F(FrameworkRulesTest, DeepSpeedHoleInTheSet) {
  const std::string base = "m/global_step1000/";
  for (int mp = 0; mp < 2; ++mp) {
    for (int dp = 0; dp < 2; ++dp) {
      tree_.Put(base + fmt::format("bf16_zero_pp_rank_{}_mp_rank_{:02}_optim_"
                                   "states.pt",
                                   dp, mp),
                SampleTorchFile());
    }
    tree_.Put(base + fmt::format("mp_rank_{:02}_model_states.pt", mp),
              SampleTorchFile());
  }
  tree_.Put("m/latest", "global_step1000");
  ExpectVerdict("m/global_step1000", Verdict::kComplete);
  tree_.Remove(base + "bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt");
  ExpectVerdict("m/global_step1000", Verdict::kDamaged,
                "bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt");
}

TEST_F(FrameworkRulesTest, DeepSpeedWithoutSizesNeedsLatest) {
  tree_.Put("m/global_step10/mp_rank_00_model_states.pt", SampleTorchFile());
  Touch("m");
  ExpectVerdict("m/global_step10", Verdict::kWriting, "no commit record");
  tree_.Put("m/latest", "global_step9");
  ExpectVerdict("m/global_step10", Verdict::kWriting, "global_step9");
  tree_.Put("m/latest", "global_step10");
  ExpectVerdict("m/global_step10", Verdict::kComplete);
  tree_.Put("m/latest", "global_step100");
  ExpectVerdict("m/global_step10", Verdict::kComplete);
}

TEST_F(FrameworkRulesTest, DeepSpeedShardsCut) {
  PutDeepSpeed("m/global_step1000", 2, 2);
  tree_.Put("m/global_step1000/zero_pp_rank_1_mp_rank_00_optim_states.pt",
            SampleTorchFile().substr(0, 100));
  ExpectVerdict("m/global_step1000", Verdict::kDamaged, "zero_pp_rank_1");
  Touch("m");
  ExpectVerdict("m/global_step1000", Verdict::kWriting, "zero_pp_rank_1");
}

// --- Lightning ---

TEST_F(FrameworkRulesTest, LightningFile) {
  const std::string name = "epoch=10-step=950.ckpt";
  tree_.Put("m/" + name,
            SampleTorchFile({{"epoch", 10}, {"global_step", 950}}));
  Finding finding = One("m/" + name);
  EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
  EXPECT_EQ(finding.framework, "lightning");
  EXPECT_EQ(finding.layout, Layout::kFiles);
  EXPECT_THAT(finding.files, ElementsAre(name));
  EXPECT_EQ(finding.step, 950);
  EXPECT_EQ(finding.epoch, 10);
  // The content is right where the name is not.
  tree_.Put("m/" + name, SampleTorchFile({{"epoch", 3}, {"global_step", 77}}));
  finding = One("m/" + name);
  EXPECT_EQ(finding.step, 77);
  EXPECT_EQ(finding.epoch, 3);
  // Without numbers in the content, those of the name stay.
  tree_.Put("m/" + name, SampleTorchFile());
  EXPECT_EQ(One("m/" + name).step, 950);
  tree_.Put("m/best-v1.ckpt",
            SampleTorchFile({{"epoch", 4}, {"global_step", 80}}));
  EXPECT_EQ(One("m/best-v1.ckpt").framework, "lightning");
  EXPECT_EQ(One("m/best-v1.ckpt").step, 80);
}

TEST_F(FrameworkRulesTest, LightningNamesOrderAsNumbers) {
  for (const auto& [epoch, step] : {std::pair{9, 900}, {10, 1000}, {10, 950}}) {
    tree_.Put(fmt::format("m/epoch={}-step={}.ckpt", epoch, step),
              SampleTorchFile());
  }
  auto findings = In("m").findings;
  ASSERT_EQ(findings.size(), 3u);
  std::sort(findings.begin(), findings.end(),
            [](const auto& a, const auto& b) { return a.step < b.step; });
  EXPECT_EQ(findings[0].epoch, 9);
  EXPECT_EQ(findings[1].step, 950);
  EXPECT_EQ(findings[2].step, 1000);
}

TEST_F(FrameworkRulesTest, LightningFileCut) {
  const std::string whole = SampleTorchFile({{"epoch", 1}});
  tree_.Put("m/last.ckpt", whole.substr(0, whole.size() / 2));
  ExpectVerdict("m/last.ckpt", Verdict::kDamaged, "last.ckpt");
  Touch("m");
  ExpectVerdict("m/last.ckpt", Verdict::kWriting, "last.ckpt");
}

TEST_F(FrameworkRulesTest, LightningSharded) {
  const std::string base = "m/epoch=1-step=10.ckpt";
  PutDcp(base);
  Touch("m");
  ExpectVerdict(base, Verdict::kWriting, "meta.pt");
  tree_.Put(base + "/meta.pt",
            SampleTorchFile({{"epoch", 1}, {"global_step", 10}}));
  const Finding finding = One(base);
  EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
  EXPECT_EQ(finding.framework, "lightning-sharded");
  EXPECT_EQ(finding.layout, Layout::kDirectory);
  EXPECT_EQ(finding.step, 10);
  EXPECT_EQ(finding.epoch, 1);
  EXPECT_EQ(finding.marker, "meta.pt");
  tree_.Put(base + "/meta.pt", "");
  ExpectVerdict(base, Verdict::kDamaged, "meta.pt");
}

TEST_F(FrameworkRulesTest, LightningDeepSpeed) {
  const std::string base = "m/epoch=1-step=10.ckpt";
  PutDeepSpeed(base + "/checkpoint", 2, 2);
  Touch("m");
  ExpectVerdict(base, Verdict::kWriting, "latest");
  tree_.Put(base + "/latest", "checkpoint");
  EXPECT_EQ(One(base).framework, "lightning-deepspeed");
  ExpectVerdict(base, Verdict::kComplete);
  EXPECT_EQ(One(base).marker, "latest");
  tree_.Put(base + "/latest", "");
  ExpectVerdict(base, Verdict::kDamaged, "latest");
}

// --- nanotron, Orbax, TensorFlow ---

TEST_F(FrameworkRulesTest, Nanotron) {
  tree_.Put("m/2000/model/w.safetensors", SampleSafetensors({"w"}));
  tree_.Put("m/2000/checkpoint_metadata.json", "{}");
  Touch("m");
  ExpectVerdict("m/2000", Verdict::kWriting, "model_config.json");
  tree_.Put("m/2000/model_config.json", "{}", Now());
  ExpectVerdict("m/2000", Verdict::kWriting, "unchanged");
  now_ += absl::Minutes(2);
  const Finding finding = One("m/2000");
  EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
  EXPECT_EQ(finding.framework, "nanotron");
  EXPECT_EQ(finding.step, 2000);
  EXPECT_THAT(finding.pointers, ElementsAre(PointerFile{"latest.txt", "2000"}));
  tree_.Put("m/2000/model_config.json", "");
  ExpectVerdict("m/2000", Verdict::kDamaged, "model_config.json");
}

TEST_F(FrameworkRulesTest, Orbax) {
  tree_.Put("m/1000/_CHECKPOINT_METADATA",
            R"({"commit_timestamp_nsecs": 1700000000000000000})");
  tree_.Put("m/1000/default/_METADATA", "{}");
  tree_.Put("m/1000/default/manifest.ocdbt", "manifest");
  tree_.Put("m/1000/default/d/0", "data");
  Finding finding = One("m/1000");
  EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
  EXPECT_EQ(finding.framework, "orbax");
  EXPECT_EQ(finding.step, 1000);
  EXPECT_EQ(finding.marker, "_CHECKPOINT_METADATA");
  tree_.Put("m/1000/commit_success.txt", "Checkpoint commit was successful");
  EXPECT_EQ(One("m/1000").marker, "commit_success.txt");

  tree_.Put("m/1000/default/manifest.ocdbt", "");
  ExpectVerdict("m/1000", Verdict::kDamaged, "manifest.ocdbt");
  tree_.Put("m/1000/default/manifest.ocdbt", "manifest");
  tree_.MakeDirectory("m/1000/default.orbax-checkpoint-tmp-3");
  ExpectVerdict("m/1000", Verdict::kWriting, "orbax-checkpoint-tmp-3");
}

TEST_F(FrameworkRulesTest, OrbaxCopiedWithoutItsMarkerIsUnknownAtOnce) {
  tree_.Put("m/params_7/_METADATA", "{}");
  tree_.Put("m/params_7/manifest.ocdbt", "manifest");
  Touch("m");
  ExpectVerdict("m/params_7", Verdict::kUnknown, "no commit record");
  ExpectVerdict("m/params_7", Verdict::kUnknown, "cairn adopt");
  EXPECT_EQ(One("m/params_7").step, 7);
  tree_.Put("m/params_7/_CHECKPOINT_METADATA",
            R"({"commit_timestamp_nsecs": null})");
  ExpectVerdict("m/params_7", Verdict::kUnknown, "no commit record");
}

TEST_F(FrameworkRulesTest, OrbaxStaging) {
  tree_.Put("m/1000.orbax-checkpoint-tmp-17/default/manifest.ocdbt", "x");
  tree_.Put("m/1000.orbax-checkpoint-tmp/commit_success.txt", "x");
  for (const char* path :
       {"m/1000.orbax-checkpoint-tmp-17", "m/1000.orbax-checkpoint-tmp"}) {
    ExpectVerdict(path, Verdict::kWriting, "stale staging?");
    EXPECT_EQ(One(path).framework, "orbax");
    EXPECT_EQ(One(path).step, 1000);
  }
}

TEST_F(FrameworkRulesTest, TensorFlowCheckpoint) {
  tree_.Put("m/checkpoint", "model_checkpoint_path: \"model.ckpt-100\"\n");
  for (const char* step : {"100", "20"}) {
    const std::string prefix = std::string("m/model.ckpt-") + step;
    tree_.Put(prefix + ".data-00000-of-00002", "a");
    tree_.Put(prefix + ".data-00001-of-00002", "b");
    tree_.Put(prefix + ".index", "table footer");
  }
  const auto examined = In("m");
  EXPECT_THAT(examined.ignored, IsEmpty());  // `checkpoint` is a pointer.
  ASSERT_EQ(examined.findings.size(), 2u);
  const Finding finding = One("m/model.ckpt-100");
  EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
  EXPECT_EQ(finding.framework, "tensorflow");
  EXPECT_EQ(finding.layout, Layout::kFiles);
  EXPECT_EQ(finding.name, "model.ckpt-100");
  EXPECT_EQ(finding.step, 100);
  EXPECT_EQ(finding.marker, "model.ckpt-100.index");
  EXPECT_THAT(finding.files, ElementsAre("model.ckpt-100.data-00000-of-00002",
                                         "model.ckpt-100.data-00001-of-00002",
                                         "model.ckpt-100.index"));
  EXPECT_THAT(finding.pointers,
              ElementsAre(PointerFile{
                  "checkpoint",
                  "model_checkpoint_path: \"model.ckpt-100\"\n"
                  "all_model_checkpoint_paths: \"model.ckpt-100\"\n"}));
  EXPECT_EQ(One("m/model.ckpt-20.index").name, "model.ckpt-20");
}

TEST_F(FrameworkRulesTest, TensorFlowCheckpointNotWhole) {
  tree_.Put("m/ckpt-1.data-00000-of-00002", "a");
  Touch("m");
  ExpectVerdict("m/ckpt-1", Verdict::kWriting, "ckpt-1.index");
  tree_.Put("m/ckpt-1.index", "table footer");
  ExpectVerdict("m/ckpt-1", Verdict::kDamaged, "number 1 of 2");
  tree_.Put("m/ckpt-1.data-00001-of-00002", "a");
  ExpectVerdict("m/ckpt-1", Verdict::kComplete);
  tree_.Put("m/ckpt-1.index", std::string(200, '\0'));
  ExpectVerdict("m/ckpt-1", Verdict::kDamaged, "zeros");
  tree_.Put("m/ckpt-2.index", "table footer");
  ExpectVerdict("m/ckpt-2", Verdict::kDamaged, "no data");
  // Of other programs: no checkpoint.
  tree_.Put("m/words.index", "x");
  EXPECT_THAT(recogniser_->ExamineOne(tree_, "m/words.index", now_),
              HasCode(absl::StatusCode::kNotFound));
  // Data first goes to a directory.
  tree_.Put("m/ckpt-3_temp/part-00000-of-00001.data-00000-of-00001", "x");
  ExpectVerdict("m/ckpt-3_temp", Verdict::kWriting, "stale staging?");
}

TEST_F(FrameworkRulesTest, TensorFlowSavedModel) {
  const std::string base = "export/1700000000";
  tree_.Put(base + "/variables/variables.data-00000-of-00001", "a");
  Touch("export");
  ExpectVerdict(base, Verdict::kWriting, "saved_model.pb");
  tree_.Put(base + "/saved_model.pb", "graph");
  ExpectVerdict(base, Verdict::kDamaged, "variables.index");
  tree_.Put(base + "/variables/variables.index", "table footer");
  const Finding finding = One(base);
  EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
  EXPECT_EQ(finding.framework, "tensorflow-savedmodel");
  EXPECT_EQ(finding.step, 1700000000);
  tree_.Put(base + "/saved_model.pb", "");
  ExpectVerdict(base, Verdict::kDamaged, "saved_model.pb");
}

// --- Single files and sharded weights ---

TEST_F(FrameworkRulesTest, TorchFilesOfARun) {
  for (const int step : {9, 100, 1000}) {
    tree_.Put(fmt::format("m/model-{}.pt", step), SampleTorchFile());
  }
  const auto examined = In("m");
  std::vector<std::pair<std::string, int64_t>> steps;
  for (const Finding& finding : examined.findings) {
    EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
    EXPECT_EQ(finding.framework, "torch");
    EXPECT_EQ(finding.marker, "");
    steps.emplace_back(finding.name, finding.step.value_or(-1));
  }
  EXPECT_THAT(steps, UnorderedElementsAre(Pair("model-9.pt", 9),
                                          Pair("model-100.pt", 100),
                                          Pair("model-1000.pt", 1000)));
  Touch("m");  // A whole zip is complete at once: its directory comes last.
  EXPECT_EQ(In("m").findings[0].verdict, Verdict::kComplete);
}

TEST_F(FrameworkRulesTest, NumbersInFileNames) {
  const std::tuple<const char*, int64_t, int64_t> names[] = {
      {"model_epoch_3.pt", -1, 3}, {"ckpt_0050.pth", 50, -1},
      {"a-step=70.pt", 70, -1},    {"12.pt", 12, -1},
      {"resnet50.pt", -1, -1},     {"model_rank_3.pt", -1, -1},
      {"best.pt", -1, -1},         {"epoch3_step4.pt", 4, 3}};
  for (const auto& [name, step, epoch] : names) {
    tree_.Put(std::string("m/") + name, SampleTorchFile());
    const Finding finding = One(std::string("m/") + name);
    EXPECT_EQ(finding.step.value_or(-1), step) << name;
    EXPECT_EQ(finding.epoch.value_or(-1), epoch) << name;
  }
}

TEST_F(FrameworkRulesTest, SingleFilesDamaged) {
  for (const std::string& content : {std::string(), std::string(4096, '\0'),
                                     SampleTorchFile().substr(0, 150)}) {
    for (const char* name : {"m/model.pt", "m/model.pth", "m/optimizer.bin"}) {
      tree_.Put(name, content);
      ExpectVerdict(name, Verdict::kDamaged, std::string_view(name).substr(2));
      tree_.SetTime(name, Now());
      ExpectVerdict(name, Verdict::kWriting, "may still be written");
      tree_.SetTime(name, Now() - absl::ToInt64Nanoseconds(kFreshFor));
      ExpectVerdict(name, Verdict::kDamaged);
    }
  }
}

TEST_F(FrameworkRulesTest, SafetensorsFile) {
  tree_.Put("m/model-500.safetensors", SampleSafetensors({"w"}));
  EXPECT_EQ(One("m/model-500.safetensors").framework, "safetensors");
  EXPECT_EQ(One("m/model-500.safetensors").step, 500);
  ExpectVerdict("m/model-500.safetensors", Verdict::kComplete);
  tree_.Put("m/model-500.safetensors", SampleSafetensors({"w"}) + "x");
  ExpectVerdict("m/model-500.safetensors", Verdict::kDamaged);
}

TEST_F(FrameworkRulesTest, ShardedWeights) {
  const std::string first = "model-00001-of-00002.safetensors";
  const std::string second = "model-00002-of-00002.safetensors";
  for (const std::string& base :
       {std::string("m/final/"), std::string("run/")}) {
    tree_.Put(base + first, SampleSafetensors({"a"}));
    tree_.Put(base + second, SampleSafetensors({"b"}));
  }
  PutTrainer("run/checkpoint-5", 5);
  Touch("m");
  ExpectVerdict("m/final", Verdict::kWriting, "index.json");
  now_ += 2 * kAbandonedAfter;
  ExpectVerdict("m/final", Verdict::kUnknown, "no commit record");
  const std::string index = SampleShardIndex({{"a", first}, {"b", second}});
  tree_.Put("m/final/model.safetensors.index.json", index);
  tree_.Put("run/model.safetensors.index.json", index);

  Finding finding = One("m/final");
  EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
  EXPECT_EQ(finding.framework, "safetensors");
  EXPECT_EQ(finding.layout, Layout::kDirectory);
  EXPECT_EQ(finding.marker, "model.safetensors.index.json");
  // Beside checkpoints of a run, the last model is files of the run.
  finding = One("run/model.safetensors.index.json");
  EXPECT_EQ(finding.verdict, Verdict::kComplete) << finding.reason;
  EXPECT_EQ(finding.layout, Layout::kFiles);
  EXPECT_EQ(finding.marker, "model.safetensors.index.json");
  EXPECT_THAT(finding.files,
              ElementsAre(first, second, "model.safetensors.index.json"));
  EXPECT_EQ(finding.step, std::nullopt);

  tree_.Remove("run/" + second);
  ExpectVerdict("run/model.safetensors.index.json", Verdict::kDamaged, second);
  tree_.Put("m/final/model.safetensors.index.json", "");
  ExpectVerdict("m/final", Verdict::kDamaged, "index.json");
}

TEST_F(FrameworkRulesTest, FilesThatAreNoCheckpoints) {
  tree_.Put("data/train.bin", "\x01\x02\x03 tokens of a data set");
  tree_.Put("data/train.idx", "x");
  tree_.Put("data/tokenizer.json", "{}");
  tree_.Put("data/.hidden.pt", SampleTorchFile());
  tree_.Put("data/model.pt.tmp", "half");
  tree_.Put("data/.tmpAbCdEf", "half");
  tree_.Put("data/step-500", "a file, not a folder");
  tree_.MakeSymlink("data/last.ckpt");
  const auto examined = In("data");
  EXPECT_THAT(examined.findings, IsEmpty());
  EXPECT_THAT(
      examined.ignored,
      UnorderedElementsAre(Pair("train.bin", HasSubstr("torch.save")),
                           Pair("train.idx", testing::_),
                           Pair("tokenizer.json", testing::_),
                           Pair(".hidden.pt", "hidden"),
                           Pair("model.pt.tmp", HasSubstr("temporary")),
                           Pair(".tmpAbCdEf", HasSubstr("temporary")),
                           Pair("step-500", HasSubstr("named like")),
                           Pair("last.ckpt", HasSubstr("symbolic link"))));
  EXPECT_THAT(recogniser_->ExamineOne(tree_, "data/step-500", now_),
              FailsWith(absl::StatusCode::kNotFound, "named like"));
  tree_.Put("data/part.bin", SampleTorchFile());
  EXPECT_EQ(One("data/part.bin").framework, "torch");
}

}  // namespace
}  // namespace cairn
