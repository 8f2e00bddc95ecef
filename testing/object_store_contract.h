// The ObjectStore contract as tests. A back end includes this file and
// testing/object_upload_contract.h in one file of its test program and
// instantiates both suites with its harness (testing/object_store_harness.h).
// It changes nothing in them: where it must differ it says so in
// ObjectStoreTraits, and the tests then expect the difference.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/crc64.h"
#include "object/object_store.h"
#include "testing/object_store_harness.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {

class ObjectStoreContract
    : public testing::TestWithParam<ObjectStoreHarnessFactory> {
 protected:
  absl::Status Put(std::string_view key, std::string_view content,
                   const PutOptions& options = {}) {
    return store_.Put(key, AsBytes(content), options);
  }

  absl::StatusOr<std::string> Read(std::string_view key, uint64_t offset,
                                   size_t size) {
    std::string content(size, '?');
    absl::Status status =
        store_.ReadAt(key, offset, std::as_writable_bytes(std::span(content)));
    if (!status.ok()) return status;
    return content;
  }

  // The whole object, its size from Stat.
  absl::StatusOr<std::string> ReadAll(std::string_view key) {
    auto info = store_.Stat(key);
    if (!info.ok()) return info.status();
    return Read(key, 0, info->size_bytes);
  }

  absl::StatusOr<std::vector<std::string>> Keys(std::string_view prefix) {
    std::vector<std::string> keys;
    absl::Status status = store_.List(prefix, [&](const ObjectInfo& info) {
      keys.push_back(info.key);
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return keys;
  }

  // What `key` holds now is `content`, by every way of looking.
  void ExpectHolds(std::string_view key, std::string_view content) {
    SCOPED_TRACE(testing::PrintToString(std::string(key)));
    const auto info = store_.Stat(key);
    ASSERT_OK(info);
    EXPECT_EQ(info->key, key);
    EXPECT_EQ(info->size_bytes, content.size());
    if (traits_.keeps_crc) {
      EXPECT_EQ(info->crc64_nvme, CrcOfText(content));
    } else {
      EXPECT_EQ(info->crc64_nvme, std::nullopt);
    }
    const auto read = Read(key, 0, content.size());
    ASSERT_OK(read);
    EXPECT_TRUE(*read == content);
  }

  void ExpectAbsent(std::string_view key) {
    SCOPED_TRACE(testing::PrintToString(std::string(key)));
    EXPECT_THAT(store_.Stat(key), HasCode(absl::StatusCode::kNotFound));
    EXPECT_THAT(Read(key, 0, 1), HasCode(absl::StatusCode::kNotFound));
  }

  // Runs `body(i)` on `count` threads that start together.
  static void InParallel(int count, const std::function<void(int)>& body) {
    std::atomic<int> waiting{count};
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        --waiting;
        while (waiting.load() > 0) std::this_thread::yield();
        body(i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  const std::unique_ptr<ObjectStoreHarness> harness_ = GetParam()();
  ObjectStore& store_ = harness_->store();
  const ObjectStoreTraits traits_ = harness_->traits();
};

// --- Put ---------------------------------------------------------------------

TEST_P(ObjectStoreContract, PutIsThere) {
  ASSERT_OK(Put("k", "content"));
  ExpectHolds("k", "content");
}

TEST_P(ObjectStoreContract, PutOfNothingIsAnObject) {
  ASSERT_OK(Put("empty", ""));
  ExpectHolds("empty", "");
  EXPECT_THAT(*Keys(""), testing::ElementsAre("empty"));
}

TEST_P(ObjectStoreContract, PutKeepsEverySize) {
  const std::string content = RandomBytes((5 << 20) + 1, 7);
  const size_t sizes[] = {1,       4095,          4096,         4097,
                          262143,  262144,        262145,       1 << 20,
                          4 << 20, (4 << 20) + 1, (5 << 20) + 1};
  for (const size_t size : sizes) {
    const std::string key = "size/" + std::to_string(size);
    ASSERT_OK(Put(key, std::string_view(content).substr(0, size)));
    ExpectHolds(key, std::string_view(content).substr(0, size));
  }
}

TEST_P(ObjectStoreContract, PutNeverReplaces) {
  ASSERT_OK(Put("k", "first"));
  EXPECT_THAT(Put("k", "second"), HasCode(absl::StatusCode::kAlreadyExists));
  ExpectHolds("k", "first");
}

TEST_P(ObjectStoreContract, PutChecksTheCrcItIsGiven) {
  EXPECT_OK(Put("right", "content", {.crc64_nvme = CrcOfText("content")}));
  EXPECT_THAT(Put("wrong", "content", {.crc64_nvme = CrcOfText("other")}),
              HasCode(absl::StatusCode::kDataLoss));
  ExpectAbsent("wrong");
  EXPECT_THAT(*Keys(""), testing::ElementsAre("right"));
}

TEST_P(ObjectStoreContract, PutKeepsMetadataOrSaysNot) {
  const ObjectMetadata metadata = {{"owner", "0"}, {"modtime", "1 2"}};
  ASSERT_OK(Put("k", "content", {.metadata = metadata}));
  ExpectHolds("k", "content");
  if (traits_.keeps_metadata()) {
    EXPECT_EQ(traits_.metadata_of("k"), metadata);
  }
}

TEST_P(ObjectStoreContract, PutWithBarrierIsAPut) {
  ASSERT_OK(Put("data/1", "content"));
  ASSERT_OK(Put("manifest", "done", {.barrier = true}));
  EXPECT_THAT(Put("manifest", "again", {.barrier = true}),
              HasCode(absl::StatusCode::kAlreadyExists));
  ExpectHolds("manifest", "done");
}

TEST_P(ObjectStoreContract, KeysThatAreNoneAreRefusedByEveryVerb) {
  const std::string bad_keys[] = {"", std::string(kKeyBytesMax + 1, 'k'),
                                  std::string("a\0b", 3)};
  const auto refused = HasCode(absl::StatusCode::kInvalidArgument);
  const UploadOptions sizes = {.size_bytes = 1, .part_bytes = 1 << 20};
  for (const std::string& key : bad_keys) {
    EXPECT_THAT(Put(key, "content"), refused);
    EXPECT_THAT(Read(key, 0, 1), refused);
    EXPECT_THAT(store_.Stat(key), refused);
    EXPECT_THAT(store_.Remove(key), refused);
    EXPECT_THAT(store_.BeginUpload(key, sizes), refused);
    EXPECT_THAT(store_.ResumeUpload(key, "token", sizes), refused);
  }
}

// --- Keys are data -----------------------------------------------------------

TEST_P(ObjectStoreContract, OddKeysLiveSideBySide) {
  std::map<std::string, std::string> expected;
  for (const std::string& key : OddKeys()) {
    const std::string content = "of " + key;
    ASSERT_OK(Put(key, content)) << testing::PrintToString(key);
    ASSERT_TRUE(expected.emplace(key, content).second);
    EXPECT_THAT(Put(key, "other"), HasCode(absl::StatusCode::kAlreadyExists));
  }
  for (const auto& [key, content] : expected) ExpectHolds(key, content);

  std::vector<std::string> keys;
  for (const auto& [key, content] : expected) keys.push_back(key);
  EXPECT_EQ(*Keys(""), keys);

  while (!expected.empty()) {
    const std::string key = expected.begin()->first;
    ASSERT_OK(store_.Remove(key));
    ExpectAbsent(key);
    expected.erase(key);
    for (const auto& [other, content] : expected) {
      EXPECT_OK(store_.Stat(other)) << testing::PrintToString(other);
    }
  }
  EXPECT_TRUE(Keys("")->empty());
}

TEST_P(ObjectStoreContract, OddKeysLiveSideBySideInTheOtherOrder) {
  std::vector<std::string> keys = OddKeys();
  std::reverse(keys.begin(), keys.end());
  for (const std::string& key : keys) ASSERT_OK(Put(key, "of " + key));
  for (const std::string& key : keys) ExpectHolds(key, "of " + key);
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(*Keys(""), keys);
}

TEST_P(ObjectStoreContract, AClashingKeyStaysTakenWhenTheClashIsGone) {
  ASSERT_OK(Put("run/x", "below"));
  ASSERT_OK(Put("run", "above"));
  ASSERT_OK(store_.Remove("run/x"));
  EXPECT_THAT(Put("run", "again"), HasCode(absl::StatusCode::kAlreadyExists));
  ExpectHolds("run", "above");
  ASSERT_OK(store_.Remove("run"));
  ExpectAbsent("run");
  ASSERT_OK(Put("run", "new"));
  ExpectHolds("run", "new");
  ASSERT_OK(Put("run/x", "below again"));
  ASSERT_OK(store_.Remove("run"));
  EXPECT_THAT(Put("run/x", "taken"), HasCode(absl::StatusCode::kAlreadyExists));
  ExpectHolds("run/x", "below again");
}

TEST_P(ObjectStoreContract, ThereIsNeverADirectory) {
  ASSERT_OK(Put("run/step/x", "content"));
  for (const char* key : {"run", "run/", "run/step", "run/step/"}) {
    ExpectAbsent(key);
    EXPECT_OK(store_.Remove(key));
  }
  ExpectHolds("run/step/x", "content");
}

// --- ReadAt ------------------------------------------------------------------

TEST_P(ObjectStoreContract, ReadAtIsNeverShort) {
  ASSERT_OK(Put("k", "12345"));
  const auto beyond = HasCode(absl::StatusCode::kOutOfRange);
  EXPECT_THAT(Read("k", 2, 4), beyond);
  EXPECT_THAT(Read("k", 5, 1), beyond);
  EXPECT_THAT(Read("k", 6, 0), beyond);
  EXPECT_THAT(Read("k", UINT64_MAX, 2), beyond);
  EXPECT_EQ(*Read("k", 1, 4), "2345");
  EXPECT_EQ(*Read("k", 5, 0), "");
}

TEST_P(ObjectStoreContract, ReadAtAnyRangeIntoAnyMemory) {
  const std::string content = RandomBytes((6 << 20) + 777, 3);
  ASSERT_OK(Put("k", content));
  const AlignedBytes memory(content.size() + 2 * kBufferAlignment);
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    uint64_t offset = random() % content.size();
    if (i % 3 == 0) offset = offset / 4096 * 4096;
    const size_t left = content.size() - offset;
    size_t size = i % 2 == 0 ? left : random() % (left + 1);
    if (i % 5 == 0) size = std::min<size_t>(size, 5000);
    const size_t shift = i % 4 == 0 ? random() % 4096 : 0;
    const MutableByteView all = memory.bytes();
    all[shift + size] = std::byte{0x5a};
    ASSERT_OK(store_.ReadAt("k", offset, all.subspan(shift, size)));
    ASSERT_TRUE(AsText(all.subspan(shift, size)) ==
                std::string_view(content).substr(offset, size))
        << offset << " " << size << " " << shift;
    ASSERT_EQ(all[shift + size], std::byte{0x5a});  // Nothing beyond `out`.
  }
}

TEST_P(ObjectStoreContract, ReadAtFromManyThreads) {
  std::vector<std::string> contents;
  for (uint64_t i = 0; i < 8; ++i) {
    contents.push_back(RandomBytes(300'000 + i, i));
    ASSERT_OK(Put("object/" + std::to_string(i), contents.back()));
  }
  std::atomic<int> wrong{0};
  InParallel(8, [&](int thread) {
    std::mt19937_64 random(static_cast<uint64_t>(thread));
    for (int i = 0; i < 50; ++i) {
      const size_t which = random() % contents.size();
      const uint64_t offset = random() % contents[which].size();
      const size_t size = random() % (contents[which].size() - offset);
      const auto read = Read("object/" + std::to_string(which), offset, size);
      if (!read.ok() || *read != contents[which].substr(offset, size)) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(ObjectStoreContract, ReadAtKnowsNothingOfARemovedObject) {
  ASSERT_OK(Put("k", "old"));
  EXPECT_EQ(*Read("k", 0, 3), "old");
  ASSERT_OK(store_.Remove("k"));
  ExpectAbsent("k");
  ASSERT_OK(Put("k", "new"));
  EXPECT_EQ(*Read("k", 0, 3), "new");
}

TEST_P(ObjectStoreContract, MoreObjectsThanAnyoneKeepsOpen) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_OK(Put("k" + std::to_string(i), std::to_string(i)));
  }
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(*ReadAll("k" + std::to_string(i)), std::to_string(i));
    }
  }
}

// --- Stat and Remove ---------------------------------------------------------

TEST_P(ObjectStoreContract, StatOfAnAbsentKey) {
  ExpectAbsent("absent");
  ExpectAbsent("absent/below");
  ExpectAbsent("absent//odd");
}

TEST_P(ObjectStoreContract, RemoveOfAnAbsentKeyIsOk) {
  EXPECT_OK(store_.Remove("absent"));
  EXPECT_OK(store_.Remove("absent/below"));
  EXPECT_OK(store_.Remove("absent//odd"));
  ASSERT_OK(Put("k", "content"));
  EXPECT_OK(store_.Remove("k/below"));
  EXPECT_OK(store_.Remove("k"));
  EXPECT_OK(store_.Remove("k"));
  ExpectAbsent("k");
}

// --- List --------------------------------------------------------------------

TEST_P(ObjectStoreContract, ListOfAnEmptyStore) {
  EXPECT_TRUE(Keys("")->empty());
  EXPECT_TRUE(Keys("any/prefix")->empty());
  EXPECT_TRUE(Keys("//")->empty());
  EXPECT_TRUE(Keys(std::string(5000, 'x'))->empty());
}

TEST_P(ObjectStoreContract, ListTellsSizes) {
  ASSERT_OK(Put("a", "1"));
  ASSERT_OK(Put("b//c", "22"));
  std::map<std::string, uint64_t> sizes;
  ASSERT_OK(store_.List("", [&](const ObjectInfo& info) {
    sizes[info.key] = info.size_bytes;
    return absl::OkStatus();
  }));
  EXPECT_EQ(sizes, (std::map<std::string, uint64_t>{{"a", 1}, {"b//c", 2}}));
}

TEST_P(ObjectStoreContract, ListIsInByteOrderForEveryPrefix) {
  constexpr const char* kPieces[] = {"a", "b", "/", ".", "-", "0", "/", "\xff"};
  std::mt19937_64 random(11);
  std::vector<std::string> keys;
  for (int i = 0; i < 300; ++i) {
    std::string key;
    const size_t pieces = 1 + random() % 6;
    while (key.size() < pieces) key += kPieces[random() % std::size(kPieces)];
    const absl::Status status = Put(key, "x");
    if (status.ok()) {
      keys.push_back(key);
    } else {
      ASSERT_THAT(status, HasCode(absl::StatusCode::kAlreadyExists));
    }
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::string> prefixes = {"", "zz", "a/b/c/d/e/f"};
  for (const std::string& key : keys) {
    for (size_t size = 1; size <= key.size(); ++size) {
      prefixes.push_back(key.substr(0, size));
    }
  }
  std::sort(prefixes.begin(), prefixes.end());
  prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
  for (const std::string& prefix : prefixes) {
    std::vector<std::string> expected;
    for (const std::string& key : keys) {
      if (key.starts_with(prefix)) expected.push_back(key);
    }
    ASSERT_EQ(*Keys(prefix), expected) << testing::PrintToString(prefix);
  }
}

TEST_P(ObjectStoreContract, ListStopsWithTheVisitorsStatus) {
  for (const char* key : {"a", "b//", "c", "d"}) ASSERT_OK(Put(key, "x"));
  int visited = 0;
  const absl::Status status = store_.List("", [&](const ObjectInfo&) {
    return ++visited == 2 ? absl::CancelledError("enough") : absl::OkStatus();
  });
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kCancelled, "enough"));
  EXPECT_EQ(visited, 2);
}

TEST_P(ObjectStoreContract, AVisitorMayUseTheStore) {
  ASSERT_OK(Put("a", "1"));
  ASSERT_OK(Put("b", "2"));
  std::string all;
  ASSERT_OK(store_.List("", [&](const ObjectInfo& info) -> absl::Status {
    const auto read = ReadAll(info.key);
    if (!read.ok()) return read.status();
    all += *read;
    return absl::OkStatus();
  }));
  EXPECT_EQ(all, "12");
}

// --- Many threads ------------------------------------------------------------

TEST_P(ObjectStoreContract, OfManyPutsOfAKeyExactlyOneWins) {
  for (const std::string key : {"a/new/directory/k", "odd//k", "plain"}) {
    std::atomic<int> won{0};
    std::atomic<int> winner{-1};
    std::atomic<int> other{0};
    InParallel(16, [&](int thread) {
      const absl::Status status = Put(key, "of " + std::to_string(thread));
      if (status.ok()) {
        ++won;
        winner = thread;
      } else if (!absl::IsAlreadyExists(status)) {
        ++other;
      }
    });
    EXPECT_EQ(won, 1);
    EXPECT_EQ(other, 0);
    ExpectHolds(key, "of " + std::to_string(winner.load()));
  }
}

TEST_P(ObjectStoreContract, ManyPutsUnderTheSameNewPrefix) {
  std::atomic<int> failed{0};
  InParallel(16, [&](int thread) {
    if (!Put("new/deep/prefix/" + std::to_string(thread), "x").ok()) ++failed;
  });
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(Keys("new/")->size(), 16u);
}

TEST_P(ObjectStoreContract, PutsOfClashingKeysRaceWithRemoves) {
  // Both keys of a clash come and go; a key is never stored twice and never in
  // between.
  std::atomic<int> won[2] = {0, 0};
  const std::string keys[2] = {"run", "run/x"};
  InParallel(8, [&](int thread) {
    const int which = thread % 2;
    for (int i = 0; i < 100; ++i) {
      const absl::Status put = Put(keys[which], keys[which]);
      if (absl::IsAlreadyExists(put)) continue;
      EXPECT_OK(put);
      if (!put.ok()) continue;
      ++won[which];
      // Nobody else removes it: it is ours until we do.
      const auto read = ReadAll(keys[which]);
      EXPECT_OK(read);
      EXPECT_EQ(read.value_or(""), keys[which]);
      EXPECT_OK(store_.Remove(keys[which]));
    }
  });
  for (int which : {0, 1}) {
    EXPECT_GT(won[which], 0);
    ExpectAbsent(keys[which]);
  }
  EXPECT_TRUE(Keys("")->empty());
}

TEST_P(ObjectStoreContract, PutsRaceWithRemovesOfTheirNeighbours) {
  std::atomic<int> failed{0};
  InParallel(8, [&](int thread) {
    const std::string key = "shared/directory/" + std::to_string(thread);
    for (int i = 0; i < 100; ++i) {
      if (!Put(key, "x").ok()) ++failed;
      if (!store_.Remove(key).ok()) ++failed;
    }
  });
  EXPECT_EQ(failed, 0);
  EXPECT_TRUE(Keys("")->empty());
}

}  // namespace cairn
