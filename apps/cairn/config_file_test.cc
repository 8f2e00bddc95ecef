#include "apps/cairn/config_file.h"

#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "cairn/options.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

class ConfigFileTest : public ::testing::Test {
 protected:
  ConfigFileTest() {
    for (const char* name :
         {"CAIRN_ACCELERATOR", "CAIRN_CORE", "CAIRN_STATE_DIR"}) {
      unsetenv(name);
    }
  }
  const TempDir directory_;
  const std::string path_ = directory_ / "cairn.toml";
};

TEST_F(ConfigFileTest, WhatIsWrittenIsReadAgain) {
  const std::string odd = "/fast/a \"quoted\" \\ 'x' \xC3\xA4\t\n#1";
  WriteTestFile(path_, ConfigText({.accelerator_path = odd,
                                   .core_url = "file:///kept/" + odd,
                                   .state_dir = "/state" + odd}));
  const absl::StatusOr<Options> options = LoadOptions(path_);
  ASSERT_OK(options);
  EXPECT_EQ(options->accelerator_path, odd);
  EXPECT_THAT(options->core_urls, ElementsAre("file:///kept/" + odd));
  EXPECT_EQ(options->state_dir, "/state" + odd);
  EXPECT_TRUE(options->export_enabled);
}

TEST_F(ConfigFileTest, TheStateDirectoryIsLeftOutWhereItIsTheDefault) {
  WriteTestFile(path_, ConfigText({.accelerator_path = "/fast",
                                   .core_url = "file:///kept",
                                   .state_dir = ""}));
  EXPECT_EQ(LoadOptions(path_)->state_dir, directory_ / "cairn-state");
}

TEST_F(ConfigFileTest, AppearsOnlyWhenPublished) {
  absl::StatusOr<NewConfigFile> file = NewConfigFile::Write(path_, "text");
  ASSERT_OK(file);
  EXPECT_FALSE(Exists(path_));
  ASSERT_OK(file->Publish(false));
  EXPECT_EQ(ReadTestFile(path_), "text");
  EXPECT_FALSE(Exists(file->temporary_path()));
}

TEST_F(ConfigFileTest, LeavesNothingWhenNotPublished) {
  std::string temporary;
  {
    absl::StatusOr<NewConfigFile> file = NewConfigFile::Write(path_, "text");
    ASSERT_OK(file);
    temporary = file->temporary_path();
    EXPECT_TRUE(Exists(temporary));
  }
  EXPECT_FALSE(Exists(temporary));
  EXPECT_FALSE(Exists(path_));
}

TEST_F(ConfigFileTest, ReplacesOnlyWhenAskedTo) {
  WriteTestFile(path_, "before");
  {
    absl::StatusOr<NewConfigFile> file = NewConfigFile::Write(path_, "after");
    ASSERT_OK(file);
    EXPECT_THAT(file->Publish(false),
                HasCode(absl::StatusCode::kAlreadyExists));
    EXPECT_EQ(ReadTestFile(path_), "before");
    EXPECT_OK(file->Publish(true));
  }
  EXPECT_EQ(ReadTestFile(path_), "after");
}

TEST_F(ConfigFileTest, ADirectoryThatIsNotThereIsNamed) {
  EXPECT_THAT(NewConfigFile::Write(directory_ / "absent/cairn.toml", "x"),
              FailsWith(absl::StatusCode::kNotFound, "absent/cairn.toml"));
}

}  // namespace
}  // namespace cairn
