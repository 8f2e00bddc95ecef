#include "io/probe.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <string>

#include "fmt/format.h"
#include "io/child_test_util.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

using absl::StatusCode;

Root OpenRoot(const std::string& path) {
  absl::StatusOr<Root> root = Root::Open(path);
  if (!root.ok()) abort();
  return *std::move(root);
}

TEST(ProbeTest, FindsFactsAndLeavesNothing) {
  const TempDir directory;
  const Root root = OpenRoot(directory.path());
  const auto facts = ProbeIo(root, ".cairn/probe");
  ASSERT_OK(facts);
  EXPECT_FALSE(facts->file_system.empty());
  EXPECT_THAT(facts->mount_options, testing::HasSubstr("rw"));
  EXPECT_FALSE(facts->read_only);
  EXPECT_EQ(facts->direct_io, facts->direct_reason.empty());
  EXPECT_EQ(facts->io_uring, facts->io_uring_reason.empty());
  EXPECT_EQ(facts->write_lease, facts->write_lease_reason.empty());
  EXPECT_EQ(facts->rename_noreplace, !KernelRefuses());
  EXPECT_GT(facts->timestamp_step_ns, 0);
  EXPECT_GT(facts->total_bytes, 0U);
  EXPECT_GT(facts->free_inodes, 0U);
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(facts->open_files_max, limit.rlim_cur);
  EXPECT_TRUE(root.List("")->empty());
}

TEST(ProbeTest, KeepsAScratchDirectoryThatWasThere) {
  const TempDir directory;
  const Root root = OpenRoot(directory.path());
  WriteTestFile(directory / ".cairn/probe/mine", "x");
  ASSERT_OK(ProbeIo(root, ".cairn/probe"));
  EXPECT_EQ(root.List(".cairn/probe")->size(), 1U);
  ASSERT_OK(root.RemoveTree(".cairn/probe"));
  ASSERT_OK(ProbeIo(root, ".cairn/probe/deeper"));
  EXPECT_TRUE(root.List(".cairn")->empty());
}

TEST(ProbeTest, KnowsTmpfs) {
  struct statfs raw = {};
  if (statfs("/dev/shm", &raw) != 0 || raw.f_type != 0x01021994) {
    GTEST_SKIP() << "/dev/shm is no tmpfs here";
  }
  const TempDir directory("/dev/shm");
  const auto facts = ProbeIo(OpenRoot(directory.path()), "probe");
  ASSERT_OK(facts);
  EXPECT_EQ(facts->file_system, "tmpfs");
  EXPECT_TRUE(facts->holes);
}

TEST(ProbeTest, ReadOnlyGivesFactsAllTheSame) {
  if (geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  const TempDir directory;
  const std::string text = RunInChild([&]() -> std::string {
    if (!MountPrivateTmpfs(directory.path(), "size=1m") ||
        !RemountReadOnly(directory.path())) {
      return "skip";
    }
    const auto facts = ProbeIo(OpenRoot(directory.path()), "probe");
    if (!facts.ok()) return Message(facts.status());
    return fmt::format("{} {} {} {}", facts->file_system, facts->read_only,
                       facts->write_lease, !facts->direct_reason.empty());
  });
  if (text == "skip") GTEST_SKIP() << "mounting is not allowed here";
  EXPECT_EQ(text, "tmpfs true false true");
}

TEST(ProbeTest, ADirectoryOfOthersGivesFactsAllTheSame) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to have others' directories";
  const TempDir directory;
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
  const Root root = OpenRoot(directory.path());
  EXPECT_EQ(RunInChild([&]() -> std::string {
              BecomeNobody();
              const auto facts = ProbeIo(root, "probe");
              if (!facts.ok()) return Message(facts.status());
              return fmt::format("{} {}", facts->read_only,
                                 facts->write_lease_reason.empty());
            }),
            "false false");
}

TEST(ProbeTest, NeedsADirectoryBelowTheRoot) {
  const TempDir directory;
  const Root root = OpenRoot(directory.path());
  EXPECT_THAT(ProbeIo(root, ""), HasCode(StatusCode::kInvalidArgument));
  EXPECT_THAT(ProbeIo(root, "../x"), HasCode(StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace cairn
