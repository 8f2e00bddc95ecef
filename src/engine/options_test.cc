#include "cairn/options.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "engine/nearest.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTiers[] =
    "[accelerator]\n"
    "path = \"/fast/checkpoints\"\n"
    "[[core]]\n"
    "url = \"file:///kept/core\"\n";

// In a directory of its own, without any variable of cairn's.
class OptionsTest : public ::testing::Test {
 protected:
  OptionsTest() {
    char* const directory = getcwd(nullptr, 0);
    before_ = directory;
    free(directory);
    for (const char* name : kVariables) unsetenv(name);
    EXPECT_EQ(chdir(directory_.path().c_str()), 0);
  }
  ~OptionsTest() override {
    for (const char* name : kVariables) unsetenv(name);
    EXPECT_EQ(chdir(before_.c_str()), 0);
  }

  absl::StatusOr<Options> Load(std::string_view text) {
    WriteTestFile(directory_ / "cairn.toml", text);
    return LoadOptions("");
  }
  absl::StatusOr<Options> LoadWithTiers(const std::string& text) {
    return Load(kTiers + text);
  }
  // The message for a configuration that must be refused.
  std::string Refused(const std::string& text) {
    const absl::StatusOr<Options> options = Load(text);
    EXPECT_THAT(options, HasCode(absl::StatusCode::kInvalidArgument)) << text;
    return std::string(options.status().message());
  }
  std::string RefusedWithTiers(const std::string& text) {
    return Refused(kTiers + text);
  }

  static constexpr const char* kVariables[] = {
      "CAIRN_CONFIG",    "CAIRN_ACCELERATOR",     "CAIRN_CORE",
      "CAIRN_STATE_DIR", "CAIRN_EXPORT_MAX_RATE", "CAIRN_THREADS"};
  const TempDir directory_;
  std::string before_;
};

TEST_F(OptionsTest, TheLeastConfigurationGetsDefaults) {
  const absl::StatusOr<Options> options = LoadWithTiers("");
  ASSERT_OK(options);
  EXPECT_EQ(options->accelerator_path, "/fast/checkpoints");
  EXPECT_THAT(options->core_urls, ElementsAre("file:///kept/core"));
  EXPECT_EQ(options->state_dir, directory_ / "cairn-state");
  EXPECT_TRUE(options->export_enabled);
  EXPECT_EQ(options->export_bytes_per_second_max, 0);
  EXPECT_EQ(options->generic_quiet, std::nullopt);
  EXPECT_EQ(options->release_grace, absl::Minutes(10));
  EXPECT_EQ(options->threads, 0);
}

TEST_F(OptionsTest, EveryKeyIsRead) {
  const absl::StatusOr<Options> options = Load(R"(
state_dir = "state"

[accelerator]
path = "acc/"

[[core]]
url = "file:///kept/core"

[export]
enabled = false
prefixes = ["modelA", "with%0Anewline", "100%"]
max_rate = "7.5GB/s"

[scan]
generic_quiet = "10 min"

[release]
grace = "0"

[engine]
threads = 8
)");
  ASSERT_OK(options);
  EXPECT_EQ(options->state_dir, directory_ / "state");
  EXPECT_EQ(options->accelerator_path, directory_ / "acc");
  EXPECT_FALSE(options->export_enabled);
  EXPECT_THAT(options->export_prefixes,
              ElementsAre("modelA", "with\nnewline", "100%"));
  EXPECT_EQ(options->export_bytes_per_second_max, 7'500'000'000);
  EXPECT_EQ(options->generic_quiet, absl::Minutes(10));
  EXPECT_EQ(options->release_grace, absl::ZeroDuration());
  EXPECT_EQ(options->threads, 8);
}

TEST_F(OptionsTest, EveryRuleIsRead) {
  const absl::StatusOr<Options> options = LoadWithTiers(R"(
[[retention]]
tier = "accelerator"
match = "modelA*"
keep_last = 3
keep_every = "1000 steps"
max_age = "7d"

[[retention]]
tier = "core"
keep_every = "1 epoch"

[[framework]]
name = "ours"
directory = 'ckpt_(?P<step>\d+)'
complete = ["DONE"]
in_progress = ["*.tmp"]
pointer = "latest.txt"
pointer_content = "{name}\n"

[[framework]]
name = "theirs"
directory = 'x'
quiet = "5 min"
)");
  ASSERT_OK(options);
  ASSERT_EQ(options->retention.size(), 2);
  EXPECT_EQ(options->retention[0].match, "modelA*");
  EXPECT_EQ(options->retention[0].keep_last, 3);
  EXPECT_EQ(options->retention[0].keep_every, "1000 steps");
  EXPECT_EQ(options->retention[0].max_age, absl::Hours(7 * 24));
  EXPECT_EQ(options->retention[1].tier, "core");
  EXPECT_EQ(options->retention[1].match, "*");
  ASSERT_EQ(options->frameworks.size(), 2);
  EXPECT_EQ(options->frameworks[0].directory, "ckpt_(?P<step>\\d+)");
  EXPECT_THAT(options->frameworks[0].complete, ElementsAre("DONE"));
  EXPECT_THAT(options->frameworks[0].in_progress, ElementsAre("*.tmp"));
  EXPECT_EQ(options->frameworks[0].pointer_content, "{name}\n");
  EXPECT_EQ(options->frameworks[1].quiet, absl::Minutes(5));
}

TEST_F(OptionsTest, PathsAreTakenFromTheDirectoryOfTheFile) {
  WriteTestFile(directory_ / "etc/cairn.toml",
                "[accelerator]\npath = \"../acc\"\n"
                "[[core]]\nurl = \"file:///kept\"\n");
  for (const std::string& path :
       {std::string("etc/cairn.toml"), directory_ / "etc/cairn.toml"}) {
    const absl::StatusOr<Options> options = LoadOptions(path);
    ASSERT_OK(options);
    EXPECT_EQ(options->accelerator_path, directory_ / "acc");
    EXPECT_EQ(options->state_dir, directory_ / "etc/cairn-state");
  }
}

TEST_F(OptionsTest, TheFileHereIsTakenBeforeTheOneOfTheEnvironment) {
  WriteTestFile(directory_ / "other.toml",
                std::string("[engine]\nthreads = 5\n") + kTiers);
  setenv("CAIRN_CONFIG", "other.toml", 1);
  EXPECT_EQ(LoadOptions("")->threads, 5);
  EXPECT_EQ(LoadWithTiers("")->threads, 0);
  EXPECT_EQ(LoadOptions("other.toml")->threads, 5);
}

TEST_F(OptionsTest, WithoutFileSaysWhereItLooked) {
  EXPECT_THAT(LoadOptions("absent.toml"),
              FailsWith(absl::StatusCode::kNotFound, "absent.toml"));
  setenv("CAIRN_CONFIG", "gone.toml", 1);
  const absl::StatusOr<Options> options = LoadOptions("");
  EXPECT_THAT(options, FailsWith(absl::StatusCode::kNotFound, "./cairn.toml"));
  EXPECT_THAT(options, FailsWith(absl::StatusCode::kNotFound, "gone.toml"));
  EXPECT_THAT(options, FailsWith(absl::StatusCode::kNotFound, "cairn init"));
}

TEST_F(OptionsTest, TheEnvironmentOutranksTheFile) {
  setenv("CAIRN_ACCELERATOR", "elsewhere", 1);
  setenv("CAIRN_CORE", "file:///a,file:///b", 1);
  setenv("CAIRN_STATE_DIR", "/var/state", 1);
  setenv("CAIRN_EXPORT_MAX_RATE", "1GiB/s", 1);
  setenv("CAIRN_THREADS", "3", 1);
  const absl::StatusOr<Options> options = LoadWithTiers("");
  ASSERT_OK(options);
  EXPECT_EQ(options->accelerator_path, directory_ / "elsewhere");
  EXPECT_THAT(options->core_urls, ElementsAre("file:///a", "file:///b"));
  EXPECT_EQ(options->state_dir, "/var/state");
  EXPECT_EQ(options->export_bytes_per_second_max, 1u << 30);
  EXPECT_EQ(options->threads, 3);
  // Enough to do without what the file does not say.
  EXPECT_OK(Load(""));
}

TEST_F(OptionsTest, BadEnvironmentIsNamed) {
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{
           {"CAIRN_EXPORT_MAX_RATE", "fast"},
           {"CAIRN_EXPORT_MAX_RATE", "0B/s"},
           {"CAIRN_THREADS", "0"},
           {"CAIRN_THREADS", "4x"},
           {"CAIRN_CORE", "file:///a,"}}) {
    setenv(name, value, 1);
    EXPECT_THAT(RefusedWithTiers(""), HasSubstr(name)) << value;
    unsetenv(name);
  }
}

TEST_F(OptionsTest, AnUnknownKeyIsNamedWithItsLineAndTheNearestOne) {
  EXPECT_EQ(RefusedWithTiers("[export]\nenabled = true\nmax_rat = \"1GB/s\"\n"),
            "cairn.toml:7: [export] max_rat is not a known key; did you mean "
            "max_rate?");
  EXPECT_EQ(RefusedWithTiers("[exprot]\n"),
            "cairn.toml:5: exprot is not a known key; did you mean export?");
  EXPECT_THAT(RefusedWithTiers("[[core]]\nurl=\"file:///b\"\nregion = \"x\"\n"),
              HasSubstr("cairn.toml:7: [[core]] region is not a known key; "
                        "known here are url"));
}

TEST_F(OptionsTest, AWrongValueIsNamedWithItsLineAndKey) {
  struct Case {
    std::string text, message;
  };
  const Case cases[] = {
      {"[export]\nenabled = \"yes\"", ":6: [export] enabled: must be true or "},
      {"[export]\nmax_rate = 7.5", ":6: [export] max_rate: must be a rate in "},
      {"[export]\nmax_rate = \"7.5GB\"", "[export] max_rate: \"7.5GB\""},
      {"[export]\nmax_rate = \"0GB/s\"", "more than zero"},
      {"[export]\nprefixes = \"a\"", "must be a list of strings"},
      {"[export]\nprefixes = [1]", "must be a list of strings"},
      {"[export]\nprefixes = [\"/a\"]", "relative to the accelerator tier"},
      {"[engine]\nthreads = 0", ":6: [engine] threads: must be from 1 to 256"},
      {"[engine]\nthreads = \"4\"", "must be a whole number"},
      {"[scan]\ngeneric_quiet = 5", "must be a duration in quotes"},
      {"[scan]\ngeneric_quiet = \"5\"", "each number needs a unit"},
      {"[scan]\ngeneric_quiet = \"0s\"", "more than zero"},
      {"[release]\ngrace = \"-1s\"", "cannot be negative"},
      {"[retention]\ntier = \"core\"", "write [[retention]]"},
      {"[[retention]]\nkeep_last = 1", ":5: [[retention]] tier is missing"},
      {"[[retention]]\ntier = \"cold\"", "must be \"accelerator\" or \"core\""},
      {"[[retention]]\ntier = \"core\"", "says nothing"},
      {"[[retention]]\ntier = \"core\"\nkeep_last = 0", "must be from 1"},
      {"[[retention]]\ntier = \"core\"\nkeep_every = \"5 days\"", "steps or"},
      {"[[retention]]\ntier = \"core\"\nkeep_every = \"0 steps\"", "steps or"},
      {"[[framework]]\ndirectory = \"x\"", "[[framework]] name is missing"},
      {"[[framework]]\nname = \"x\"", "[[framework]] directory is missing"},
      {"[[framework]]\nname = \"x\"\ndirectory = \"x\"", "complete = "},
      {"[[framework]]\nname = \"x\"\ndirectory = \"x\"\nquiet = \"1s\"\n"
       "pointer = \"p\"",
       "go together"},
      {"[[framework]]\nname = \"x\"\ndirectory = \"x\"\nquiet = \"1s\"\n"
       "[[framework]]\nname = \"x\"\ndirectory = \"y\"\nquiet = \"1s\"",
       ":9: [[framework]] x: this name is taken"},
      {"[[framework]]\nname = \"x\"\ncomplete = [\"\"]", "empty string"},
      {"[[core]]\nurl = \"file:///kept/core\"", "stands here twice"},
      {"[[core]]\nurl = \"/kept\"", "file:///absolute/path"},
      {"[[core]]\nurl = \"file:///fast/checkpoints/core\"", "inside the other"},
      {"[[core]]\nurl = \"file:///fast\"", "inside the other"},
      {"[export]\nenabled = true\nenabled = false", "cairn.toml:7: "},
      {"[export", "cairn.toml:5: "},
  };
  for (const Case& one : cases) {
    EXPECT_THAT(RefusedWithTiers(one.text), HasSubstr(one.message));
  }
}

TEST_F(OptionsTest, BothTiersAreNeeded) {
  EXPECT_THAT(Refused(""), HasSubstr("accelerator tier is missing"));
  EXPECT_THAT(Refused("[accelerator]\n"), HasSubstr("path is missing"));
  EXPECT_THAT(Refused("accelerator = 1\n"), HasSubstr("[accelerator]"));
  EXPECT_THAT(Refused("[accelerator]\npath = \"/a\"\n"),
              HasSubstr("core tier is missing"));
  EXPECT_THAT(Refused("[core]\nurl = \"file:///a\"\n"),
              HasSubstr("write [[core]]"));
}

TEST_F(OptionsTest, NeighboursAreNotInsideOneAnother) {
  EXPECT_OK(
      Load("[accelerator]\npath = \"/data/core-fast\"\n"
           "[[core]]\nurl = \"file:///data/core\"\n"));
}

TEST_F(OptionsTest, WhatIsNoConfigurationIsRefused) {
  EXPECT_THAT(Refused(std::string(2 << 20, '#')), HasSubstr("larger than"));
  EXPECT_THAT(Refused("state_dir = \"\xff\"\n"), HasSubstr("cairn.toml:1: "));
  EXPECT_THAT(Refused(std::string("\0\0\0", 3)), HasSubstr("cairn.toml:1: "));
  EXPECT_THAT(Refused("state_dir = \"a\\u0000b\"\n"), HasSubstr("NUL"));
  EXPECT_FALSE(LoadOptions(directory_.path()).ok());
}

TEST(NearestNameTest, FindsTheOneThatWasMeant) {
  constexpr std::string_view kKnown[] = {"export", "restore", "release",
                                         "max_rate"};
  EXPECT_EQ(NearestName("exprot", kKnown), "export");
  EXPECT_EQ(NearestName("exports", kKnown), "export");
  EXPECT_EQ(NearestName("relase", kKnown), "release");
  EXPECT_EQ(NearestName("rate", kKnown), "max_rate");
  EXPECT_EQ(NearestName("banana", kKnown), "");
  EXPECT_EQ(NearestName("", kKnown), "");
  EXPECT_EQ(NearestName(std::string(100'000, 'x'), kKnown), "");
}

}  // namespace
}  // namespace cairn
