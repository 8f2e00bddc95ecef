// The changing half of Root.

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "io/child_test_util.h"
#include "io/root.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

using absl::StatusCode;

class RootWriteTest : public testing::Test {
 protected:
  RootWriteTest() : root_(Open(directory_.path())) {}

  static Root Open(const std::string& path) {
    absl::StatusOr<Root> root = Root::Open(path);
    if (!root.ok()) abort();
    return *std::move(root);
  }
  void Write(const std::string& name, std::string_view content) {
    WriteTestFile(directory_ / name, content);
  }
  std::string Read(const std::string& name) {
    return ReadTestFile(directory_ / name);
  }
  std::vector<std::string> Names(const std::string& path) {
    const std::vector<DirectoryEntry> entries = root_.List(path).value();
    std::vector<std::string> names;
    for (const DirectoryEntry& entry : entries) names.push_back(entry.name);
    return names;
  }
  void GiveToNobody() {
    ASSERT_EQ(chown(directory_.path().c_str(), kNobody, kNobody), 0);
  }

  TempDir directory_;
  Root root_;
};

// Every way of changing a path, by name.
std::vector<std::pair<std::string, absl::Status>> Changes(
    const Root& root, const std::string& path) {
  bool refused = false;
  const Root::Attributes attributes = {0777, 0, 0, 1};
  return {{"create", root.CreateForWrite(path).status()},
          {"directories", root.MakeDirectories(path)},
          {"symlink", root.MakeSymlink("x", path)},
          {"hard link from", root.MakeHardLink(path, "new")},
          {"hard link to", root.MakeHardLink("mine", path)},
          {"attributes",
           root.SetAttributes(path, NodeType::kFile, attributes, &refused)},
          {"rename from", root.Rename(path, "new", true)},
          {"rename to", root.Rename("mine", path, true)},
          {"exclusive rename to", root.Rename("mine", path, false)},
          {"remove", root.RemoveFile(path)},
          {"remove tree", root.RemoveTree(path)},
          {"remove directory", root.RemoveEmptyDirectory(path)},
          {"sync", root.SyncDirectory(path)},
          {"durably", root.WriteFileDurably(path, AsBytes("evil"), true)},
          {"exclusive", root.WriteFileDurably(path, AsBytes("evil"), false)}};
}

TEST_F(RootWriteTest, NothingIsChangedOutside) {
  const TempDir outside;
  WriteTestFile(outside / "secret", "secret");
  Write("mine", "mine");
  ASSERT_EQ(symlink(outside.path().c_str(), (directory_ / "link").c_str()), 0);
  struct stat before = {};
  ASSERT_EQ(stat((outside / "secret").c_str(), &before), 0);
  const std::string escaped =
      "../" + std::filesystem::path(outside.path()).filename().string() +
      "/secret";
  for (const std::string& path :
       {std::string("link/secret"), std::string("link/new"),
        std::string("link/d/new"), escaped, outside / "secret",
        "link/" + escaped}) {
    for (const auto& [name, status] : Changes(root_, path)) {
      EXPECT_FALSE(status.ok()) << name << " " << path;
    }
  }
  EXPECT_EQ(ReadTestFile(outside / "secret"), "secret");
  EXPECT_EQ(Open(outside.path()).List("")->size(), 1U);
  struct stat after = {};
  ASSERT_EQ(stat((outside / "secret").c_str(), &after), 0);
  EXPECT_EQ(before.st_ctim.tv_nsec, after.st_ctim.tv_nsec);
  EXPECT_EQ(before.st_mode, after.st_mode);
  EXPECT_EQ(Read("mine"), "mine");
}

TEST_F(RootWriteTest, AFinalSymlinkIsReplacedOrRemovedItself) {
  const TempDir outside;
  const std::string secret = outside / "secret";
  WriteTestFile(secret, "secret");
  const auto link = [&] {
    unlink((directory_ / "link").c_str());
    ASSERT_EQ(symlink(secret.c_str(), (directory_ / "link").c_str()), 0);
  };
  link();
  EXPECT_THAT(root_.CreateForWrite("link"),
              HasCode(StatusCode::kAlreadyExists));
  EXPECT_THAT(root_.MakeDirectories("link"),
              HasCode(StatusCode::kFailedPrecondition));
  EXPECT_THAT(root_.WriteFileDurably("link", AsBytes("x"), false),
              HasCode(StatusCode::kAlreadyExists));
  EXPECT_OK(root_.WriteFileDurably("link", AsBytes("x"), true));
  EXPECT_EQ(root_.Stat("link")->type, NodeType::kFile);
  link();
  EXPECT_OK(root_.RemoveFile("link"));
  link();
  EXPECT_OK(root_.RemoveTree("link"));
  link();
  EXPECT_THAT(root_.RemoveEmptyDirectory("link"),
              HasCode(StatusCode::kFailedPrecondition));
  EXPECT_OK(root_.Rename("link", "other", false));
  EXPECT_EQ(root_.ReadLink("other").value(), secret);
  EXPECT_EQ(ReadTestFile(secret), "secret");
}

TEST_F(RootWriteTest, CreateMakesParentsAndNeverOverwrites) {
  const auto file = root_.CreateForWrite("a/b/c");
  ASSERT_OK(file);
  EXPECT_EQ(root_.Stat("a/b/c")->mode, 0600U);
  EXPECT_THAT(root_.CreateForWrite("a/b/c"),
              FailsWith(StatusCode::kAlreadyExists, "a/b/c"));
  EXPECT_THAT(root_.CreateForWrite("a/b/c/d"),
              HasCode(StatusCode::kFailedPrecondition));
  EXPECT_OK(root_.OpenForUpdate("a/b/c"));
}

TEST_F(RootWriteTest, MakeDirectoriesIsIdempotent) {
  EXPECT_OK(root_.MakeDirectories(""));
  EXPECT_OK(root_.MakeDirectories("a/b/c"));
  EXPECT_OK(root_.MakeDirectories("a/b/c"));
  EXPECT_EQ(root_.Stat("a/b/c")->type, NodeType::kDirectory);
  Write("a/file", "");
  EXPECT_THAT(root_.MakeDirectories("a/file"),
              HasCode(StatusCode::kFailedPrecondition));
  EXPECT_THAT(root_.MakeDirectories("a/file/x"),
              FailsWith(StatusCode::kFailedPrecondition, "no directory"));
}

TEST_F(RootWriteTest, HardLinksShareAnInode) {
  Write("a", "x");
  ASSERT_OK(root_.MakeHardLink("a", "b"));
  EXPECT_EQ(root_.Stat("a")->inode, root_.Stat("b")->inode);
  EXPECT_EQ(root_.Stat("a")->links, 2U);
  EXPECT_THAT(root_.MakeHardLink("a", "b"),
              HasCode(StatusCode::kAlreadyExists));
  EXPECT_THAT(root_.MakeHardLink("none", "c"), HasCode(StatusCode::kNotFound));
}

TEST_F(RootWriteTest, RenameReplacesOnlyWhenTold) {
  Write("a", "a");
  Write("b", "b");
  EXPECT_THAT(root_.Rename("a", "b", false),
              FailsWith(StatusCode::kAlreadyExists, "b"));
  EXPECT_EQ(Read("b"), "b");
  EXPECT_OK(root_.Rename("a", "b", true));
  EXPECT_EQ(Read("b"), "a");
  EXPECT_OK(root_.Rename("b", "c", false));
  EXPECT_EQ(Names(""), (std::vector<std::string>{"c"}));
  EXPECT_THAT(root_.Rename("none", "c", false), HasCode(StatusCode::kNotFound));

  Write("d1/x", "");
  Write("d2/y", "");
  EXPECT_THAT(root_.Rename("d1", "d2", false),
              HasCode(StatusCode::kAlreadyExists));
  ASSERT_OK(root_.MakeDirectories("empty"));
  EXPECT_THAT(root_.Rename("d1", "empty", false),
              HasCode(StatusCode::kAlreadyExists));
  EXPECT_THAT(root_.Rename("d1", "d2", true),
              HasCode(StatusCode::kAlreadyExists));
  EXPECT_OK(root_.Rename("d1", "d3", false));
  EXPECT_EQ(Names("d3"), (std::vector<std::string>{"x"}));
}

TEST_F(RootWriteTest, RemovingIsIdempotent) {
  Write("d/file", "");
  EXPECT_THAT(root_.RemoveFile("d"), HasCode(StatusCode::kFailedPrecondition));
  EXPECT_THAT(root_.RemoveEmptyDirectory("d"),
              HasCode(StatusCode::kAlreadyExists));
  EXPECT_THAT(root_.RemoveEmptyDirectory("d/file"),
              HasCode(StatusCode::kFailedPrecondition));
  for (int i = 0; i < 2; ++i) EXPECT_OK(root_.RemoveFile("d/file"));
  for (int i = 0; i < 2; ++i) EXPECT_OK(root_.RemoveEmptyDirectory("d"));
  EXPECT_OK(root_.RemoveFile("no/ne"));
  EXPECT_OK(root_.RemoveTree("no/ne"));
  EXPECT_OK(root_.RemoveEmptyDirectory("no/ne"));
  EXPECT_THAT(root_.RemoveTree(""), HasCode(StatusCode::kInvalidArgument));
}

TEST_F(RootWriteTest, RemoveTreeKeepsWhatSymlinksPointAt) {
  const TempDir outside;
  WriteTestFile(outside / "keep/file", "x");
  Write("top/a/b/c", "");
  ASSERT_EQ(
      symlink((outside / "keep").c_str(), (directory_ / "top/a/link").c_str()),
      0);
  ASSERT_EQ(symlink("..", (directory_ / "top/up").c_str()), 0);
  ASSERT_EQ(mkfifo((directory_ / "top/fifo").c_str(), 0600), 0);
  Write("beside", "");
  EXPECT_OK(root_.RemoveTree("top"));
  EXPECT_EQ(Names(""), (std::vector<std::string>{"beside"}));
  EXPECT_EQ(ReadTestFile(outside / "keep/file"), "x");
}

TEST_F(RootWriteTest, RemoveTreeTakesOwnDirectoriesWithoutPermissions) {
  if (geteuid() == 0) GiveToNobody();
  EXPECT_EQ(RunInChild([&]() -> std::string {
              if (geteuid() == 0) BecomeNobody();
              Write("top/closed/in/file", "x");
              Write("top/readonly/file", "x");
              chmod((directory_ / "top/closed/in").c_str(), 0000);
              chmod((directory_ / "top/closed").c_str(), 0000);
              chmod((directory_ / "top/readonly").c_str(), 0500);
              const absl::Status status = root_.RemoveTree("top");
              return status.ok() ? "" : Message(status);
            }),
            "");
  EXPECT_TRUE(Names("").empty());
}

TEST_F(RootWriteTest, RemoveTreeReportsWhatIsNotOurs) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to have others' files";
  Write("top/theirs/file", "x");
  ASSERT_EQ(chown((directory_ / "top").c_str(), kNobody, kNobody), 0);
  GiveToNobody();
  EXPECT_THAT(RunInChild([&] {
                BecomeNobody();
                return root_.RemoveTree("top").ToString();
              }),
              testing::AllOf(testing::HasSubstr("PERMISSION_DENIED"),
                             testing::HasSubstr("theirs/file")));
  EXPECT_EQ(Read("top/theirs/file"), "x");
}

TEST_F(RootWriteTest, RemoveTreeBearsConcurrentRemoval) {
  for (int i = 0; i < 400; ++i) {
    Write(fmt::format("top/{}/{}/{}", i % 4, i % 20, i), "");
  }
  std::vector<absl::Status> results(4);
  std::vector<std::thread> threads;
  for (absl::Status& result : results) {
    threads.emplace_back([&] { result = root_.RemoveTree("top"); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) EXPECT_OK(result);
  EXPECT_TRUE(Names("").empty());
}

TEST_F(RootWriteTest, RemoveEmptyParentsStopsAtTheFirstUse) {
  Write("a/keep", "");
  ASSERT_OK(root_.MakeDirectories("a/b/c"));
  root_.RemoveEmptyParents("a/b/c/gone");
  EXPECT_EQ(Names("a"), (std::vector<std::string>{"keep"}));
  ASSERT_OK(root_.RemoveFile("a/keep"));
  root_.RemoveEmptyParents("a/keep");
  EXPECT_TRUE(Names("").empty());
  root_.RemoveEmptyParents("gone");
}

TEST_F(RootWriteTest, SetAttributesSetsModeOwnerAndTime) {
  Write("file", "x");
  ASSERT_OK(root_.MakeDirectories("d"));
  ASSERT_OK(root_.MakeSymlink("file", "link"));
  const bool is_root = geteuid() == 0;
  const uint32_t uid = is_root ? 1234 : geteuid();
  const uint32_t gid = is_root ? 4321 : getegid();
  const int64_t old_time = -1'500'000'001;
  bool refused = true;
  EXPECT_OK(root_.SetAttributes("file", NodeType::kFile,
                                {04755, uid, gid, old_time}, &refused));
  EXPECT_FALSE(refused);
  EXPECT_OK(root_.SetAttributes("d", NodeType::kDirectory, {01700, uid, gid, 7},
                                &refused));
  EXPECT_OK(root_.SetAttributes("link", NodeType::kSymlink, {0111, uid, gid, 9},
                                &refused));
  EXPECT_EQ(root_.Stat("file")->mode, 04755U);
  EXPECT_EQ(root_.Stat("file")->uid, uid);
  EXPECT_EQ(root_.Stat("file")->gid, gid);
  EXPECT_EQ(root_.Stat("file")->mtime_ns, old_time);
  EXPECT_EQ(root_.Stat("d")->mode, 01700U);
  EXPECT_EQ(root_.Stat("d")->mtime_ns, 7);
  EXPECT_EQ(root_.Stat("link")->uid, uid);
  EXPECT_EQ(root_.Stat("link")->mtime_ns, 9);
}

TEST_F(RootWriteTest, SetAttributesNeverFollowsASymlink) {
  const TempDir outside;
  WriteTestFile(outside / "secret", "x");
  ASSERT_EQ(chmod((outside / "secret").c_str(), 0600), 0);
  ASSERT_OK(root_.MakeSymlink(outside / "secret", "link"));
  bool refused = false;
  EXPECT_THAT(
      root_.SetAttributes("link", NodeType::kFile, {0777, 1, 1, 1}, &refused),
      HasCode(StatusCode::kFailedPrecondition));
  EXPECT_OK(root_.SetAttributes("link", NodeType::kSymlink,
                                {0777, geteuid(), getegid(), 1}, &refused));
  struct stat stat = {};
  ASSERT_EQ(::stat((outside / "secret").c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 07777U, 0600U);
  EXPECT_EQ(stat.st_uid, geteuid());
  EXPECT_GT(stat.st_mtim.tv_sec, 1000);
}

TEST_F(RootWriteTest, ARefusedOwnerIsReportedAndDropsSetIdBits) {
  if (geteuid() == 0) GiveToNobody();
  EXPECT_EQ(RunInChild([&]() -> std::string {
              if (geteuid() == 0) BecomeNobody();
              Write("file", "x");
              bool refused = false;
              const absl::Status status = root_.SetAttributes(
                  "file", NodeType::kFile, {06755, 0, 0, 5}, &refused);
              const NodeStat stat = root_.Stat("file").value();
              return fmt::format("{} {} {:o} {}", Message(status), refused,
                                 stat.mode, stat.mtime_ns);
            }),
            " true 755 5");
}

TEST_F(RootWriteTest, WritesDurablyWithParents) {
  EXPECT_OK(root_.WriteFileDurably("a/b/file", AsBytes("one"), false));
  EXPECT_EQ(Read("a/b/file"), "one");
  EXPECT_OK(root_.WriteFileDurably("a/b/file", AsBytes("two"), true));
  EXPECT_EQ(Read("a/b/file"), "two");
  EXPECT_THAT(root_.WriteFileDurably("a/b/file", AsBytes("three"), false),
              FailsWith(StatusCode::kAlreadyExists, "a/b/file"));
  EXPECT_EQ(Read("a/b/file"), "two");
  EXPECT_OK(root_.WriteFileDurably("empty", {}, false));
  EXPECT_EQ(Read("empty"), "");
  EXPECT_EQ(Names("a/b"), (std::vector<std::string>{"file"}));
  EXPECT_THAT(root_.WriteFileDurably("a/b", AsBytes("x"), true),
              HasCode(StatusCode::kFailedPrecondition));
  EXPECT_EQ(Names("a"), (std::vector<std::string>{"b"}));
  EXPECT_THAT(root_.WriteFileDurably("", AsBytes("x"), true),
              HasCode(StatusCode::kInvalidArgument));
  EXPECT_OK(root_.SyncDirectory("a"));
  EXPECT_OK(root_.SyncDirectory(""));
  EXPECT_OK(root_.SyncFileSystem());
}

TEST_F(RootWriteTest, ExactlyOneExclusiveWriterWins) {
  for (int round = 0; round < 10; ++round) {
    const std::string path = fmt::format("d{}/file", round);
    std::vector<absl::Status> results(8);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < results.size(); ++i) {
      threads.emplace_back([&, i] {
        results[i] = root_.WriteFileDurably(path, AsBytes(std::to_string(i)),
                                            /*replace=*/false);
      });
    }
    for (std::thread& thread : threads) thread.join();
    int winners = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].ok()) {
        ++winners;
        EXPECT_EQ(Read(path), std::to_string(i));
      } else {
        EXPECT_THAT(results[i], HasCode(StatusCode::kAlreadyExists));
      }
    }
    EXPECT_EQ(winners, 1);
    EXPECT_EQ(Names(fmt::format("d{}", round)),
              (std::vector<std::string>{"file"}));
  }
}

TEST_F(RootWriteTest, AFailedWriteLeavesNothing) {
  Write("file", "old");
  const std::string text = RunInChild([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1000, 1000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return std::string("no limit");
    return root_.WriteFileDurably("file", AsBytes(std::string(2000, 'x')), true)
        .ToString();
  });
  EXPECT_THAT(text, testing::HasSubstr("RESOURCE_EXHAUSTED"));
  EXPECT_EQ(Names(""), (std::vector<std::string>{"file"}));
  EXPECT_EQ(Read("file"), "old");
}

// The names of the calls that a run of `strace` on ourselves saw, in order, of
// those that matter, each with whether it went to a directory.
std::vector<std::string> TracedCalls(const std::string& log,
                                     const std::string& below) {
  std::vector<std::string> calls;
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);) {
    if (line.find("+++") != line.npos || line.find(" = -1 ") != line.npos ||
        line.find(below) == line.npos) {
      continue;
    }
    if (line.find("fsync(") != line.npos) {
      calls.push_back(line.find("/.tmp-") != line.npos ? "fsync file"
                                                       : "fsync directory");
    } else if (line.find("mkdir") != line.npos) {
      calls.push_back("mkdir");
    } else if (line.find("rename") != line.npos ||
               line.find("linkat(") != line.npos) {
      if (line.find("unlinkat(") == line.npos) calls.push_back("publish");
    } else if (line.find("write(") != line.npos) {
      calls.push_back("write");
    }
  }
  return calls;
}

// Runs itself again under strace, with the environment telling it what to do.
TEST_F(RootWriteTest, SyncsInTheOrderThatIsPromised) {
  if (const char* path = getenv("CAIRN_TEST_TRACED"); path != nullptr) {
    const Root root = Open(path);
    ASSERT_OK(root.WriteFileDurably("traced/d/file", AsBytes("x"),
                                    getenv("CAIRN_TEST_REPLACE") != nullptr));
    return;
  }
  // tidy: allow(banned) the command is a constant
  if (system("strace -o /dev/null true >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "strace is not installed, or may not trace here";
  }
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  for (const bool replace : {false, true}) {
    const std::string log = directory_ / "log";
    const std::string command = fmt::format(
        "ASAN_OPTIONS=detect_leaks=0 CAIRN_TEST_TRACED={} {} strace -f -y -o "
        "{} -e trace=write,fsync,"
        "fdatasync,mkdirat,rename,renameat,renameat2,link,linkat,unlinkat {} "
        "--gtest_filter=RootWriteTest.SyncsInTheOrderThatIsPromised "
        ">/dev/null 2>&1",
        directory_.path(), replace ? "CAIRN_TEST_REPLACE=1" : "", log, self);
    // tidy: allow(banned) made of this test's own paths
    ASSERT_EQ(system(command.c_str()), 0) << command;
    EXPECT_THAT(TracedCalls(log, directory_.path()),
                testing::ElementsAre("mkdir", "fsync directory", "mkdir",
                                     "fsync directory", "write", "fsync file",
                                     "publish", "fsync directory"));
    EXPECT_EQ(Read("traced/d/file"), "x");
    ASSERT_OK(root_.RemoveTree("traced"));
  }
}

}  // namespace
}  // namespace cairn
