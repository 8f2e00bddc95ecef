#include "io/write_lease.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "io/child_test_util.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

using absl::StatusCode;

class WriteLeaseTest : public testing::Test {
 protected:
  WriteLeaseTest() : root_(Open(directory_.path())) {
    WriteTestFile(path_, "content");
  }

  void SetUp() override {
    const auto lease = WriteLease::Take(root_, "file");
    if (absl::IsUnavailable(lease.status())) {
      GTEST_SKIP() << Message(lease.status());
    }
  }
  static Root Open(const std::string& path) {
    absl::StatusOr<Root> root = Root::Open(path);
    if (!root.ok()) abort();
    return *std::move(root);
  }
  // An open by another process; "" or the reason why not.
  std::string OpenInChild(int flags) {
    return RunInChild([&]() -> std::string {
      const UniqueFd fd(open(path_.c_str(), flags | O_NONBLOCK));
      return fd.ok() ? "" : strerrorname_np(errno);
    });
  }

  TempDir directory_;
  const std::string path_ = directory_ / "file";
  Root root_;
};

TEST_F(WriteLeaseTest, IsGivenForAFileThatNobodyHasOpen) {
  auto lease = WriteLease::Take(root_, "file");
  ASSERT_OK(lease);
  EXPECT_TRUE(lease->StillHeld());
  EXPECT_EQ(lease->file().path, path_);
  const WriteLease moved = *std::move(lease);
  EXPECT_TRUE(moved.StillHeld());
}

TEST_F(WriteLeaseTest, IsRefusedWhileTheFileIsOpen) {
  for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR}) {
    const UniqueFd fd(open(path_.c_str(), flags | O_CLOEXEC));
    ASSERT_TRUE(fd.ok());
    EXPECT_THAT(WriteLease::Take(root_, "file"),
                FailsWith(StatusCode::kFailedPrecondition, "in use"));
  }
  EXPECT_OK(WriteLease::Take(root_, "file"));
}

TEST_F(WriteLeaseTest, IsRefusedWhileTheFileIsMapped) {
  UniqueFd fd(open(path_.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(fd.ok());
  void* memory =
      mmap(nullptr, 7, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  fd.Reset();
  EXPECT_THAT(WriteLease::Take(root_, "file"),
              FailsWith(StatusCode::kFailedPrecondition, "in use"));
  ASSERT_EQ(munmap(memory, 7), 0);
  EXPECT_OK(WriteLease::Take(root_, "file"));
}

TEST_F(WriteLeaseTest, IsRefusedWhileLeased) {
  const auto lease = WriteLease::Take(root_, "file");
  ASSERT_OK(lease);
  EXPECT_THAT(WriteLease::Take(root_, "file"),
              FailsWith(StatusCode::kFailedPrecondition, "in use"));
}

TEST_F(WriteLeaseTest, IsLostOnceSomebodyOpensTheFile) {
  for (const int flags : {O_RDONLY, O_WRONLY}) {
    const auto lease = WriteLease::Take(root_, "file");
    ASSERT_OK(lease);
    EXPECT_EQ(OpenInChild(flags), "EAGAIN");
    EXPECT_FALSE(lease->StillHeld());
  }
  // Given back, it stands in nobody's way.
  EXPECT_EQ(OpenInChild(O_RDWR), "");
}

// SIGIO would end the process.
TEST_F(WriteLeaseTest, ABrokenLeaseSendsNoSignal) {
  EXPECT_EQ(RunInChild([&]() -> std::string {
              sigset_t all;
              sigfillset(&all);
              sigdelset(&all, SIGCHLD);
              const auto lease = WriteLease::Take(root_, "file");
              if (!lease.ok()) return Message(lease.status());
              sigset_t old;
              sigprocmask(SIG_BLOCK, &all, &old);
              const UniqueFd fd(open(path_.c_str(), O_RDWR | O_NONBLOCK));
              if (fd.ok()) return "the open did not break the lease";
              sigset_t pending;
              sigpending(&pending);
              for (int number = 1; number < NSIG; ++number) {
                if (sigismember(&pending, number) == 1) {
                  return "signal " + std::to_string(number);
                }
              }
              sigprocmask(SIG_SETMASK, &old, nullptr);
              return lease->StillHeld() ? "still held" : "";
            }),
            "");
}

TEST_F(WriteLeaseTest, AnotherUsersFileCannotBeTold) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to have others' files";
  ASSERT_EQ(chmod(directory_.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  EXPECT_THAT(RunInChild([&] {
                BecomeNobody();
                return WriteLease::Take(root_, "file").status().ToString();
              }),
              testing::AllOf(testing::HasSubstr("UNAVAILABLE"),
                             testing::HasSubstr("cannot tell")));
}

// A mapping on an overlay belongs to the file below it, which no lease sees.
TEST_F(WriteLeaseTest, AnOverlayCannotTell) {
  if (geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  const std::string text = RunInChild([&]() -> std::string {
    if (!MountPrivateTmpfs(directory_.path(), "size=1m")) return "skip";
    for (const char* name : {"lower", "upper", "work", "top"}) {
      if (mkdir((directory_ / name).c_str(), 0700) != 0) return "skip";
    }
    const std::string options = "lowerdir=" + (directory_ / "lower") +
                                ",upperdir=" + (directory_ / "upper") +
                                ",workdir=" + (directory_ / "work");
    if (mount("overlay", (directory_ / "top").c_str(), "overlay", 0,
              options.c_str()) != 0) {
      return "skip";
    }
    WriteTestFile(directory_ / "top/file", "content");
    const Root root = Open(directory_ / "top");
    return WriteLease::Take(root, "file").status().ToString();
  });
  if (text == "skip") GTEST_SKIP() << "no overlay can be mounted here";
  EXPECT_THAT(text, testing::AllOf(testing::HasSubstr("UNAVAILABLE"),
                                   testing::HasSubstr("cannot tell")));
}

TEST_F(WriteLeaseTest, NeedsAFile) {
  EXPECT_THAT(WriteLease::Take(root_, "none"), HasCode(StatusCode::kNotFound));
  ASSERT_OK(root_.MakeDirectories("d"));
  EXPECT_THAT(WriteLease::Take(root_, "d"),
              FailsWith(StatusCode::kFailedPrecondition, "regular"));
}

}  // namespace
}  // namespace cairn
