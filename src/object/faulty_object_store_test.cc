// The double that other tests trust: its faults are the ones it was told.

#include "testing/faulty_object_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/crc64.h"
#include "testing/memory_object_store.h"
#include "testing/object_store_harness.h"
#include "testing/status_matchers.h"

namespace cairn {
namespace {

using Fault = FaultyObjectStore::Fault;
using Verb = FaultyObjectStore::Verb;

const auto kLost = HasCode(absl::StatusCode::kUnavailable);

class FaultyObjectStoreTest : public testing::Test {
 protected:
  absl::Status Put(const std::string& key, const std::string& content) {
    return store_.Put(key, AsBytes(content),
                      {.crc64_nvme = CrcOfText(content)});
  }

  static std::string ReadFrom(ObjectStore& store, const std::string& key,
                              size_t size) {
    std::string content(size, '?');
    EXPECT_OK(store.ReadAt(key, 0, std::as_writable_bytes(std::span(content))));
    return content;
  }

  MemoryObjectStore memory_;
  FaultyObjectStore store_{&memory_};
};

TEST_F(FaultyObjectStoreTest, ARefusedPutIsNotApplied) {
  store_.FailNextPuts(1, Fault::kRefuse);
  EXPECT_THAT(Put("k", "v"), kLost);
  EXPECT_EQ(memory_.size(), 0u);
  EXPECT_OK(Put("k", "v"));
  EXPECT_EQ(store_.puts(), 2);
  EXPECT_EQ(store_.bytes(Verb::kPut), 2u);
}

TEST_F(FaultyObjectStoreTest, APutWhoseReplyIsLostIsApplied) {
  store_.FailNextPuts(1, Fault::kApplyThenLoseReply);
  EXPECT_THAT(Put("k", "v"), kLost);
  EXPECT_EQ(memory_.size(), 1u);
  EXPECT_THAT(Put("k", "v"), HasCode(absl::StatusCode::kAlreadyExists));
}

TEST_F(FaultyObjectStoreTest, ScriptsSkipAndRunInOrder) {
  store_.Fail(Verb::kPut, {.code = absl::StatusCode::kInternal, .skip = 1});
  store_.Fail(Verb::kPut, {.code = absl::StatusCode::kDataLoss, .times = 2});
  std::vector<absl::StatusCode> codes;
  for (int i = 0; i < 5; ++i) {
    codes.push_back(Put("k" + std::to_string(i), "v").code());
  }
  EXPECT_THAT(codes, testing::ElementsAre(
                         absl::StatusCode::kOk, absl::StatusCode::kInternal,
                         absl::StatusCode::kDataLoss,
                         absl::StatusCode::kDataLoss, absl::StatusCode::kOk));
  store_.FailNextPuts(9, Fault::kRefuse);
  store_.ClearScripts();
  EXPECT_OK(Put("k", "v"));
}

TEST_F(FaultyObjectStoreTest, OneByteIsFlippedOnReadOrInWhatIsStored) {
  ASSERT_OK(Put("read", "aaaaa"));
  store_.Fail(Verb::kReadAt, {.fault = Fault::kFlipByte});
  EXPECT_EQ(ReadFrom(store_, "read", 5), "aa`aa");
  EXPECT_EQ(ReadFrom(store_, "read", 5), "aaaaa");

  store_.FailNextPuts(1, Fault::kFlipByte);
  ASSERT_OK(Put("stored", "aaaaa"));
  EXPECT_EQ(ReadFrom(memory_, "stored", 5), "aa`aa");
}

TEST_F(FaultyObjectStoreTest, AFlippedPartStaysUndiscovered) {
  const std::string content(3000, 'a');
  const UploadOptions sizes = {.size_bytes = content.size(),
                               .part_bytes = 1 << 20};
  store_.Fail(Verb::kAddPart, {.fault = Fault::kFlipByte});
  auto upload = store_.BeginUpload("k", sizes);
  ASSERT_OK(upload);
  const AlignedBytes memory(content);
  ASSERT_OK((*upload)->AddPart(1, memory.bytes(), CrcOfText(content)));
  EXPECT_EQ((*upload)->Parts()->at(0).crc64_nvme, CrcOfText(content));
  ASSERT_OK((*upload)->Commit(CrcOfText(content)));
  EXPECT_EQ(store_.bytes(Verb::kAddPart), content.size());
  std::string damaged = content;
  damaged[1500] = '`';
  EXPECT_EQ(ReadFrom(memory_, "k", content.size()), damaged);
}

TEST_F(FaultyObjectStoreTest, ACommitMayLoseItsReply) {
  const std::string content = "part";
  auto upload =
      store_.BeginUpload("k", {.size_bytes = 4, .part_bytes = 1 << 20});
  ASSERT_OK(upload);
  const AlignedBytes memory(content);
  store_.Fail(Verb::kAddPart, {.fault = Fault::kApplyThenLoseReply});
  EXPECT_THAT((*upload)->AddPart(1, memory.bytes(), CrcOfText(content)), kLost);
  store_.Fail(Verb::kCommit, {.fault = Fault::kRefuse});
  EXPECT_THAT((*upload)->Commit(CrcOfText(content)), kLost);
  EXPECT_EQ(memory_.size(), 0u);
  store_.Fail(Verb::kCommit, {.fault = Fault::kApplyThenLoseReply});
  EXPECT_THAT((*upload)->Commit(CrcOfText(content)), kLost);
  EXPECT_EQ(ReadFrom(memory_, "k", 4), content);
}

TEST_F(FaultyObjectStoreTest, AListingStopsHalfway) {
  for (const char* key : {"a", "b", "c", "d"}) ASSERT_OK(Put(key, "v"));
  store_.Fail(Verb::kList, {.fault = Fault::kStopHalfway});
  std::vector<std::string> keys;
  const auto visit = [&](const ObjectInfo& info) {
    keys.push_back(info.key);
    return absl::OkStatus();
  };
  EXPECT_THAT(store_.List("", visit), kLost);
  EXPECT_THAT(keys, testing::ElementsAre("a", "b"));
  EXPECT_OK(store_.List("", visit));
  EXPECT_EQ(keys.size(), 6u);
}

TEST_F(FaultyObjectStoreTest, EveryOtherVerbCanBeRefused) {
  ASSERT_OK(Put("k", "v"));
  for (const Verb verb :
       {Verb::kStat, Verb::kRemove, Verb::kBeginUpload, Verb::kResumeUpload,
        Verb::kListUploads, Verb::kReadAt}) {
    store_.Fail(verb, {});
  }
  const UploadOptions sizes = {.size_bytes = 1, .part_bytes = 1 << 20};
  std::byte byte{};
  EXPECT_THAT(store_.Stat("k"), kLost);
  EXPECT_THAT(store_.Remove("k"), kLost);
  EXPECT_THAT(store_.BeginUpload("k", sizes), kLost);
  EXPECT_THAT(store_.ResumeUpload("k", "t", sizes), kLost);
  EXPECT_THAT(store_.ListUploads(""), kLost);
  EXPECT_THAT(store_.ReadAt("k", 0, {&byte, 1}), kLost);
  EXPECT_OK(store_.Stat("k"));
}

TEST_F(FaultyObjectStoreTest, TheGateSeesEachCallBeforeItHappens) {
  std::vector<std::string> seen;
  store_.SetGate([&](Verb, std::string_view key) {
    seen.emplace_back(key);
    EXPECT_EQ(memory_.size(), seen.size() - 1);
  });
  ASSERT_OK(Put("a", "v"));
  ASSERT_OK(Put("b", "v"));
  EXPECT_THAT(seen, testing::ElementsAre("a", "b"));
}

}  // namespace
}  // namespace cairn
