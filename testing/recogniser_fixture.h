// What the tests of the recogniser share: a tree in memory, a clock, and makers
// of whole checkpoints.

#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "format/recogniser.h"
#include "testing/memory_tree.h"
#include "testing/sample_files.h"
#include "testing/status_matchers.h"

namespace cairn {

class RecogniserTest : public ::testing::Test {
 protected:
  RecogniserTest() { Use({}); }

  void Use(RecogniserOptions options) {
    auto created = Recogniser::Create(std::move(options));
    ASSERT_OK(created);
    recogniser_ = std::make_unique<Recogniser>(*std::move(created));
  }

  Finding One(std::string_view path) {
    auto found = recogniser_->ExamineOne(tree_, path, now_);
    EXPECT_OK(found) << path;
    return found.ok() ? *std::move(found) : Finding{};
  }

  Recogniser::Examined In(std::string_view directory) {
    auto found = recogniser_->Examine(tree_, directory, now_);
    EXPECT_OK(found) << directory;
    return found.ok() ? *std::move(found) : Recogniser::Examined{};
  }

  void ExpectVerdict(std::string_view path, Verdict verdict,
                     std::string_view reason = "") {
    const Finding finding = One(path);
    EXPECT_STREQ(VerdictName(finding.verdict), VerdictName(verdict))
        << path << ": " << finding.reason;
    EXPECT_THAT(finding.reason, ::testing::HasSubstr(std::string(reason)))
        << path;
    EXPECT_FALSE(finding.reason.empty());
  }

  // The same files, changed a second ago.
  void Touch(std::string_view directory) {
    tree_.SetTimes(directory, absl::ToUnixNanos(now_ - absl::Seconds(1)));
  }
  int64_t Now() const { return absl::ToUnixNanos(now_); }

  void PutDcp(const std::string& directory) {
    tree_.Put(directory + "/__0_0.distcp", std::string(100, 'a'));
    tree_.Put(directory + "/__1_0.distcp", std::string(80, 'b'));
    tree_.Put(directory + "/.metadata", DcpPickle({{"__0_0.distcp", 0, 60},
                                                   {"__0_0.distcp", 60, 40},
                                                   {"__1_0.distcp", 0, 80}}));
  }

  void PutTrainer(const std::string& directory, int step) {
    tree_.Put(directory + "/config.json", "{}");
    tree_.Put(directory + "/model.safetensors", SampleSafetensors({"w"}));
    tree_.Put(directory + "/optimizer.pt", SampleTorchFile());
    tree_.Put(directory + "/trainer_state.json",
              fmt::format(R"({{"epoch": 2.5, "global_step": {},
                              "log_history": [{{"loss": NaN}}]}})",
                          step));
  }

  void PutDeepSpeed(const std::string& directory, int ranks, int claimed) {
    tree_.Put(directory + "/mp_rank_00_model_states.pt",
              SampleTorchFile({{"dp_world_size", claimed},
                               {"mp_world_size", 1},
                               {"global_steps", 1000}}));
    for (int rank = 0; rank < ranks; ++rank) {
      tree_.Put(fmt::format("{}/zero_pp_rank_{}_mp_rank_00_optim_states.pt",
                            directory, rank),
                SampleTorchFile());
    }
  }

  MemoryTree tree_;
  absl::Time now_ = absl::FromUnixNanos(MemoryTree::kOldNs) + absl::Hours(48);
  std::unique_ptr<Recogniser> recogniser_;
};

}  // namespace cairn
