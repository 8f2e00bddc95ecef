// A store in the hands of a test: a real accelerator directory, a core tier in
// memory that fails on script, a clock that stands still.

#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer_pool.h"
#include "base/digest.h"
#include "engine/context.h"
#include "engine/exporter.h"
#include "engine/restorer.h"
#include "engine/scanner.h"
#include "testing/fake_clock.h"
#include "testing/faulty_object_store.h"
#include "testing/memory_object_store.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {

class SilentTestObserver final : public Observer {
 public:
  void OnStart(std::string_view, uint64_t, uint64_t) override {}
  void OnProgress(uint64_t, uint64_t) override {}
  void OnFinish() override {}
  void OnNotice(std::string_view) override {}
};

// Checkpoints are directories `ckpt-<step>` that are complete once DONE is
// there.
class EngineFixture : public testing::Test {
 protected:
  void SetUp() override {
    WriteTestFile(dir_ / "acc/.keep", "");
    WriteTestFile(dir_ / "state/.keep", "");
    context_.options.accelerator_path = dir_ / "acc";
    context_.options.core_urls = {"memory"};
    context_.options.state_dir = dir_ / "state";
    context_.observer = &observer_;
    context_.clock = &clock_;
    context_.threads = 4;
    context_.io = IoEngine::Create({});
    absl::StatusOr<Root> root = Root::Open(dir_ / "acc");
    ASSERT_OK(root);
    context_.accelerator = std::make_unique<Root>(*std::move(root));
    auto faulty = std::make_unique<FaultyObjectStore>(&memory_);
    faulty_ = faulty.get();
    context_.core = std::move(faulty);
    absl::StatusOr<std::unique_ptr<Catalog>> catalog =
        Catalog::Open(CatalogConnection(context_.options));
    ASSERT_OK(catalog);
    context_.catalog = *std::move(catalog);
    RecogniserOptions rules;
    UserRule rule;
    rule.name = "ours";
    rule.directory = "ckpt-(?P<step>[0-9]+)";
    rule.complete = {"DONE"};
    rules.user_rules = {rule};
    absl::StatusOr<Recogniser> recogniser = Recogniser::Create(rules);
    ASSERT_OK(recogniser);
    context_.recogniser = std::make_unique<Recogniser>(*std::move(recogniser));
    context_.buffers = std::make_unique<BufferPool>(kDigestBlockBytes, 10);
  }

  std::string File(std::string_view path) const {
    return dir_ / ("acc/" + std::string(path));
  }

  // run/ckpt-<step> with two small files, an empty one and one of three blocks.
  void MakeCheckpoint(int step, uint64_t seed) {
    const std::string base = "run/ckpt-" + std::to_string(step) + "/";
    WriteTestFile(File(base + "a.bin"), RandomBytes(5000, seed));
    WriteTestFile(File(base + "sub/b.bin"), RandomBytes(1, seed + 1));
    WriteTestFile(File(base + "empty"), "");
    WriteTestFile(File(base + "large.bin"),
                  RandomBytes(2 * kDigestBlockBytes + 12345, seed + 2));
    WriteTestFile(File(base + "DONE"), std::to_string(seed));
  }

  absl::StatusOr<ScanReport> Scan() { return Scanner(&context_).Run(); }

  CheckpointRecord Newest(int step) {
    const auto found =
        context_.catalog->Generations("run", "ckpt-" + std::to_string(step));
    EXPECT_OK(found);
    EXPECT_FALSE(found->empty());
    return found->empty() ? CheckpointRecord{} : found->front();
  }

  Outcome Export(int step) {
    return Exporter(&context_, {}).Export(Newest(step));
  }

  TempDir dir_;
  MemoryObjectStore memory_;
  FakeClock clock_;
  SilentTestObserver observer_;
  Context context_;
  FaultyObjectStore* faulty_ = nullptr;
};

}  // namespace cairn
