// The half of the ObjectStore contract that is about uploads; see
// testing/object_store_contract.h.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/crc64.h"
#include "object/object_store.h"
#include "testing/object_store_contract.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {

class ObjectUploadContract : public ObjectStoreContract {
 protected:
  static constexpr uint64_t kPart = 1 << 20;

  static UploadOptions Sizes(std::string_view content) {
    return {.size_bytes = content.size(), .part_bytes = kPart};
  }

  static int PartCount(std::string_view content) {
    return static_cast<int>((content.size() + kPart - 1) / kPart);
  }

  static std::string_view PartOf(std::string_view content, int number) {
    return content.substr((static_cast<size_t>(number) - 1) * kPart, kPart);
  }

  static absl::Status AddPart(Upload& upload, std::string_view content,
                              int number) {
    const std::string_view part = PartOf(content, number);
    const AlignedBytes memory(part);
    return upload.AddPart(number, memory.bytes(), CrcOfText(part));
  }

  std::unique_ptr<Upload> Begin(std::string_view key,
                                std::string_view content) {
    auto upload = store_.BeginUpload(key, Sizes(content));
    EXPECT_OK(upload);
    return upload.ok() ? *std::move(upload) : nullptr;
  }

  void UploadAll(std::string_view key, std::string_view content) {
    const auto upload = Begin(key, content);
    ASSERT_NE(upload, nullptr);
    for (int number = 1; number <= PartCount(content); ++number) {
      ASSERT_OK(AddPart(*upload, content, number));
    }
    ASSERT_OK(upload->Commit(CrcOfText(content)));
  }

  static std::vector<int> Numbers(Upload& upload) {
    std::vector<int> numbers;
    const auto parts = upload.Parts();
    EXPECT_OK(parts);
    if (!parts.ok()) return numbers;
    for (const PartInfo& part : *parts) numbers.push_back(part.number);
    return numbers;
  }

  size_t UploadCount(std::string_view prefix = "") {
    const auto uploads = store_.ListUploads(prefix);
    EXPECT_OK(uploads);
    return uploads.ok() ? uploads->size() : 0;
  }
};

TEST_P(ObjectUploadContract, EverySizeArrives) {
  const std::string random = RandomBytes(3 * kPart + 1, 5);
  const size_t sizes[] = {1,         4095,          4096,         4097,
                          kPart - 1, kPart,         kPart + 1,    2 * kPart - 1,
                          2 * kPart, 2 * kPart + 1, 3 * kPart + 1};
  for (const size_t size : sizes) {
    const std::string key = "size/" + std::to_string(size);
    const std::string content = random.substr(0, size);
    UploadAll(key, content);
    ExpectHolds(key, content);
  }
  EXPECT_EQ(UploadCount(), 0u);
}

TEST_P(ObjectUploadContract, ZerosArrive) {
  std::string content(4 * kPart + 100, '\0');
  UploadAll("zeros", content);
  ExpectHolds("zeros", content);
  content[2 * kPart + 5] = 'x';
  UploadAll("nearly", content);
  ExpectHolds("nearly", content);
}

TEST_P(ObjectUploadContract, NothingIsVisibleBeforeCommit) {
  const std::string content = RandomBytes(2 * kPart, 1);
  const auto upload = Begin("k", content);
  ASSERT_OK(AddPart(*upload, content, 1));
  ASSERT_OK(AddPart(*upload, content, 2));
  ExpectAbsent("k");
  EXPECT_TRUE(Keys("")->empty());
  ASSERT_OK(upload->Commit(CrcOfText(content)));
  ExpectHolds("k", content);
}

TEST_P(ObjectUploadContract, PartsInAnyOrderFromManyThreads) {
  const std::string content = RandomBytes(15 * kPart + 123, 2);
  const auto upload = Begin("k", content);
  std::atomic<int> failed{0};
  InParallel(4, [&](int thread) {
    for (int number = PartCount(content) - thread; number >= 1; number -= 4) {
      if (!AddPart(*upload, content, number).ok()) ++failed;
    }
  });
  EXPECT_EQ(failed, 0);
  const auto parts = upload->Parts();
  ASSERT_OK(parts);
  ASSERT_EQ(parts->size(), 16u);
  for (int number = 1; number <= 16; ++number) {
    const PartInfo& part = (*parts)[static_cast<size_t>(number) - 1];
    EXPECT_EQ(part.number, number);
    EXPECT_EQ(part.size_bytes, PartOf(content, number).size());
    EXPECT_EQ(part.crc64_nvme.value_or(CrcOfText(PartOf(content, number))),
              CrcOfText(PartOf(content, number)));
  }
  ASSERT_OK(upload->Commit(CrcOfText(content)));
  ExpectHolds("k", content);
}

TEST_P(ObjectUploadContract, APartSentAgainReplacesTheOldOne) {
  const std::string first = RandomBytes(2 * kPart, 1);
  std::string second = RandomBytes(2 * kPart, 2);
  std::fill_n(second.begin(), kPart, '\0');
  const auto upload = Begin("k", first);
  for (int number : {1, 2}) ASSERT_OK(AddPart(*upload, first, number));
  for (int number : {1, 2}) ASSERT_OK(AddPart(*upload, second, number));
  EXPECT_EQ(Numbers(*upload), (std::vector<int>{1, 2}));
  EXPECT_THAT(upload->Commit(CrcOfText(first)),
              HasCode(absl::StatusCode::kDataLoss));
  ASSERT_OK(upload->Commit(CrcOfText(second)));
  ExpectHolds("k", second);
}

TEST_P(ObjectUploadContract, APartSentByTwoThreadsIsOneOfThem) {
  const std::string contents[2] = {RandomBytes(kPart, 1),
                                   RandomBytes(kPart, 2)};
  const auto upload = Begin("k", contents[0]);
  std::atomic<int> failed{0};
  InParallel(8, [&](int thread) {
    if (!AddPart(*upload, contents[thread % 2], 1).ok()) ++failed;
  });
  EXPECT_EQ(failed, 0);
  const bool first = upload->Commit(CrcOfText(contents[0])).ok();
  if (!first) {
    ASSERT_OK(upload->Commit(CrcOfText(contents[1])));
  }
  ExpectHolds("k", contents[first ? 0 : 1]);
}

TEST_P(ObjectUploadContract, AMissingPartIsNoticed) {
  const std::string content = RandomBytes(3 * kPart, 1);
  const auto upload = Begin("k", content);
  for (int number : {1, 3}) ASSERT_OK(AddPart(*upload, content, number));
  EXPECT_THAT(upload->Commit(CrcOfText(content)),
              HasCode(absl::StatusCode::kFailedPrecondition));
  ExpectAbsent("k");
  ASSERT_OK(AddPart(*upload, content, 2));
  ASSERT_OK(upload->Commit(CrcOfText(content)));
  ExpectHolds("k", content);
}

TEST_P(ObjectUploadContract, APartWithAnotherCrcIsDataLossAndNotThere) {
  const std::string content = RandomBytes(kPart, 1);
  const auto upload = Begin("k", content);
  const AlignedBytes memory(content);
  EXPECT_THAT(upload->AddPart(1, memory.bytes(), CrcOfText("other")),
              HasCode(absl::StatusCode::kDataLoss));
  EXPECT_TRUE(Numbers(*upload).empty());
  // A bad replacement takes the good part away too.
  ASSERT_OK(AddPart(*upload, content, 1));
  EXPECT_THAT(upload->AddPart(1, memory.bytes(), CrcOfText("other")),
              HasCode(absl::StatusCode::kDataLoss));
  EXPECT_TRUE(Numbers(*upload).empty());
  ASSERT_OK(AddPart(*upload, content, 1));
  ASSERT_OK(upload->Commit(CrcOfText(content)));
  ExpectHolds("k", content);
}

TEST_P(ObjectUploadContract, ThePartsMemoryIsLeftAlone) {
  const std::string content = RandomBytes(kPart + 777, 4);
  const auto upload = Begin("k", content);
  const AlignedBytes last(PartOf(content, 2));
  ASSERT_OK(upload->AddPart(2, last.bytes(), CrcOfText(PartOf(content, 2))));
  EXPECT_TRUE(AsText(last.bytes()) == PartOf(content, 2));
}

TEST_P(ObjectUploadContract, AnotherCrcForTheWholeIsDataLoss) {
  const std::string content = RandomBytes(kPart, 1);
  const auto upload = Begin("k", content);
  ASSERT_OK(AddPart(*upload, content, 1));
  EXPECT_THAT(upload->Commit(CrcOfText("other")),
              HasCode(absl::StatusCode::kDataLoss));
  ExpectAbsent("k");
}

TEST_P(ObjectUploadContract, PartsThatDoNotFitAreRefused) {
  const std::string content = RandomBytes(kPart + 10, 1);
  const auto upload = Begin("k", content);
  const AlignedBytes whole(PartOf(content, 1));
  const auto refused = HasCode(absl::StatusCode::kInvalidArgument);
  const MutableByteView bytes = whole.bytes();
  EXPECT_THAT(upload->AddPart(0, bytes, 0), refused);
  EXPECT_THAT(upload->AddPart(-1, bytes, 0), refused);
  EXPECT_THAT(upload->AddPart(3, bytes, 0), refused);
  EXPECT_THAT(upload->AddPart(2, bytes, 0), refused);  // Too long.
  EXPECT_THAT(upload->AddPart(1, bytes.first(10), 0), refused);
  EXPECT_THAT(upload->AddPart(2, bytes.subspan(1, 10), 0), refused);
}

TEST_P(ObjectUploadContract, SizesThatAreNoneAreRefused) {
  const auto refused = HasCode(absl::StatusCode::kInvalidArgument);
  const auto begin = [this](uint64_t size_bytes, uint64_t part_bytes) {
    return store_.BeginUpload(
        "k", {.size_bytes = size_bytes, .part_bytes = part_bytes});
  };
  EXPECT_THAT(begin(0, kPart), refused);
  EXPECT_THAT(begin(1, 0), refused);
  EXPECT_THAT(begin(1, kPart + 4096), refused);
  EXPECT_EQ(UploadCount(), 0u);
}

TEST_P(ObjectUploadContract, AnUploadThatIsDroppedLeavesNothing) {
  const std::string content = RandomBytes(2 * kPart, 1);
  std::string token;
  {
    const auto upload = Begin("k", content);
    token = upload->Token();
    ASSERT_OK(AddPart(*upload, content, 1));
    EXPECT_EQ(UploadCount(), 1u);
  }
  ExpectAbsent("k");
  EXPECT_EQ(UploadCount(), 0u);
  EXPECT_THAT(store_.ResumeUpload("k", token, Sizes(content)),
              HasCode(absl::StatusCode::kNotFound));
}

TEST_P(ObjectUploadContract, ADetachedUploadIsResumedByItsToken) {
  const std::string content = RandomBytes(3 * kPart + 5, 1);
  std::string token;
  {
    const auto upload = Begin("k//odd", content);
    token = upload->Token();
    for (const char c : token) EXPECT_TRUE(c > ' ' && c <= '~');
    for (int number : {4, 2}) ASSERT_OK(AddPart(*upload, content, number));
    upload->Detach();
  }
  ExpectAbsent("k//odd");
  auto resumed = store_.ResumeUpload("k//odd", token, Sizes(content));
  ASSERT_OK(resumed);
  Upload& upload = **resumed;
  EXPECT_EQ(upload.Token(), token);
  EXPECT_EQ(Numbers(upload), (std::vector<int>{2, 4}));
  EXPECT_THAT(upload.Commit(CrcOfText(content)),
              HasCode(absl::StatusCode::kFailedPrecondition));
  for (int number : {1, 3}) ASSERT_OK(AddPart(upload, content, number));
  ASSERT_OK(upload.Commit(CrcOfText(content)));
  ExpectHolds("k//odd", content);
  EXPECT_EQ(UploadCount(), 0u);
}

// The sweep knows a key and a token, and nothing else.
TEST_P(ObjectUploadContract, WithoutSizesItIsResumedAsItWasBegun) {
  const std::string content = RandomBytes(kPart + 5, 1);
  std::string token;
  {
    const auto upload = Begin("k", content);
    token = upload->Token();
    ASSERT_OK(AddPart(*upload, content, 2));
    upload->Detach();
  }
  {
    auto resumed = store_.ResumeUpload("k", token, {});
    ASSERT_OK(resumed);
    EXPECT_EQ(Numbers(**resumed), (std::vector<int>{2}));
  }
  EXPECT_EQ(UploadCount(), 0u);
  EXPECT_THAT(store_.ResumeUpload("k", token, {}),
              HasCode(absl::StatusCode::kNotFound));
}

TEST_P(ObjectUploadContract, AResumedPartCanBeReplacedByZeros) {
  std::string content = RandomBytes(2 * kPart, 1);
  std::string token;
  {
    const auto upload = Begin("k", content);
    token = upload->Token();
    ASSERT_OK(AddPart(*upload, content, 1));
    upload->Detach();
  }
  std::fill(content.begin(), content.end(), '\0');
  auto upload = store_.ResumeUpload("k", token, Sizes(content));
  ASSERT_OK(upload);
  for (int number : {1, 2}) ASSERT_OK(AddPart(**upload, content, number));
  ASSERT_OK((*upload)->Commit(CrcOfText(content)));
  ExpectHolds("k", content);
}

TEST_P(ObjectUploadContract, AResumedUploadThatIsDroppedLeavesNothing) {
  const std::string content = RandomBytes(kPart, 1);
  std::string token;
  {
    const auto upload = Begin("k", content);
    token = upload->Token();
    upload->Detach();
  }
  EXPECT_EQ(UploadCount(), 1u);
  {
    ASSERT_OK(store_.ResumeUpload("k", token, Sizes(content)));
  }
  EXPECT_EQ(UploadCount(), 0u);
}

TEST_P(ObjectUploadContract, ResumeOfAnotherUploadIsNotFoundAndHarmsNothing) {
  const std::string content = RandomBytes(2 * kPart, 1);
  std::string token;
  {
    const auto upload = Begin("k", content);
    token = upload->Token();
    ASSERT_OK(AddPart(*upload, content, 1));
    upload->Detach();
  }
  const auto not_found = HasCode(absl::StatusCode::kNotFound);
  UploadOptions other = Sizes(content);
  EXPECT_THAT(store_.ResumeUpload("other", token, other), not_found);
  other.size_bytes -= 1;
  EXPECT_THAT(store_.ResumeUpload("k", token, other), not_found);
  other = Sizes(content);
  other.part_bytes *= 2;
  EXPECT_THAT(store_.ResumeUpload("k", token, other), not_found);
  for (const std::string bad : {"", "..", "../..", "no such token", "/"}) {
    EXPECT_THAT(store_.ResumeUpload("k", bad, Sizes(content)), not_found);
  }
  auto upload = store_.ResumeUpload("k", token, Sizes(content));
  ASSERT_OK(upload);
  EXPECT_EQ(Numbers(**upload), (std::vector<int>{1}));
}

TEST_P(ObjectUploadContract, ACommittedUploadIsGone) {
  const std::string content = RandomBytes(kPart, 1);
  const auto upload = Begin("k", content);
  ASSERT_OK(AddPart(*upload, content, 1));
  ASSERT_OK(upload->Commit(CrcOfText(content)));
  const auto gone = HasCode(absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(upload->Commit(CrcOfText(content)), gone);
  EXPECT_THAT(AddPart(*upload, content, 1), gone);
  EXPECT_THAT(store_.ResumeUpload("k", upload->Token(), Sizes(content)),
              HasCode(absl::StatusCode::kNotFound));
  ExpectHolds("k", content);
}

TEST_P(ObjectUploadContract, CommitNeverReplaces) {
  const std::string content = RandomBytes(kPart, 1);
  const auto upload = Begin("k", content);
  ASSERT_OK(AddPart(*upload, content, 1));
  ASSERT_OK(Put("k", "first"));
  EXPECT_THAT(upload->Commit(CrcOfText(content)),
              HasCode(absl::StatusCode::kAlreadyExists));
  ExpectHolds("k", "first");
  EXPECT_EQ(UploadCount(), 0u);  // The upload is gone with it.
}

TEST_P(ObjectUploadContract, OfTwoUploadsOfAKeyOneWins) {
  const std::string contents[2] = {RandomBytes(kPart, 1),
                                   RandomBytes(kPart, 2)};
  std::unique_ptr<Upload> uploads[2];
  for (int i : {0, 1}) {
    uploads[i] = Begin("k", contents[i]);
    ASSERT_OK(AddPart(*uploads[i], contents[i], 1));
  }
  std::atomic<int> won{0};
  std::atomic<int> winner{-1};
  InParallel(2, [&](int i) {
    if (uploads[i]->Commit(CrcOfText(contents[i])).ok()) {
      ++won;
      winner = i;
    }
  });
  ASSERT_EQ(won, 1);
  ExpectHolds("k", contents[winner]);
}

TEST_P(ObjectUploadContract, ListUploadsByPrefixInOrder) {
  const std::string content = RandomBytes(kPart, 1);
  std::vector<std::unique_ptr<Upload>> uploads;
  for (const char* key : {"run/b", "run/a", "run/a", "other", "run"}) {
    uploads.push_back(Begin(key, content));
  }
  std::vector<std::string> keys;
  const auto listed = store_.ListUploads("run/");
  ASSERT_OK(listed);
  for (const UploadInfo& info : *listed) keys.push_back(info.key);
  EXPECT_THAT(keys, testing::ElementsAre("run/a", "run/a", "run/b"));
  EXPECT_NE((*listed)[0].token, (*listed)[1].token);
  EXPECT_EQ(UploadCount("run"), 4u);
  EXPECT_EQ(UploadCount(), 5u);
  EXPECT_EQ(UploadCount("nothing"), 0u);
}

TEST_P(ObjectUploadContract, UploadsOfClashingKeys) {
  const std::string content = RandomBytes(kPart, 1);
  UploadAll("run/x", content);
  UploadAll("run", content);
  UploadAll("run/x/y", content);
  for (const char* key : {"run/x", "run", "run/x/y"}) ExpectHolds(key, content);
}

TEST_P(ObjectUploadContract, UploadKeepsMetadataOrSaysNot) {
  const std::string content = RandomBytes(kPart, 1);
  UploadOptions options = Sizes(content);
  options.metadata = {{"owner", "0"}};
  auto upload = store_.BeginUpload("k", options);
  ASSERT_OK(upload);
  ASSERT_OK(AddPart(**upload, content, 1));
  ASSERT_OK((*upload)->Commit(CrcOfText(content)));
  ExpectHolds("k", content);
  if (traits_.keeps_metadata()) {
    EXPECT_EQ(traits_.metadata_of("k"), options.metadata);
  }
}

}  // namespace cairn
