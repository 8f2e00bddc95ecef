// A DirectoryStore's process is killed at each of its kill points, at each
// passage. After that the store is opened anew: what is there is whole, what
// was reported stored is there, and the interrupted work can be done again to
// the end, without sending the parts that were safe already.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/io_engine.h"
#include "object/directory_store.h"
#include "testing/object_store_harness.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPart = 1 << 20;
constexpr char kRootVariable[] = "CAIRN_TEST_CRASH_ROOT";

std::map<std::string, std::string> Expected() {
  return {{"run/small", "small content"},
          {"run/medium", RandomBytes(300'000, 1)},
          {"run", "in the way"},
          {"run/big", RandomBytes(3 * kPart + 99, 2)},
          {"odd//big", RandomBytes(kPart + 1, 3)},
          {".cairn/manifest", "names them all"}};
}

std::unique_ptr<DirectoryStore> OpenAt(const std::string& root,
                                       IoEngine* engine) {
  auto store = DirectoryStore::Open(root, engine, /*create=*/true);
  EXPECT_OK(store);
  return *std::move(store);
}

absl::Status PutOnce(DirectoryStore& store, const std::string& key,
                     const std::string& content, bool barrier = false) {
  const absl::Status status =
      store.Put(key, AsBytes(content),
                {.crc64_nvme = CrcOfText(content), .barrier = barrier});
  return absl::IsAlreadyExists(status) ? absl::OkStatus() : status;
}

// Resumes the upload that is there, if one is.
absl::Status UploadOnce(DirectoryStore& store, const std::string& key,
                        const std::string& content) {
  if (store.Stat(key).ok()) return absl::OkStatus();
  const UploadOptions sizes = {.size_bytes = content.size(),
                               .part_bytes = kPart};
  std::unique_ptr<Upload> upload;
  const auto left = store.ListUploads(key);
  if (!left.ok()) return left.status();
  auto begun = left->empty()
                   ? store.BeginUpload(key, sizes)
                   : store.ResumeUpload(key, left->front().token, sizes);
  if (!begun.ok()) return begun.status();
  upload = *std::move(begun);
  std::map<int, PartInfo> there;
  const auto parts = upload->Parts();
  if (!parts.ok()) return parts.status();
  for (const PartInfo& part : *parts) there[part.number] = part;
  const int count = static_cast<int>((content.size() + kPart - 1) / kPart);
  for (int number = 1; number <= count; ++number) {
    if (there.contains(number)) continue;
    const AlignedBytes memory(
        content.substr((static_cast<size_t>(number) - 1) * kPart, kPart));
    absl::Status added =
        upload->AddPart(number, memory.bytes(), Crc64Nvme(memory.bytes()));
    if (!added.ok()) return added;
  }
  return upload->Commit(CrcOfText(content));
}

void DoTheWork(const std::string& root) {
  const auto engine = IoEngine::Create({});
  const auto store = OpenAt(root, engine.get());
  auto content = Expected();
  ASSERT_OK(PutOnce(*store, "gone/soon", "x"));
  for (const char* key : {"run/small", "run/medium", "run"}) {
    ASSERT_OK(PutOnce(*store, key, content[key]));
  }
  for (const char* key : {"run/big", "odd//big"}) {
    ASSERT_OK(UploadOnce(*store, key, content[key]));
  }
  ASSERT_OK(PutOnce(*store, ".cairn/manifest", content[".cairn/manifest"],
                    /*barrier=*/true));
  ASSERT_OK(store->Remove("gone/soon"));
}

// Run by the test below in a process of its own, by name.
TEST(DirectoryCrashChild, DISABLED_Work) {
  const char* root = std::getenv(kRootVariable);
  ASSERT_NE(root, nullptr);
  DoTheWork(root);
}

// The wait status of a process that does the work and is killed at `point`.
int RunChild(const std::string& root, const std::string& point) {
  const pid_t child = fork();
  if (child == 0) {
    setenv(kRootVariable, root.c_str(), 1);
    setenv("CAIRN_KILL_AT", point.c_str(), 1);
    const char* const arguments[] = {
        "child", "--gtest_filter=DirectoryCrashChild.DISABLED_Work",
        "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr};
    execv("/proc/self/exe", const_cast<char**>(arguments));
    _exit(127);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

// Every object that is visible is whole, and so is what a listing says.
void CheckInvariants(const std::string& root) {
  const auto engine = IoEngine::Create({});
  const auto store = OpenAt(root, engine.get());
  auto expected = Expected();
  expected["gone/soon"] = "x";
  bool manifest = false;
  size_t count = 0;
  ASSERT_OK(store->List("", [&](const ObjectInfo& info) -> absl::Status {
    ++count;
    manifest |= info.key == ".cairn/manifest";
    const auto known = expected.find(info.key);
    EXPECT_NE(known, expected.end()) << info.key;
    if (known == expected.end()) return absl::OkStatus();
    std::string content(info.size_bytes, '?');
    EXPECT_OK(
        store->ReadAt(info.key, 0, std::as_writable_bytes(std::span(content))));
    EXPECT_TRUE(content == known->second) << info.key;
    return absl::OkStatus();
  }));
  if (manifest) {
    EXPECT_GE(count, Expected().size());
  }
}

class DirectoryCrash : public testing::TestWithParam<const char*> {};

TEST_P(DirectoryCrash, EveryPassageOfTheKillPoint) {
  constexpr int kPassagesMax = 20;
  int kills = 0;
  for (int passage = 1; passage <= kPassagesMax; ++passage) {
    const TempDir directory;
    const std::string root = directory / "core";
    const std::string point =
        std::string(GetParam()) + ":" + std::to_string(passage);
    const int status = RunChild(root, point);
    SCOPED_TRACE(point);
    CheckInvariants(root);
    if (!WIFSIGNALED(status)) {
      EXPECT_EQ(status, 0);  // Passed fewer times than that: done.
      break;
    }
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    ++kills;
    DoTheWork(root);
    CheckInvariants(root);
    const auto engine = IoEngine::Create({});
    const auto store = OpenAt(root, engine.get());
    size_t count = 0;
    ASSERT_OK(store->List("", [&](const ObjectInfo&) {
      ++count;
      return absl::OkStatus();
    }));
    EXPECT_EQ(count, Expected().size());
    EXPECT_TRUE(store->ListUploads("")->empty());
    EXPECT_TRUE(fs::is_empty(root + "/.cairn-store/uploads"));
  }
  EXPECT_GE(kills, 1);
  EXPECT_LT(kills, kPassagesMax);
}

INSTANTIATE_TEST_SUITE_P(
    Store, DirectoryCrash,
    testing::Values("store.put.before_publish", "store.put.after_publish",
                    "store.part.after_data", "store.part.after_journal",
                    "store.upload.before_publish", "store.upload.after_publish",
                    "store.remove"));

TEST(DirectoryCrashResume, PartsThatWereSafeAreNotSentAgain) {
  const TempDir directory;
  const std::string root = directory / "core";
  ASSERT_TRUE(WIFSIGNALED(RunChild(root, "store.part.after_data:3")));
  const auto engine = IoEngine::Create({});
  const auto store = OpenAt(root, engine.get());
  const auto uploads = store->ListUploads("run/big");
  ASSERT_OK(uploads);
  ASSERT_EQ(uploads->size(), 1u);
  auto upload = store->ResumeUpload(
      "run/big", uploads->front().token,
      {.size_bytes = Expected()["run/big"].size(), .part_bytes = kPart});
  ASSERT_OK(upload);
  const auto parts = (*upload)->Parts();
  ASSERT_OK(parts);
  std::vector<int> numbers;
  for (const PartInfo& part : *parts) numbers.push_back(part.number);
  EXPECT_EQ(numbers, (std::vector<int>{1, 2}));
}

}  // namespace
}  // namespace cairn
