#include "apps/cairn/checkpoint_path.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "testing/temp_dir.h"

namespace cairn {
namespace {

// A tier `acc` with a checkpoint modelA/step-1, seen from the directory above.
class CheckpointPathTest : public ::testing::Test {
 protected:
  CheckpointPathTest() {
    char* const directory = getcwd(nullptr, 0);
    before_ = directory;
    free(directory);
    WriteTestFile(tier_ + "/modelA/step-1/data", "x");
    EnterDirectory(directory_.path());
  }
  ~CheckpointPathTest() override { EnterDirectory(before_); }

  static void EnterDirectory(const std::string& path) {
    EXPECT_EQ(chdir(path.c_str()), 0) << path;
  }
  std::string Path(std::string_view argument) {
    return CheckpointPath(argument, tier_);
  }

  const TempDir directory_;
  const std::string tier_ = directory_ / "acc";
  std::string before_;
};

TEST_F(CheckpointPathTest, NamesAreTakenAsTheyAre) {
  EXPECT_EQ(Path("modelA/step-1"), "modelA/step-1");
  EXPECT_EQ(Path("modelB/step-2"), "modelB/step-2");
  EXPECT_EQ(Path(""), "");
  EXPECT_EQ(Path("../x"), "../x");  // For the store to refuse.
}

TEST_F(CheckpointPathTest, WhatShellsAddIsTakenOff) {
  EXPECT_EQ(Path("./modelA/step-1/"), "modelA/step-1");
  EXPECT_EQ(Path("modelB//step-2///"), "modelB/step-2");
  EXPECT_EQ(Path("././modelB"), "modelB");
}

TEST_F(CheckpointPathTest, EscapedNamesAreUnescaped) {
  EXPECT_EQ(Path("run/a%0Ab"), "run/a\nb");
  EXPECT_EQ(Path("run/100%25"), "run/100%");
  EXPECT_EQ(Path("run/%FF"), "run/\xff");
}

TEST_F(CheckpointPathTest, WhatIsNoEscapedNameStandsForItself) {
  EXPECT_EQ(Path("run/100%"), "run/100%");
  EXPECT_EQ(Path("run/a\nb"), "run/a\nb");
  EXPECT_EQ(Path("run/\xff"), "run/\xff");
  EXPECT_EQ(Path("run/a%20b"), "run/a%20b");  // A blank is never escaped.
}

TEST_F(CheckpointPathTest, PathsOfFilesOnTheTierAreNames) {
  EXPECT_EQ(Path(tier_ + "/modelA/step-1"), "modelA/step-1");
  EXPECT_EQ(Path(tier_ + "/modelA/step-1/"), "modelA/step-1");
  EXPECT_EQ(Path(tier_ + "/modelA/../modelA"), "modelA");
  EXPECT_EQ(Path("acc/modelA/step-1/"), "modelA/step-1");
  EXPECT_EQ(Path("./acc/modelA"), "modelA");
  EXPECT_EQ(Path(tier_), "");
  EnterDirectory(tier_ + "/modelA");
  EXPECT_EQ(Path("step-1"), "modelA/step-1");
  EXPECT_EQ(Path("../modelA/step-1"), "modelA/step-1");
  EXPECT_EQ(Path("modelA/step-1"), "modelA/step-1");
}

TEST_F(CheckpointPathTest, AbsolutePathsNeedNotExist) {
  EXPECT_EQ(Path(tier_ + "/modelA/released"), "modelA/released");
  EXPECT_EQ(Path(tier_ + "/modelA/a%0Ab"), "modelA/a\nb");
  EXPECT_EQ(Path("/elsewhere/modelA"), "/elsewhere/modelA");
  EXPECT_EQ(Path(tier_ + "-other/modelA"), tier_ + "-other/modelA");
}

TEST_F(CheckpointPathTest, RawNamesOfFilesWinOverEscapedOnes) {
  WriteTestFile(tier_ + "/modelA/x%25/data", "x");
  EXPECT_EQ(Path(tier_ + "/modelA/x%25"), "modelA/x%25");
  EXPECT_EQ(Path("acc/modelA/x%25"), "modelA/x%25");
}

TEST_F(CheckpointPathTest, ANameOnTheTierWinsOverAFileHere) {
  WriteTestFile(tier_ + "/acc/modelA/data", "x");
  EXPECT_EQ(Path("acc/modelA"), "acc/modelA");
}

TEST_F(CheckpointPathTest, LinksToTheTierAreFollowed) {
  ASSERT_EQ(symlink("acc", (directory_ / "link").c_str()), 0);
  EXPECT_EQ(Path("link/modelA/step-1"), "modelA/step-1");
  EXPECT_EQ(Path(directory_ / "link"), "");
  EXPECT_EQ(CheckpointPath(tier_ + "/modelA", directory_ / "link"), "modelA");
  // A link on the tier is the name itself.
  ASSERT_EQ(symlink("step-1", (tier_ + "/modelA/newest").c_str()), 0);
  EXPECT_EQ(Path("link/modelA/newest"), "modelA/newest");
}

}  // namespace
}  // namespace cairn
