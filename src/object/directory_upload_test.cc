// Uploads into a directory: what their staging holds, and what of it is
// believed after a crash of the process or of the machine.

#include "object/directory_upload.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/digest.h"
#include "object/directory_keys.h"
#include "object/directory_store.h"
#include "object/part_journal.h"
#include "testing/object_store_harness.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPart = 1 << 20;

TEST(PartJournal, TheLastLineOfANumberWins) {
  const JournalPart first = {100, 0xabc, 1};
  const JournalPart second = {100, 0xdef, 2};
  const std::string text = JournalLine(2, first) + JournalLine(1, first) +
                           JournalLine(2, second) + JournalLine(3, first) +
                           JournalLine(3, {});
  const std::map<int, JournalPart> expected = {{1, first}, {2, second}};
  EXPECT_EQ(ParseJournal(text), expected);
}

TEST(PartJournal, TornAndForeignLinesAreNotThere) {
  const JournalPart part = {100, 0xabc, UINT64_MAX};
  const std::string line = JournalLine(7, part);
  for (size_t size = 0; size < line.size(); ++size) {
    EXPECT_TRUE(ParseJournal(line.substr(0, size)).empty()) << size;
    const auto parts = ParseJournal(line.substr(0, size) + "\n" + line);
    EXPECT_EQ(parts, (std::map<int, JournalPart>{{7, part}})) << size;
  }
  for (size_t at = 0; at + 1 < line.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = line;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      // One bit can change the case of a hex digit: that is the same line.
      for (const auto& [number, read] : ParseJournal(damaged)) {
        EXPECT_EQ(number, 7);
        EXPECT_EQ(read, part);
      }
    }
  }
}

TEST(PartJournal, AnyTextIsParsed) {
  std::mt19937_64 random(1);
  constexpr char kAlphabet[] = "0123456789abcdef -+\n\n\n \xff";
  for (int i = 0; i < 1000; ++i) {
    std::string text(random() % 500, '\0');
    for (char& c : text) c = kAlphabet[random() % (sizeof(kAlphabet) - 1)];
    EXPECT_TRUE(ParseJournal(text).empty());
  }
}

class DirectoryUploadTest : public testing::Test {
 protected:
  DirectoryUploadTest() { Reopen(); }

  void Reopen() {
    auto store = DirectoryStore::Open(root_, engine_.get(), /*create=*/true);
    ASSERT_OK(store);
    store_ = *std::move(store);
  }

  static UploadOptions Sizes(std::string_view content) {
    return {.size_bytes = content.size(), .part_bytes = kPart};
  }

  static absl::Status AddPart(Upload& upload, std::string_view content,
                              int number) {
    const std::string_view part =
        content.substr((static_cast<size_t>(number) - 1) * kPart, kPart);
    const AlignedBytes memory(part);
    return upload.AddPart(number, memory.bytes(), CrcOfText(part));
  }

  // Leaves an upload of "k" with these parts; returns its directory.
  std::string Leave(std::string_view content, const std::vector<int>& numbers) {
    auto upload = store_->BeginUpload("k", Sizes(content));
    EXPECT_OK(upload);
    for (int number : numbers) {
      EXPECT_OK(AddPart(**upload, content, number));
    }
    (*upload)->Detach();
    token_ = (*upload)->Token();
    return root_ + "/" + std::string(kUploadsDirectory) + "/" + token_;
  }

  absl::StatusOr<std::unique_ptr<Upload>> Resume(std::string_view content) {
    return store_->ResumeUpload("k", token_, Sizes(content));
  }

  static std::vector<int> Numbers(Upload& upload) {
    std::vector<int> numbers;
    const auto parts = upload.Parts();
    EXPECT_OK(parts);
    for (const PartInfo& part : *parts) numbers.push_back(part.number);
    return numbers;
  }

  static void Append(const std::string& path, std::string_view text) {
    std::ofstream file(path, std::ios::binary | std::ios::app);
    file << text;
  }

  static void Damage(const std::string& path, uint64_t offset) {
    const int fd = open(path.c_str(), O_RDWR);
    char byte = 0;
    ASSERT_EQ(pread(fd, &byte, 1, static_cast<off_t>(offset)), 1);
    byte = static_cast<char>(byte ^ 1);
    ASSERT_EQ(pwrite(fd, &byte, 1, static_cast<off_t>(offset)), 1);
    close(fd);
  }

  // As if the machine had started anew since the journal was written.
  static void PretendOtherBoot(const std::string& journal) {
    std::string text;
    for (auto& [number, part] : ParseJournal(ReadTestFile(journal))) {
      JournalPart old = part;
      old.boot = part.boot + 1;
      text += JournalLine(number, old);
    }
    WriteTestFile(journal, text);
  }

  void FinishAndCheck(Upload& upload, std::string_view content) {
    const std::vector<int> there = Numbers(upload);
    const int count = static_cast<int>((content.size() + kPart - 1) / kPart);
    for (int number = 1; number <= count; ++number) {
      if (std::find(there.begin(), there.end(), number) != there.end())
        continue;
      ASSERT_OK(AddPart(upload, content, number));
    }
    ASSERT_OK(upload.Commit(CrcOfText(content)));
    EXPECT_TRUE(ReadTestFile(root_ + "/k") == content);
    EXPECT_TRUE(store_->ListUploads("")->empty());
  }

  const TempDir directory_;
  const std::string root_ = directory_ / "core";
  const std::unique_ptr<IoEngine> engine_ = IoEngine::Create({});
  std::unique_ptr<DirectoryStore> store_;
  std::string token_;
};

TEST_F(DirectoryUploadTest, PartsOfZerosStayHoles) {
  std::string content(64 * kPart, '\0');
  content[5 * kPart] = 'x';
  auto upload = store_->BeginUpload("k", Sizes(content));
  ASSERT_OK(upload);
  FinishAndCheck(**upload, content);
  struct stat stat = {};
  ASSERT_EQ(::stat((root_ + "/k").c_str(), &stat), 0);
  EXPECT_LE(static_cast<uint64_t>(stat.st_blocks) * 512, 2 * kPart);
}

TEST_F(DirectoryUploadTest, ATornJournalLineCostsOnlyItsPart) {
  const std::string content = RandomBytes(4 * kPart, 1);
  const std::string directory = Leave(content, {1, 2, 3});
  const std::string journal = ReadTestFile(directory + "/parts");
  WriteTestFile(directory + "/parts", journal.substr(0, journal.size() - 9));
  Reopen();
  {
    auto upload = Resume(content);
    ASSERT_OK(upload);
    EXPECT_EQ(Numbers(**upload), (std::vector<int>{1, 2}));
    ASSERT_OK(AddPart(**upload, content, 4));  // Its line must not be torn too.
    (*upload)->Detach();
  }
  auto upload = Resume(content);
  ASSERT_OK(upload);
  EXPECT_EQ(Numbers(**upload), (std::vector<int>{1, 2, 4}));
  FinishAndCheck(**upload, content);
}

TEST_F(DirectoryUploadTest, PartsOfAnEarlierBootAreReadBeforeTheyAreBelieved) {
  const std::string content = RandomBytes(3 * kPart + 77, 1);
  const std::string directory = Leave(content, {1, 2, 3, 4});
  PretendOtherBoot(directory + "/parts");
  Damage(directory + "/data", kPart + 5);
  Reopen();
  {
    auto upload = Resume(content);
    ASSERT_OK(upload);
    EXPECT_EQ(Numbers(**upload), (std::vector<int>{1, 3, 4}));
    (*upload)->Detach();
  }
  // Now they are of this boot: believed without reading.
  const auto parts = ParseJournal(ReadTestFile(directory + "/parts"));
  ASSERT_EQ(parts.size(), 3u);
  for (const auto& [number, part] : parts) EXPECT_EQ(part.boot, BootName());
  auto upload = Resume(content);
  ASSERT_OK(upload);
  FinishAndCheck(**upload, content);
}

TEST_F(DirectoryUploadTest, AStagingFileThatLostItsTailLosesItsParts) {
  const std::string content = RandomBytes(3 * kPart, 1);
  const std::string directory = Leave(content, {1, 2, 3});
  PretendOtherBoot(directory + "/parts");
  fs::resize_file(directory + "/data", kPart + 4096);
  auto upload = Resume(content);
  ASSERT_OK(upload);
  EXPECT_EQ(Numbers(**upload), (std::vector<int>{1}));
  FinishAndCheck(**upload, content);
}

TEST_F(DirectoryUploadTest, AJournalNeverVouchesForAPartBeingReplaced) {
  const std::string content = RandomBytes(2 * kPart, 1);
  const std::string directory = Leave(content, {1, 2});
  {
    auto upload = Resume(content);
    ASSERT_OK(upload);
    const AlignedBytes memory(content.substr(0, kPart));
    ASSERT_FALSE((*upload)->AddPart(1, memory.bytes(), 42).ok());
    (*upload)->Detach();
  }
  auto upload = Resume(content);
  ASSERT_OK(upload);
  EXPECT_EQ(Numbers(**upload), (std::vector<int>{2}));
  FinishAndCheck(**upload, content);
}

TEST_F(DirectoryUploadTest, JournalLinesThatDoNotFitAreNotBelieved) {
  const std::string content = RandomBytes(2 * kPart, 1);
  const std::string directory = Leave(content, {1});
  Append(directory + "/parts", JournalLine(2, {kPart - 1, 0, BootName()}));
  Append(directory + "/parts", JournalLine(3, {kPart, 0, BootName()}));
  Append(directory + "/parts", JournalLine(2147483647, {1, 0, BootName()}));
  auto upload = Resume(content);
  ASSERT_OK(upload);
  EXPECT_EQ(Numbers(**upload), (std::vector<int>{1}));
  FinishAndCheck(**upload, content);
}

TEST_F(DirectoryUploadTest, WithoutAJournalThereAreNoParts) {
  const std::string content = RandomBytes(2 * kPart, 1);
  const std::string directory = Leave(content, {1, 2});
  fs::remove(directory + "/parts");
  auto upload = Resume(content);
  ASSERT_OK(upload);
  EXPECT_TRUE(Numbers(**upload).empty());
  FinishAndCheck(**upload, content);
}

TEST_F(DirectoryUploadTest, AnInfoThatIsNoneIsNoUpload) {
  const std::string content = RandomBytes(kPart, 1);
  const std::string directory = Leave(content, {1});
  const std::string info = ReadTestFile(directory + "/info");
  for (
      const std::string text :
      {"", "{", "[]", "{}", "null", "\xff\xfe", "{\"version\":1}",
       R"({"version":2,"key":"k","size_bytes":1048576,"part_bytes":1048576})",
       R"({"version":1,"key":"%zz","size_bytes":1048576,"part_bytes":1048576})",
       R"({"version":1,"key":7,"size_bytes":1048576,"part_bytes":1048576})",
       R"({"version":1,"key":"k","size_bytes":-1,"part_bytes":1048576})"}) {
    WriteTestFile(directory + "/info", text);
    EXPECT_THAT(Resume(content), HasCode(absl::StatusCode::kNotFound)) << text;
    EXPECT_TRUE(store_->ListUploads("")->empty()) << text;
  }
  WriteTestFile(directory + "/info", info);
  EXPECT_OK(Resume(content));
}

TEST_F(DirectoryUploadTest, WhatACommitLeftBehindIsSwept) {
  const std::string content = RandomBytes(kPart, 1);
  const std::string directory = Leave(content, {1});
  fs::rename(directory + "/data", root_ + "/k");
  EXPECT_THAT(Resume(content), HasCode(absl::StatusCode::kNotFound));
  EXPECT_TRUE(store_->ListUploads("")->empty());
  EXPECT_FALSE(fs::exists(directory));
}

TEST_F(DirectoryUploadTest, TheCommittedCrcHoldsAfterAnyBoot) {
  const std::string content = RandomBytes(kPart, 1);
  auto upload = store_->BeginUpload("k", Sizes(content));
  ASSERT_OK(upload);
  FinishAndCheck(**upload, content);
  const auto info = store_->Stat("k");
  ASSERT_OK(info);
  if (info->crc64_nvme.has_value()) {
    EXPECT_EQ(*info->crc64_nvme, CrcOfText(content));
  }
}

}  // namespace
}  // namespace cairn
