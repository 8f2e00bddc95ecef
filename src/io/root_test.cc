#include "io/root.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "io/child_test_util.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

using absl::StatusCode;

class RootTest : public testing::Test {
 protected:
  RootTest() : root_(Open(directory_.path())) {}

  static Root Open(const std::string& path) {
    absl::StatusOr<Root> root = Root::Open(path);
    if (!root.ok()) abort();
    return *std::move(root);
  }
  void Write(const std::string& name, std::string_view content) {
    WriteTestFile(directory_ / name, content);
  }
  std::vector<std::string> WalkedPaths(const std::string& top) {
    std::vector<std::string> paths;
    EXPECT_OK(root_.Walk(top, [&](std::string_view path, const NodeStat&) {
      paths.emplace_back(path);
      return absl::OkStatus();
    }));
    return paths;
  }

  TempDir directory_;
  Root root_;
};

TEST(CheckRelativePathTest, TakesRawBytes) {
  for (const std::string& path :
       {std::string(""), std::string("a"), std::string("a/b/c"),
        std::string("..."), std::string(".hidden/..x"), std::string("a\nb"),
        std::string("\xff\xfe/\x01"), std::string(5000, 'x')}) {
    EXPECT_OK(CheckRelativePath(path)) << path;
  }
}

TEST(CheckRelativePathTest, SaysWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"/", "absolute"},
      {"/etc/passwd", "absolute"},
      {"..", "\"..\" component"},
      {"a/../b", "\"..\" component"},
      {"a/..", "\"..\" component"},
      {".", "\".\" component"},
      {"./a", "\".\" component"},
      {"a//b", "empty component"},
      {"a/", "empty component"},
      {std::string("a\0b", 3), "NUL"}};
  for (const auto& [path, why] : cases) {
    EXPECT_THAT(CheckRelativePath(path),
                FailsWith(StatusCode::kInvalidArgument, why));
  }
}

TEST_F(RootTest, OpenSaysWhatIsWrong) {
  Write("file", "x");
  EXPECT_THAT(Root::Open(directory_ / "none"),
              FailsWith(StatusCode::kNotFound, "none"));
  EXPECT_THAT(Root::Open(directory_ / "file"),
              FailsWith(StatusCode::kFailedPrecondition, "not a directory"));
  EXPECT_THAT(Root::Open(""), HasCode(StatusCode::kInvalidArgument));
  // A symlink that the user gives is the user's choice.
  ASSERT_EQ(symlink(directory_.path().c_str(), (directory_ / "l").c_str()), 0);
  EXPECT_OK(Root::Open(directory_ / "l"));
}

TEST_F(RootTest, StatSaysWhatLstatSays) {
  Write("d/file", std::string(5000, 'x'));
  ASSERT_EQ(symlink("file", (directory_ / "d/link").c_str()), 0);
  ASSERT_EQ(mkfifo((directory_ / "d/fifo").c_str(), 0600), 0);
  ASSERT_EQ(chmod((directory_ / "d/file").c_str(), 04751), 0);
  const timespec times[2] = {{0, UTIME_OMIT}, {-5, 123'456'789}};
  ASSERT_EQ(utimensat(AT_FDCWD, (directory_ / "d/file").c_str(), times, 0), 0);
  const std::vector<std::pair<std::string, NodeType>> cases = {
      {"", NodeType::kDirectory},
      {"d", NodeType::kDirectory},
      {"d/file", NodeType::kFile},
      {"d/link", NodeType::kSymlink},
      {"d/fifo", NodeType::kOther}};
  for (const auto& [path, type] : cases) {
    struct stat expected = {};
    ASSERT_EQ(lstat(root_.FullPath(path).c_str(), &expected), 0);
    const absl::StatusOr<NodeStat> stat = root_.Stat(path);
    ASSERT_OK(stat);
    EXPECT_EQ(stat->type, type) << path;
    EXPECT_EQ(stat->mode, expected.st_mode & 07777U);
    EXPECT_EQ(stat->uid, expected.st_uid);
    EXPECT_EQ(stat->gid, expected.st_gid);
    EXPECT_EQ(stat->size_bytes, static_cast<uint64_t>(expected.st_size));
    EXPECT_EQ(stat->allocated_bytes,
              static_cast<uint64_t>(expected.st_blocks) * 512);
    EXPECT_EQ(stat->mtime_ns, expected.st_mtim.tv_sec * 1'000'000'000 +
                                  expected.st_mtim.tv_nsec);
    EXPECT_EQ(stat->ctime_ns, expected.st_ctim.tv_sec * 1'000'000'000 +
                                  expected.st_ctim.tv_nsec);
    EXPECT_EQ(stat->inode, expected.st_ino);
    EXPECT_EQ(stat->device, expected.st_dev);
    EXPECT_EQ(stat->links, expected.st_nlink);
  }
}

TEST_F(RootTest, AbsenceIsNotFound) {
  Write("file", "x");
  EXPECT_THAT(root_.Stat("none"), FailsWith(StatusCode::kNotFound, "none"));
  EXPECT_THAT(root_.Stat("no/ne"), HasCode(StatusCode::kNotFound));
  EXPECT_THAT(root_.Stat("file/x"), HasCode(StatusCode::kNotFound));
  EXPECT_EQ(root_.Exists("none").value(), false);
  EXPECT_EQ(root_.Exists("file").value(), true);
  EXPECT_EQ(root_.Exists("").value(), true);
  EXPECT_THAT(root_.List("none"), HasCode(StatusCode::kNotFound));
  EXPECT_THAT(root_.OpenForRead("none"), HasCode(StatusCode::kNotFound));
}

TEST_F(RootTest, ListSortsNamesAsBytes) {
  const std::vector<std::string> names = {
      "\x01", "A\nB", "a", "b", std::string(255, 'n'), "\xff\xfe"};
  for (const std::string& name : names) Write(name, name);
  const auto entries = root_.List("");
  ASSERT_OK(entries);
  std::vector<std::string> listed;
  for (const DirectoryEntry& entry : *entries) {
    listed.push_back(entry.name);
    EXPECT_EQ(entry.stat.size_bytes, entry.name.size());
    EXPECT_EQ(root_.ReadSmallFile(entry.name, 1000).value(), entry.name);
  }
  EXPECT_EQ(listed, names);
  EXPECT_THAT(root_.List("a"),
              FailsWith(StatusCode::kFailedPrecondition, "not a directory"));
  EXPECT_THAT(root_.Stat(std::string(256, 'n')),
              HasCode(StatusCode::kFailedPrecondition));
}

TEST_F(RootTest, ListReadsManyEntries) {
  for (int i = 0; i < 5000; ++i) Write("d/" + std::to_string(i), "");
  EXPECT_EQ(root_.List("d")->size(), 5000U);
}

TEST_F(RootTest, WalkGoesParentsFirstAndSiblingsSorted) {
  Write("top/b/y", "1");
  Write("top/b/x", "1");
  Write("top/a.txt", "1");
  Write("top/a/z", "1");
  Write("elsewhere", "1");
  EXPECT_EQ(WalkedPaths("top"),
            (std::vector<std::string>{"a", "a/z", "a.txt", "b", "b/x", "b/y"}));
  EXPECT_EQ(WalkedPaths("").size(), 8U);
  EXPECT_THAT(
      root_.Walk("top/a/z", [](std::string_view,
                               const NodeStat&) { return absl::OkStatus(); }),
      HasCode(StatusCode::kFailedPrecondition));
}

TEST_F(RootTest, WalkStopsAtTheFirstError) {
  Write("a", "");
  Write("b", "");
  int visits = 0;
  EXPECT_THAT(root_.Walk("",
                         [&](std::string_view, const NodeStat&) {
                           ++visits;
                           return absl::AbortedError("enough");
                         }),
              FailsWith(StatusCode::kAborted, "enough"));
  EXPECT_EQ(visits, 1);
}

TEST_F(RootTest, WalkLeavesOutWhatVanishes) {
  Write("a", "");
  Write("b/c", "");
  Write("d", "");
  std::vector<std::string> paths;
  EXPECT_OK(root_.Walk("", [&](std::string_view path, const NodeStat&) {
    paths.emplace_back(path);
    std::filesystem::remove_all(directory_ / "b");
    return absl::OkStatus();
  }));
  EXPECT_EQ(paths, (std::vector<std::string>{"a", "d"}));
  // Between the look at a directory and its listing.
  Write("b/c", "");
  paths.clear();
  EXPECT_OK(root_.Walk("", [&](std::string_view path, const NodeStat&) {
    paths.emplace_back(path);
    if (path == "b") std::filesystem::remove_all(directory_ / "b");
    return absl::OkStatus();
  }));
  EXPECT_EQ(paths, (std::vector<std::string>{"a", "b", "d"}));
}

TEST_F(RootTest, WalkDoesNotFollowADirectoryTurnedSymlink) {
  const TempDir outside;
  WriteTestFile(outside / "secret", "x");
  Write("d/file", "");
  std::vector<std::string> paths;
  EXPECT_OK(root_.Walk("", [&](std::string_view path, const NodeStat&) {
    paths.emplace_back(path);
    std::filesystem::remove_all(directory_ / "d");
    std::filesystem::create_symlink(outside.path(), directory_ / "d");
    return absl::OkStatus();
  }));
  EXPECT_EQ(paths, (std::vector<std::string>{"d"}));
}

TEST_F(RootTest, WalkIsLimitedInDepth) {
  std::string path = "d";
  for (int i = 1; i < kDepthMax; ++i) path += "/d";
  ASSERT_OK(root_.MakeDirectories(path));
  // The directory at the limit is seen, but not entered.
  EXPECT_THAT(root_.Walk("", [](std::string_view,
                                const NodeStat&) { return absl::OkStatus(); }),
              FailsWith(StatusCode::kFailedPrecondition, "deep"));
  ASSERT_OK(root_.RemoveEmptyDirectory(path));
  EXPECT_EQ(WalkedPaths("").size(), static_cast<size_t>(kDepthMax - 1));
}

TEST_F(RootTest, PathsLongerThanTheKernelResolvesWork) {
  std::string path(250, 'p');
  for (int i = 0; i < 20; ++i) path += "/" + std::string(250, 'p');
  ASSERT_OK(root_.MakeDirectories(path));
  ASSERT_OK(root_.WriteFileDurably(path + "/f", AsBytes("x"), true));
  EXPECT_EQ(root_.ReadSmallFile(path + "/f", 10).value(), "x");
  EXPECT_EQ(root_.List(path)->size(), 1U);
  EXPECT_OK(root_.RemoveTree(std::string(250, 'p')));
  EXPECT_EQ(root_.List("")->size(), 0U);
}

// Every way of looking at a path, by name.
std::vector<std::pair<std::string, absl::Status>> Looks(
    const Root& root, const std::string& path) {
  return {{"open", root.OpenForRead(path).status()},
          {"update", root.OpenForUpdate(path).status()},
          {"read", root.ReadSmallFile(path, 1000).status()},
          {"list", root.List(path).status()},
          {"walk", root.Walk(path, [](std::string_view, const NodeStat&) {
             return absl::UnknownError("visited");
           })}};
}

TEST_F(RootTest, NothingIsReadOutside) {
  const TempDir outside;
  WriteTestFile(outside / "secret", "x");
  ASSERT_EQ(symlink(outside.path().c_str(), (directory_ / "dir").c_str()), 0);
  ASSERT_EQ(symlink((outside / "secret").c_str(), (directory_ / "f").c_str()),
            0);
  ASSERT_EQ(symlink("..", (directory_ / "up").c_str()), 0);
  ASSERT_EQ(symlink("inside", (directory_ / "in").c_str()), 0);
  Write("inside/file", "x");
  for (const std::string path :
       {"dir", "f", "up", "in", "dir/secret", "up/x", "in/file"}) {
    for (const auto& [name, status] : Looks(root_, path)) {
      EXPECT_THAT(status, HasCode(StatusCode::kFailedPrecondition))
          << name << " " << path;
    }
  }
  EXPECT_THAT(root_.Stat("dir/secret"),
              HasCode(StatusCode::kFailedPrecondition));
  EXPECT_THAT(root_.Exists("in/file"),
              HasCode(StatusCode::kFailedPrecondition));
  for (const std::string path : {"..", "../x", "/etc/passwd", "inside/../f"}) {
    for (const auto& [name, status] : Looks(root_, path)) {
      EXPECT_THAT(status, HasCode(StatusCode::kInvalidArgument))
          << name << " " << path;
    }
    EXPECT_THAT(root_.Stat(path), HasCode(StatusCode::kInvalidArgument));
  }
  EXPECT_EQ(root_.ReadLink("up").value(), "..");
  EXPECT_EQ(root_.Stat("dir")->type, NodeType::kSymlink);
}

TEST_F(RootTest, OnlyRegularFilesAreOpened) {
  ASSERT_EQ(mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  ASSERT_OK(root_.MakeDirectories("d"));
  // Opening the FIFO would wait for a writer for ever.
  EXPECT_THAT(root_.OpenForRead("fifo"),
              FailsWith(StatusCode::kFailedPrecondition, "regular"));
  EXPECT_THAT(root_.OpenForRead("d"),
              FailsWith(StatusCode::kFailedPrecondition, "regular"));
  EXPECT_THAT(root_.OpenForRead(""), HasCode(StatusCode::kInvalidArgument));
}

TEST_F(RootTest, OpenedFilesBlockAndAreDirectWhereAsked) {
  Write("file", "x");
  for (const bool direct : {true, false}) {
    const auto file = root_.OpenForRead("file", direct);
    ASSERT_OK(file);
    const int flags = fcntl(file->fd.get(), F_GETFL);
    EXPECT_EQ(flags & O_NONBLOCK, 0);
    EXPECT_EQ((flags & O_DIRECT) != 0, file->direct);
    EXPECT_EQ(file->path, directory_ / "file");
    if (!direct) {
      EXPECT_FALSE(file->direct);
    }
  }
}

TEST_F(RootTest, ReadingDoesNotTouchTheAccessTime) {
  Write("file", "x");
  const timespec old[2] = {{1000, 0}, {2000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (directory_ / "file").c_str(), old, 0), 0);
  EXPECT_EQ(root_.ReadSmallFile("file", 10).value(), "x");
  struct stat stat = {};
  ASSERT_EQ(::stat((directory_ / "file").c_str(), &stat), 0);
  EXPECT_EQ(stat.st_atim.tv_sec, 1000);
}

TEST_F(RootTest, OthersFilesCanBeRead) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to have others' files";
  Write("file", "x");
  ASSERT_EQ(chmod(directory_.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod((directory_ / "file").c_str(), 0644), 0);
  // O_NOATIME is the owner's alone.
  EXPECT_EQ(RunInChild([&] {
              BecomeNobody();
              const auto content = root_.ReadSmallFile("file", 10);
              return content.ok() ? *content : Message(content.status());
            }),
            "x");
}

TEST_F(RootTest, ReadSmallFileIsLimited) {
  const std::string content = RandomBytes(70'000, 1);
  Write("file", content);
  Write("empty", "");
  EXPECT_TRUE(root_.ReadSmallFile("file", 70'000).value() == content);
  EXPECT_TRUE(root_.ReadSmallFile("file", ~uint64_t{0} / 2).value() == content);
  EXPECT_THAT(root_.ReadSmallFile("file", 69'999),
              FailsWith(StatusCode::kResourceExhausted, "69999"));
  EXPECT_EQ(root_.ReadSmallFile("empty", 0).value(), "");
}

TEST_F(RootTest, SymlinkTargetsAreBytes) {
  const std::string target = "../\xff\n" + std::string(300, '/');
  ASSERT_OK(root_.MakeSymlink(target, "link"));
  EXPECT_EQ(root_.ReadLink("link").value(), target);
  Write("file", "");
  EXPECT_THAT(root_.ReadLink("file"), HasCode(StatusCode::kFailedPrecondition));
  EXPECT_THAT(root_.MakeSymlink("", "x"),
              HasCode(StatusCode::kInvalidArgument));
  EXPECT_THAT(root_.MakeSymlink("y", "link"),
              HasCode(StatusCode::kAlreadyExists));
}

TEST_F(RootTest, DataExtentsCoverAllThatIsNotZero) {
  constexpr uint64_t kSize = uint64_t{4} << 20;
  const auto file = root_.CreateForWrite("sparse", /*direct=*/false);
  ASSERT_OK(file);
  ASSERT_EQ(ftruncate(file->fd.get(), kSize), 0);
  EXPECT_THAT(Root::DataExtents(*file, kSize).value(),
              testing::SizeIs(testing::Le(1U)));
  ASSERT_EQ(pwrite(file->fd.get(), "x", 1, 1 << 20), 1);
  ASSERT_EQ(pwrite(file->fd.get(), "y", 1, 3 << 20), 1);
  const auto extents = Root::DataExtents(*file, kSize);
  ASSERT_OK(extents);
  for (const uint64_t offset : {uint64_t{1} << 20, uint64_t{3} << 20}) {
    EXPECT_TRUE(std::any_of(extents->begin(), extents->end(),
                            [&](const DataExtent& extent) {
                              return extent.offset <= offset &&
                                     offset - extent.offset < extent.size_bytes;
                            }));
  }
  uint64_t end = 0;
  for (const DataExtent& extent : *extents) {
    EXPECT_GE(extent.offset, end);
    EXPECT_GT(extent.size_bytes, 0U);
    end = extent.offset + extent.size_bytes;
  }
  EXPECT_LE(end, kSize);
  // A smaller size than the file has cuts the last one.
  const auto cut = Root::DataExtents(*file, (1 << 20) + 1);
  ASSERT_OK(cut);
  ASSERT_FALSE(cut->empty());
  EXPECT_EQ(cut->back().offset + cut->back().size_bytes, (1U << 20) + 1);
  EXPECT_TRUE(Root::DataExtents(*file, 0)->empty());
}

TEST_F(RootTest, FullFilesAreOneExtent) {
  Write("full", std::string(100'000, 'x'));
  const auto file = root_.OpenForRead("full");
  ASSERT_OK(file);
  EXPECT_EQ(Root::DataExtents(*file, 100'000).value(),
            (std::vector<DataExtent>{{0, 100'000}}));
}

TEST_F(RootTest, FreeSpaceIsThatOfTheFileSystem) {
  struct statvfs raw = {};
  ASSERT_EQ(statvfs(directory_.path().c_str(), &raw), 0);
  const auto space = root_.FreeSpace();
  ASSERT_OK(space);
  EXPECT_EQ(space->total_bytes, uint64_t{raw.f_blocks} * raw.f_frsize);
  EXPECT_LE(space->free_bytes, space->total_bytes);
  EXPECT_GT(space->free_inodes, 0U);
}

}  // namespace
}  // namespace cairn
