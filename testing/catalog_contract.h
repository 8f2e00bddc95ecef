// The Catalog contract as tests. A database instantiates this suite with a
// factory of connection strings and changes nothing in it.

#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <ctime>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "catalog/catalog.h"
#include "fmt/format.h"
#include "testing/status_matchers.h"

namespace cairn {

// An empty database, which lives as long as this object.
class CatalogFixture {
 public:
  virtual ~CatalogFixture() = default;
  virtual std::string Connection() = 0;
};
using CatalogFixtureFactory = std::unique_ptr<CatalogFixture> (*)();

inline std::string TestGeneration(uint64_t number) {
  return fmt::format("{:032x}", number);
}

inline CheckpointRecord TestCheckpoint(std::string run, std::string name,
                                       uint64_t sequence) {
  CheckpointRecord record;
  record.run = std::move(run);
  record.name = std::move(name);
  record.sequence = sequence;
  record.generation = TestGeneration(sequence);
  return record;
}

// Every field away from its default, and names that need their escapes.
inline CheckpointRecord FullTestCheckpoint() {
  CheckpointRecord record =
      TestCheckpoint(std::string("run\xff%\n"), "e\xcc\x81 \xc3\xa9/\"'\\:x",
                     1767225601000000);
  record.is_directory = false;
  record.framework = "deepspeed";
  record.step = -3;
  record.epoch = std::numeric_limits<int64_t>::min();
  record.files = 100'000;
  record.bytes = std::numeric_limits<int64_t>::max();
  record.created_ns = -1;
  record.marker_mtime_ns = 1767225600123456789;
  record.origin = "adopt";
  record.labels = {
      {"commit", "4f2a\x01%"}, {"", ""}, {"gr\xc3\xb6\xc3\x9f", "\""}};
  record.accelerator = {true, true,  true, "a.bin: offset 8388608: it's cut",
                        17,   "abc", 18};
  record.core = {true, false, true, std::string("nul\0byte", 8), 19, "def", 20};
  record.dirty = true;
  record.released = true;
  record.pinned = true;
  record.hold_until_ns = 21;
  record.activity = "exporting";
  return record;
}

class CatalogContract : public testing::TestWithParam<CatalogFixtureFactory> {
 protected:
  CatalogContract() : catalog_(Open()) {}

  // Another connection to the same database.
  std::unique_ptr<Catalog> Open() {
    auto catalog = Catalog::Open(fixture_->Connection());
    EXPECT_OK(catalog);
    return *std::move(catalog);
  }

  std::unique_ptr<CatalogFixture> fixture_ = GetParam()();
  std::unique_ptr<Catalog> catalog_;
};

TEST_P(CatalogContract, EmptyAtFirst) {
  EXPECT_EQ(catalog_->All()->size(), 0U);
  EXPECT_EQ(catalog_->Candidates()->size(), 0U);
  EXPECT_EQ(catalog_->Failures()->size(), 0U);
  EXPECT_EQ(*catalog_->LargestSequence("run"), 0U);
  EXPECT_EQ(*catalog_->GetSetting("tier.core"), "");
  EXPECT_EQ(*catalog_->FindUpload(TestGeneration(1), "key"), "");
  EXPECT_EQ(catalog_->GetFingerprints(TestGeneration(1))->size(), 0U);
  EXPECT_THAT(catalog_->Get(TestGeneration(1)),
              HasCode(absl::StatusCode::kNotFound));
}

TEST_P(CatalogContract, SettingsAreReplaced) {
  ASSERT_OK(catalog_->SetSetting("tier.core", "first"));
  ASSERT_OK(catalog_->SetSetting("tier.core", "second%\xff"));
  ASSERT_OK(catalog_->SetSetting("tier.accelerator", "x"));
  EXPECT_EQ(*catalog_->GetSetting("tier.core"), "second%\xff");
  EXPECT_EQ(*Open()->GetSetting("tier.accelerator"), "x");
}

TEST_P(CatalogContract, ItsOwnSettingIsRefused) {
  EXPECT_THAT(catalog_->SetSetting("schema_version", "7"),
              HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_NE(Open(), nullptr);
}

TEST_P(CatalogContract, EveryFieldComesBack) {
  const CheckpointRecord full = FullTestCheckpoint();
  const CheckpointRecord bare = TestCheckpoint("", "bare", 0);
  ASSERT_OK(catalog_->Upsert(full));
  ASSERT_OK(catalog_->Upsert(bare));
  EXPECT_EQ(*catalog_->Get(full.generation), full);
  EXPECT_EQ(*Open()->Get(bare.generation), bare);
}

TEST_P(CatalogContract, UpsertReplacesEveryField) {
  CheckpointRecord record = FullTestCheckpoint();
  ASSERT_OK(catalog_->Upsert(record));
  CheckpointRecord other = TestCheckpoint("other", "name", 5);
  other.generation = record.generation;
  ASSERT_OK(catalog_->Upsert(other));
  EXPECT_EQ(*catalog_->Get(record.generation), other);
  EXPECT_EQ(catalog_->All()->size(), 1U);
}

TEST_P(CatalogContract, UpsertKeepsFingerprintsAndUploads) {
  const CheckpointRecord record = TestCheckpoint("run", "a", 1);
  ASSERT_OK(catalog_->Upsert(record));
  ASSERT_OK(catalog_->SetFingerprints(record.generation, {{"f"}}, "digest"));
  ASSERT_OK(catalog_->RecordUpload(record.generation, "key", "token"));
  ASSERT_OK(catalog_->Upsert(record));
  EXPECT_EQ(catalog_->GetFingerprints(record.generation)->size(), 1U);
  EXPECT_EQ(*catalog_->FindUpload(record.generation, "key"), "token");
}

TEST_P(CatalogContract, UpsertAllIsAllOrNothing) {
  CheckpointRecord beyond = TestCheckpoint("run", "b", 2);
  beyond.bytes = uint64_t{1} << 63;
  EXPECT_THAT(catalog_->UpsertAll({TestCheckpoint("run", "a", 1), beyond}),
              HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(catalog_->All()->size(), 0U);
  EXPECT_OK(catalog_->UpsertAll({}));
}

// "checkpoint-1000" is after "checkpoint-900", and escaping changes no order.
TEST_P(CatalogContract, OrdersByRunInBytesThenNewestFirst) {
  ASSERT_OK(catalog_->UpsertAll({TestCheckpoint("\x01", "c", 7),
                                 TestCheckpoint("run", "checkpoint-900", 2),
                                 TestCheckpoint("run", "checkpoint-1000", 9),
                                 TestCheckpoint("\xff", "c", 1),
                                 TestCheckpoint(" ", "c", 4)}));
  std::vector<uint64_t> sequences;
  const auto all = catalog_->All();
  for (const CheckpointRecord& record : *all) {
    sequences.push_back(record.sequence);
  }
  EXPECT_EQ(sequences, (std::vector<uint64_t>{7, 4, 9, 2, 1}));
  EXPECT_EQ(*catalog_->LargestSequence("run"), 9U);
  EXPECT_EQ(catalog_->OfRun("run")->front().name, "checkpoint-1000");
  EXPECT_EQ(catalog_->OfRun("RUN")->size(), 0U);
}

TEST_P(CatalogContract, GenerationsOfOneCheckpointAreNewestFirst) {
  ASSERT_OK(catalog_->UpsertAll(
      {TestCheckpoint("run", "last", 1), TestCheckpoint("run", "last", 3),
       TestCheckpoint("run", "last", 2), TestCheckpoint("run", "last2", 4),
       TestCheckpoint("ru", "nlast", 5)}));
  const auto generations = catalog_->Generations("run", "last");
  ASSERT_EQ(generations->size(), 3U);
  EXPECT_EQ(generations->front().sequence, 3U);
  EXPECT_EQ(generations->back().sequence, 1U);
}

TEST_P(CatalogContract, NamesDifferInEveryByte) {
  ASSERT_OK(catalog_->UpsertAll(
      {TestCheckpoint("run", "\xc3\xa9", 1),
       TestCheckpoint("run", "e\xcc\x81", 2),
       TestCheckpoint("run", "%C3%A9", 3), TestCheckpoint("run", "a ", 4),
       TestCheckpoint("run", "a", 5), TestCheckpoint("run", "A", 6)}));
  EXPECT_EQ(catalog_->Generations("run", "\xc3\xa9")->size(), 1U);
  EXPECT_EQ(catalog_->Generations("run", "%C3%A9")->front().sequence, 3U);
  EXPECT_EQ(catalog_->Generations("run", "a")->front().sequence, 5U);
}

TEST_P(CatalogContract, RemoveTakesAllThatBelongsToIt) {
  ASSERT_OK(catalog_->UpsertAll(
      {TestCheckpoint("run", "a", 1), TestCheckpoint("run", "b", 2)}));
  for (const uint64_t number : {1, 2}) {
    const std::string generation = TestGeneration(number);
    ASSERT_OK(catalog_->SetFingerprints(generation, {{"f"}}, "digest"));
    ASSERT_OK(catalog_->RecordUpload(generation, "key", "token"));
  }
  ASSERT_OK(catalog_->Remove(TestGeneration(1)));
  EXPECT_OK(catalog_->Remove(TestGeneration(1)));
  EXPECT_EQ(catalog_->All()->size(), 1U);
  EXPECT_EQ(catalog_->GetFingerprints(TestGeneration(1))->size(), 0U);
  EXPECT_EQ(*catalog_->FindUpload(TestGeneration(1), "key"), "");
  EXPECT_EQ(catalog_->GetFingerprints(TestGeneration(2))->size(), 1U);
  EXPECT_EQ(*catalog_->FindUpload(TestGeneration(2), "key"), "token");
}

TEST_P(CatalogContract, FingerprintsAreReplacedAndSortedByBytes) {
  const CheckpointRecord record = TestCheckpoint("run", "a", 1);
  ASSERT_OK(catalog_->Upsert(record));
  ASSERT_OK(catalog_->SetFingerprints(
      record.generation, {{"gone", 1, 2, 3, 4, 5}, {"stays"}}, "old"));
  const FileFingerprint last = {"\xff", 0, -1, -2, ~uint64_t{0}, 40};
  const FileFingerprint first = {"\x01/b",
                                 uint64_t{1} << 62,
                                 std::numeric_limits<int64_t>::max(),
                                 std::numeric_limits<int64_t>::min(),
                                 1,
                                 30};
  const FileFingerprint middle = {"stays", 1, 2, 3, 4, 50};
  ASSERT_OK(catalog_->SetFingerprints(record.generation, {last, middle, first},
                                      "new"));
  EXPECT_EQ(*catalog_->GetFingerprints(record.generation),
            (std::vector<FileFingerprint>{first, middle, last}));
  const auto updated = catalog_->Get(record.generation);
  EXPECT_EQ(updated->accelerator.fingerprint, "new");
  EXPECT_EQ(updated->accelerator.fingerprint_known_ns, 30);
}

TEST_P(CatalogContract, FingerprintsOfNothingKnownAreRefused) {
  EXPECT_THAT(catalog_->SetFingerprints(TestGeneration(9), {{"f"}}, "digest"),
              HasCode(absl::StatusCode::kNotFound));
  EXPECT_EQ(catalog_->GetFingerprints(TestGeneration(9))->size(), 0U);
}

TEST_P(CatalogContract, AFailedReplacementKeepsTheOldFingerprints) {
  const CheckpointRecord record = TestCheckpoint("run", "a", 1);
  ASSERT_OK(catalog_->Upsert(record));
  ASSERT_OK(catalog_->SetFingerprints(record.generation, {{"f"}}, "old"));
  EXPECT_THAT(
      catalog_->SetFingerprints(record.generation, {{"g"}, {"g"}}, "new"),
      HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(catalog_->GetFingerprints(record.generation)->front().path, "f");
  EXPECT_EQ(catalog_->Get(record.generation)->accelerator.fingerprint, "old");
}

TEST_P(CatalogContract, UploadsAreFoundByGenerationAndKey) {
  ASSERT_OK(catalog_->RecordUpload(TestGeneration(1), "k\xff", "one"));
  ASSERT_OK(catalog_->RecordUpload(TestGeneration(2), "k\xff", "two"));
  ASSERT_OK(catalog_->RecordUpload(TestGeneration(1), "k\xff", "three"));
  EXPECT_EQ(*catalog_->FindUpload(TestGeneration(1), "k\xff"), "three");
  ASSERT_OK(catalog_->ForgetUpload(TestGeneration(1), "k\xff"));
  EXPECT_OK(catalog_->ForgetUpload(TestGeneration(1), "k\xff"));
  EXPECT_EQ(*catalog_->FindUpload(TestGeneration(1), "k\xff"), "");
  EXPECT_EQ(*catalog_->FindUpload(TestGeneration(2), "k\xff"), "two");
}

TEST_P(CatalogContract, CandidatesKeepWhenTheyWereFirstSeen) {
  const CandidateRecord a = {"run",          "a", "dcp", 7, "in progress",
                             "no .metadata", 100};
  const CandidateRecord b = {"run",     "b\xff", "", std::nullopt,
                             "unknown", "",      100};
  ASSERT_OK(catalog_->ReplaceCandidates({b, a}));
  EXPECT_EQ(*catalog_->Candidates(), (std::vector<CandidateRecord>{a, b}));

  CandidateRecord later = a;
  later.verdict = "damaged";
  later.step = std::nullopt;
  later.first_seen_ns = 200;
  const CandidateRecord c = {"run", "c", "hf", 1, "in progress", "x", 200};
  ASSERT_OK(catalog_->ReplaceCandidates({later, c}));
  later.first_seen_ns = 100;
  EXPECT_EQ(*catalog_->Candidates(), (std::vector<CandidateRecord>{later, c}));
  ASSERT_OK(catalog_->ReplaceCandidates({}));
  EXPECT_EQ(catalog_->Candidates()->size(), 0U);
}

TEST_P(CatalogContract, FailuresStayUntilTheSameThingSucceeds) {
  ASSERT_OK(catalog_->RecordFailure({"export", "run/a", "no space", 1}));
  ASSERT_OK(catalog_->RecordFailure({"verify", "run/a", "bad\xff", 3}));
  ASSERT_OK(catalog_->RecordFailure({"export", "run/a", "still none", 2}));
  const auto failures = catalog_->Failures();
  ASSERT_EQ(failures->size(), 2U);
  EXPECT_EQ(failures->front(),
            (FailureRecord{"verify", "run/a", "bad\xff", 3}));
  EXPECT_EQ(failures->back().message, "still none");
  ASSERT_OK(catalog_->ClearFailure("verify", "run/a"));
  EXPECT_OK(catalog_->ClearFailure("verify", "run/a"));
  EXPECT_EQ(catalog_->Failures()->size(), 1U);
}

TEST_P(CatalogContract, AfterCloseEverythingIsThereAndNothingWorks) {
  ASSERT_OK(catalog_->Upsert(TestCheckpoint("run", "a", 1)));
  ASSERT_OK(catalog_->Close());
  EXPECT_THAT(catalog_->All(), HasCode(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(Open()->All()->size(), 1U);
}

// Two connections, several threads on each.
TEST_P(CatalogContract, WritersWaitForEachOther) {
  constexpr int kThreads = 4;
  constexpr uint64_t kWritesEach = 50;
  const std::unique_ptr<Catalog> other = Open();
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Catalog* const mine = i % 2 == 0 ? catalog_.get() : other.get();
      for (uint64_t n = 0; n < kWritesEach; ++n) {
        const CheckpointRecord record =
            TestCheckpoint(fmt::format("run{}", i), "a",
                           1 + static_cast<uint64_t>(i) * kWritesEach + n);
        failed += mine->Upsert(record).ok() ? 0 : 1;
        failed +=
            mine->LargestSequence(record.run).value_or(0) == record.sequence
                ? 0
                : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(catalog_->All()->size(), kThreads * kWritesEach);
}

// The sizes of a large store; the limits leave room for slow machines and
// sanitizers, and a plan that reads a table for each row is far beyond them.
TEST_P(CatalogContract, IsQuickAtTheSizesOfALargeStore) {
  constexpr uint64_t kCheckpoints = 10'000;
  constexpr uint64_t kFiles = 100'000;
  const auto cpu_ms = [] {
    return static_cast<int>(std::clock() * 1000 / CLOCKS_PER_SEC);
  };
  std::vector<CheckpointRecord> records;
  for (uint64_t i = 1; i <= kCheckpoints; ++i) {
    records.push_back(TestCheckpoint(fmt::format("run{}", i % 100),
                                     fmt::format("checkpoint-{}", i), i));
  }
  std::vector<FileFingerprint> files;
  for (uint64_t i = 0; i < kFiles; ++i) {
    files.push_back(
        {fmt::format("rank{:03}/shard-{:06}.bin", i % 64, i), i, 1, 2, i, 3});
  }
  const auto begin = cpu_ms();
  ASSERT_OK(catalog_->UpsertAll(records));
  const auto upserted = cpu_ms();
  EXPECT_EQ(catalog_->All()->size(), kCheckpoints);
  const auto listed = cpu_ms();
  ASSERT_OK(catalog_->SetFingerprints(TestGeneration(1), files, "digest"));
  const auto set = cpu_ms();
  EXPECT_EQ(catalog_->GetFingerprints(TestGeneration(1))->size(), kFiles);
  const auto read = cpu_ms();
  RecordProperty("upsert_ms", upserted - begin);
  RecordProperty("list_ms", listed - upserted);
  RecordProperty("set_fingerprints_ms", set - listed);
  RecordProperty("get_fingerprints_ms", read - set);
  EXPECT_LT(read - begin, 60'000);
}

}  // namespace cairn
