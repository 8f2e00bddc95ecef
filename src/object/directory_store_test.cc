// What a DirectoryStore promises beyond the contract: where things lie, what
// others may do below its root, and how it fails. (The contract itself:
// object_store_contract_test.cc; crashes: directory_crash_test.cc.)

#include "object/directory_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/crc64.h"
#include "base/digest.h"
#include "object/directory_keys.h"
#include "testing/object_store_harness.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr char kCrcAttribute[] = "user.cairn.crc64";

// Unlocks files as an ordinary user would find them, for root too: the file
// system rights of this thread become nobody's.
class AsNobody {
 public:
  AsNobody() : before_(setfsuid(kNobody)) {}
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
  ~AsNobody() { setfsuid(static_cast<uid_t>(before_)); }

 private:
  static constexpr uid_t kNobody = 65534;
  const int before_;
};

class DirectoryStoreTest : public testing::Test {
 protected:
  DirectoryStoreTest() { store_ = Reopen(); }

  std::unique_ptr<DirectoryStore> Reopen() {
    auto store = DirectoryStore::Open(root_, engine_.get(), /*create=*/true);
    EXPECT_OK(store);
    return *std::move(store);
  }

  absl::Status Put(std::string_view key, std::string_view content,
                   const PutOptions& options = {}) {
    return store_->Put(key, AsBytes(content), options);
  }

  std::string Path(std::string_view path) const {
    return root_ + "/" + std::string(path);
  }

  absl::StatusOr<std::string> Read(std::string_view key, size_t size) {
    std::string content(size, '?');
    absl::Status status =
        store_->ReadAt(key, 0, std::as_writable_bytes(std::span(content)));
    if (!status.ok()) return status;
    return content;
  }

  std::vector<std::string> Keys(std::string_view prefix = "") {
    std::vector<std::string> keys;
    EXPECT_OK(store_->List(prefix, [&](const ObjectInfo& info) {
      keys.push_back(info.key);
      return absl::OkStatus();
    }));
    return keys;
  }

  absl::Status ListStatus() {
    return store_->List("", [](const ObjectInfo&) { return absl::OkStatus(); });
  }

  size_t CountOf(std::string_view directory) const {
    if (!fs::exists(Path(directory))) return 0;
    return static_cast<size_t>(std::distance(
        fs::directory_iterator(Path(directory)), fs::directory_iterator()));
  }

  bool KeepsAttributes() const {
    return setxattr(root_.c_str(), "user.probe", "1", 1, 0) == 0;
  }

  std::string Attribute(std::string_view path) const {
    char value[64];
    const ssize_t size =
        getxattr(Path(path).c_str(), kCrcAttribute, value, sizeof(value));
    return size < 0 ? "" : std::string(value, static_cast<size_t>(size));
  }

  const TempDir directory_;
  const std::string root_ = directory_ / "core";
  const std::unique_ptr<IoEngine> engine_ = IoEngine::Create({});
  std::unique_ptr<DirectoryStore> store_;
};

// --- Places ------------------------------------------------------------------

TEST_F(DirectoryStoreTest, ANaturalKeyIsAPlainFile) {
  const mode_t mask = umask(0);
  umask(mask);
  const std::string large = RandomBytes((1 << 20) + 5, 1);
  ASSERT_OK(Put("run/step 1/model.pt", "content"));
  ASSERT_OK(Put(".cairn/manifests/1", large));
  EXPECT_EQ(ReadTestFile(Path("run/step 1/model.pt")), "content");
  EXPECT_TRUE(ReadTestFile(Path(".cairn/manifests/1")) == large);
  struct stat stat = {};
  ASSERT_EQ(::stat(Path("run/step 1/model.pt").c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 07777U, 0666 & ~mask);
  EXPECT_EQ(stat.st_nlink, 1u);
}

TEST_F(DirectoryStoreTest, WhatCannotBeAPathLiesAside) {
  ASSERT_OK(Put("run//x", "odd"));
  ASSERT_OK(Put("run/y", "natural"));
  ASSERT_OK(Put("run", "clash"));
  EXPECT_EQ(ReadTestFile(Path(".cairn-store/aside/run%2F%2Fx=")), "odd");
  EXPECT_EQ(ReadTestFile(Path("run/y")), "natural");
  EXPECT_EQ(ReadTestFile(Path(".cairn-store/aside/run=")), "clash");
}

TEST_F(DirectoryStoreTest, RemoveTakesEmptyDirectoriesAway) {
  ASSERT_OK(Put("run/a/b/c", "x"));
  ASSERT_OK(Put("run/d", "x"));
  ASSERT_OK(Put(std::string(1000, '/'), "x"));
  ASSERT_OK(store_->Remove("run/a/b/c"));
  EXPECT_FALSE(fs::exists(Path("run/a")));
  EXPECT_TRUE(fs::exists(Path("run/d")));
  ASSERT_OK(store_->Remove("run/d"));
  EXPECT_FALSE(fs::exists(Path("run")));
  ASSERT_OK(store_->Remove(std::string(1000, '/')));
  EXPECT_FALSE(fs::exists(Path(kAsideDirectory)));
  EXPECT_TRUE(fs::exists(root_));
}

TEST_F(DirectoryStoreTest, NothingIsLeftInTheTemporaryDirectory) {
  ASSERT_OK(Put("k", "content"));
  EXPECT_FALSE(Put("k", "content").ok());
  EXPECT_FALSE(Put("k/below//odd", "content", {.crc64_nvme = 1}).ok());
  EXPECT_EQ(CountOf(kTemporaryDirectory), 0u);
}

TEST_F(DirectoryStoreTest, OpeningAndReadingWriteNothing) {
  WriteTestFile(Path("run/x"), "content");
  EXPECT_THAT(Keys(), testing::ElementsAre("run/x"));
  EXPECT_EQ(*Read("run/x", 7), "content");
  EXPECT_THAT(store_->Stat("other"), HasCode(absl::StatusCode::kNotFound));
  EXPECT_OK(store_->Remove("other"));
  EXPECT_TRUE(store_->ListUploads("")->empty());
  EXPECT_EQ(CountOf(""), 1u);  // No .cairn-store.
}

// A crash in the one race that Publish cannot close can leave a key in both
// places. It is still one key.
TEST_F(DirectoryStoreTest, AKeyInBothPlacesIsOneKey) {
  WriteTestFile(Path("run"), "natural");
  WriteTestFile(Path(".cairn-store/aside/run="), "aside");
  EXPECT_THAT(Keys(), testing::ElementsAre("run"));
  EXPECT_EQ(*Read("run", 7), "natural");
  EXPECT_THAT(Put("run", "new"), HasCode(absl::StatusCode::kAlreadyExists));
  ASSERT_OK(store_->Remove("run"));
  EXPECT_TRUE(Keys().empty());
}

// Stores of one root know nothing of each other, as those of several processes.
TEST_F(DirectoryStoreTest, OfSeveralStoresExactlyOnePutsAKey) {
  constexpr int kStores = 4;
  constexpr int kRounds = 150;
  std::vector<std::unique_ptr<DirectoryStore>> stores;
  for (int i = 0; i < kStores; ++i) stores.push_back(Reopen());
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> won{0};
    std::atomic<int> failed{0};
    std::vector<std::thread> threads;
    for (auto& store : stores) {
      threads.emplace_back([&won, &failed, &store] {
        const absl::Status put = store->Put("run", AsBytes("x"), {});
        if (put.ok()) ++won;
        if (!put.ok() && !absl::IsAlreadyExists(put)) ++failed;
      });
    }
    // Meanwhile a directory comes and goes where the object could lie.
    threads.emplace_back([this, &failed] {
      for (int i = 0; i < 3; ++i) {
        if (!Put("run/x", "x").ok()) ++failed;
        if (!store_->Remove("run/x").ok()) ++failed;
      }
    });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(won, 1);
    ASSERT_EQ(failed, 0);
    ASSERT_NE(fs::is_regular_file(Path("run")),
              fs::exists(Path(".cairn-store/aside/run=")));
    ASSERT_OK(store_->Remove("run"));
    ASSERT_TRUE(Keys().empty());
  }
}

// --- What others put there ---------------------------------------------------

TEST_F(DirectoryStoreTest, FilesOfOthersAreObjects) {
  WriteTestFile(Path("copied/by/rsync"), "content");
  fs::create_directories(Path("copied/empty"));
  const auto info = store_->Stat("copied/by/rsync");
  ASSERT_OK(info);
  EXPECT_EQ(info->size_bytes, 7u);
  EXPECT_EQ(info->crc64_nvme, std::nullopt);
  EXPECT_THAT(Keys(), testing::ElementsAre("copied/by/rsync"));
  EXPECT_THAT(Put("copied/by/rsync", "x"),
              HasCode(absl::StatusCode::kAlreadyExists));
  // An empty directory is in the way of an object, and no object itself.
  ASSERT_OK(Put("copied/empty", "x"));
  EXPECT_EQ(*Read("copied/empty", 1), "x");
}

TEST_F(DirectoryStoreTest, SymlinksAreNeverFollowed) {
  WriteTestFile(directory_ / "outside/secret", "secret");
  fs::create_symlink(directory_ / "outside", Path("directory"));
  fs::create_symlink(directory_ / "outside/secret", Path("file"));
  ASSERT_OK(Put("k", "x"));
  EXPECT_THAT(Keys(), testing::ElementsAre("k"));
  EXPECT_TRUE(Keys("directory/").empty());
  const auto refused = HasCode(absl::StatusCode::kFailedPrecondition);
  for (const std::string key : {"file", "directory/secret", "directory"}) {
    EXPECT_THAT(Read(key, 1), refused) << key;
    EXPECT_THAT(store_->Stat(key), refused) << key;
    EXPECT_THAT(Put(key, "x"), refused) << key;
    EXPECT_THAT(store_->Remove(key), refused) << key;
  }
  EXPECT_THAT(Put("directory/new/x", "x"), refused);
  EXPECT_EQ(ReadTestFile(directory_ / "outside/secret"), "secret");
  EXPECT_FALSE(fs::exists(directory_ / "outside/new"));
}

TEST_F(DirectoryStoreTest, AFifoIsNeitherOpenedNorListed) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_TRUE(Keys().empty());
  const auto refused = HasCode(absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Read("fifo", 1), refused);
  EXPECT_THAT(Put("fifo", "x"), refused);
  EXPECT_THAT(Put("fifo/below", "x"), refused);
}

TEST_F(DirectoryStoreTest, PathsLongerThanAKeyAreNoObjects) {
  std::string deep;
  for (int i = 0; i < 6; ++i) deep += std::string(200, 'd') + "/";
  fs::create_directories(Path(deep));
  WriteTestFile(Path(deep + "x"), "x");
  ASSERT_OK(Put("k", "x"));
  EXPECT_THAT(Keys(), testing::ElementsAre("k"));
}

TEST_F(DirectoryStoreTest, AForeignNameAsideIsAnErrorNotAGap) {
  ASSERT_OK(Put("k", "x"));
  WriteTestFile(Path(".cairn-store/aside/README"), "hello");
  EXPECT_THAT(ListStatus(), FailsWith(absl::StatusCode::kFailedPrecondition,
                                      ".cairn-store/aside/README"));
}

TEST_F(DirectoryStoreTest, AnObjectThatOthersRemovedIsNotReadFromTheCache) {
  ASSERT_OK(Put("k", "old"));
  EXPECT_EQ(*Read("k", 3), "old");
  fs::remove(Path("k"));
  EXPECT_THAT(Read("k", 3), HasCode(absl::StatusCode::kNotFound));
  WriteTestFile(Path("k"), "new");
  EXPECT_EQ(*Read("k", 3), "new");
}

// --- CRCs --------------------------------------------------------------------

TEST_F(DirectoryStoreTest, StatTellsTheCrcAsStoredWithoutReading) {
  if (!KeepsAttributes()) GTEST_SKIP() << "no extended attributes here";
  const std::string content = RandomBytes(1 << 20, 1);
  ASSERT_OK(Put("k", content));
  const int fd = open(Path("k").c_str(), O_WRONLY);
  ASSERT_EQ(pwrite(fd, "damage", 6, 1000), 6);
  close(fd);
  EXPECT_EQ(store_->Stat("k")->crc64_nvme, CrcOfText(content));
  EXPECT_NE(CrcOfText(*Read("k", content.size())), CrcOfText(content));
}

TEST_F(DirectoryStoreTest, ACrcOfAnotherBootIsToldOnlyIfItWasDurable) {
  if (!KeepsAttributes()) GTEST_SKIP() << "no extended attributes here";
  ASSERT_OK(Put("plain", "content"));
  ASSERT_OK(Put("barrier", "content", {.barrier = true}));
  const std::string crc = ToHex(CrcOfText("content"));
  EXPECT_EQ(Attribute("barrier"), crc);
  EXPECT_TRUE(Attribute("plain").starts_with(crc + " "));
  const std::string other_boot = crc + " 0123456789abcdef";
  ASSERT_EQ(setxattr(Path("plain").c_str(), kCrcAttribute, other_boot.data(),
                     other_boot.size(), 0),
            0);
  EXPECT_EQ(store_->Stat("plain")->crc64_nvme, std::nullopt);
  EXPECT_EQ(store_->Stat("barrier")->crc64_nvme, CrcOfText("content"));
}

TEST_F(DirectoryStoreTest, AnAttributeThatIsNoCrcIsIgnored) {
  if (!KeepsAttributes()) GTEST_SKIP() << "no extended attributes here";
  ASSERT_OK(Put("k", "content"));
  for (const std::string value :
       {"", "x", "0123456789abcdeX", "0123456789abcdef0123456789abcdef0123",
        "0123456789abcdef ", "0123456789abcdef0"}) {
    ASSERT_EQ(setxattr(Path("k").c_str(), kCrcAttribute, value.data(),
                       value.size(), 0),
              0);
    const auto info = store_->Stat("k");
    ASSERT_OK(info);
    EXPECT_EQ(info->crc64_nvme, std::nullopt) << value;
  }
}

// --- Failures ----------------------------------------------------------------

TEST_F(DirectoryStoreTest, ADirectoryThatCannotBeReadIsAnErrorNotAGap) {
  ASSERT_OK(Put("a", "x"));
  ASSERT_OK(Put("locked/b", "x"));
  fs::permissions(Path("locked"), fs::perms::none);
  {
    const AsNobody nobody;
    EXPECT_THAT(ListStatus(),
                FailsWith(absl::StatusCode::kPermissionDenied, "locked"));
    EXPECT_THAT(store_->Stat("locked/b"),
                HasCode(absl::StatusCode::kPermissionDenied));
  }
  fs::permissions(Path("locked"), fs::perms::owner_all);
  EXPECT_THAT(Keys(), testing::ElementsAre("a", "locked/b"));
}

TEST_F(DirectoryStoreTest, AStoreThatMayOnlyBeReadIsRead) {
  ASSERT_OK(Put("k", "content"));
  store_ = Reopen();
  const AsNobody nobody;
  EXPECT_EQ(*Read("k", 7), "content");
  EXPECT_THAT(Put("other", "x"), HasCode(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(store_->Remove("k"),
              HasCode(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(Keys(), testing::ElementsAre("k"));
}

// A full disk, as far as a test can have one: files may not grow beyond 1 MiB.
TEST_F(DirectoryStoreTest, AFailedWriteLeavesNothing) {
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit = {};
  getrlimit(RLIMIT_FSIZE, &old_limit);
  rlimit limit = old_limit;
  limit.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status put = Put("k", RandomBytes(3 << 20, 1));
  const auto upload =
      store_->BeginUpload("k", {.size_bytes = 3 << 20, .part_bytes = 1 << 20});
  setrlimit(RLIMIT_FSIZE, &old_limit);
  signal(SIGXFSZ, old_handler);
  EXPECT_THAT(put, HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(upload, HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_TRUE(Keys().empty());
  EXPECT_EQ(CountOf(kTemporaryDirectory), 0u);
  EXPECT_EQ(CountOf(kUploadsDirectory), 0u);
}

TEST_F(DirectoryStoreTest, OldLeftoversOfDeadProcessesAreRemoved) {
  const auto make_old = [this](const std::string& path) {
    const timespec times[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, Path(path).c_str(), times, 0), 0);
  };
  const std::string temporaries(kTemporaryDirectory);
  const std::string uploads(kUploadsDirectory);
  WriteTestFile(Path(temporaries + "/old-1"), "x");
  WriteTestFile(Path(temporaries + "/new-1"), "x");
  WriteTestFile(Path(uploads + "/begun-long-ago/data"), "x");
  WriteTestFile(Path(uploads + "/begun-now/data"), "x");
  WriteTestFile(Path(uploads + "/whole/info"), "x");
  make_old(temporaries + "/old-1");
  make_old(uploads + "/begun-long-ago");
  make_old(uploads + "/whole");
  ASSERT_OK(Put("k", "x"));
  EXPECT_FALSE(fs::exists(Path(temporaries + "/old-1")));
  EXPECT_TRUE(fs::exists(Path(temporaries + "/new-1")));
  EXPECT_FALSE(fs::exists(Path(uploads + "/begun-long-ago")));
  EXPECT_TRUE(fs::exists(Path(uploads + "/begun-now")));
  EXPECT_TRUE(fs::exists(Path(uploads + "/whole")));
  EXPECT_THAT(Keys(), testing::ElementsAre("k"));
}

}  // namespace
}  // namespace cairn
