#include "apps/cairn/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "apps/cairn/verb.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Said {
  int code;
  std::string out, err;
};

// In an empty directory, so that no verb finds a configuration.
class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() {
    char* const directory = getcwd(nullptr, 0);
    before_ = directory;
    free(directory);
    setenv("CAIRN_CONFIG", "absent.toml", 1);
    EXPECT_EQ(chdir(directory_.path().c_str()), 0);
  }
  ~CommandLineTest() override {
    unsetenv("CAIRN_CONFIG");
    EXPECT_EQ(chdir(before_.c_str()), 0);
  }

  static Said Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "cairn");
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code =
        RunCommandLine(static_cast<int>(arguments.size()), argv.data());
    return {code, testing::internal::GetCapturedStdout(),
            testing::internal::GetCapturedStderr()};
  }

  const TempDir directory_;
  std::string before_;
};

TEST_F(CommandLineTest, HelpListsEveryVerb) {
  const Said said = Run({"--help"});
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.err, "");
  for (const auto& verb : MakeVerbs()) {
    EXPECT_THAT(said.out,
                HasSubstr("\n  " + std::string(verb->help().name) + " "));
  }
  EXPECT_THAT(said.out, HasSubstr("Exit codes:"));
}

TEST_F(CommandLineTest, EveryVerbExplainsItself) {
  for (const auto& verb : MakeVerbs()) {
    const std::string name(verb->help().name);
    const Said said = Run({name, "--help"});
    EXPECT_EQ(said.code, 0) << name;
    EXPECT_THAT(said.out, StartsWith("cairn " + name + ": "));
    for (const char* part : {"Usage: cairn ", "Examples:", "Exit codes:",
                             "--json", "--quiet", "--config"}) {
      EXPECT_THAT(said.out, HasSubstr(part)) << name;
    }
    EXPECT_EQ(Run({"help", name}).out, said.out);
    std::istringstream lines(said.out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 96) << line;
    }
  }
}

TEST_F(CommandLineTest, VerbsThatRemoveOrMoveHaveADryRun) {
  for (const char* name : {"release", "remove", "sweep", "export", "restore"}) {
    EXPECT_THAT(Run({name, "--help"}).out, HasSubstr("--dry-run")) << name;
  }
}

TEST_F(CommandLineTest, Version) {
  const Said said = Run({"--version"});
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.out, StartsWith("cairn 0."));
}

TEST_F(CommandLineTest, WrongUsageIsExitCodeTwo) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"--quiet"},
      {"nonsense"},
      {"ls", "--nonsense"},
      {"ls", "a", "b"},
      {"show"},
      {"export"},
      {"export", "--all", "modelA"},
      {"export", "--all", "--max-rate", "fast"},
      {"export", "--all", "--max-rate", "0B/s"},
      {"commit", "a/b", "--step", "x"},
      {"commit", "a/b", "--label", "x"},
      {"save", "a/b"},
      {"verify", "--all", "--tier", "moon"},
      {"remove", "a/b"},
      {"remove", "--tier", "accelerator", "a/b"},
      {"remove", "--tier", "core"},
      {"latest", "a", "--durability", "staged"},
      {"pin", "a/b", "--for", "soon"},
      {"init"},
      {"init", "--accelerator", "acc"},
      {"init", "--accelerator", "acc", "--core", "core"},
      {"init", "--accelerator", "acc", "--core", "file://core"},
      {"init", "--accelerator", "/a", "--core", "file:///a/core"},
  };
  for (const std::vector<std::string>& arguments : wrong) {
    const Said said = Run(arguments);
    EXPECT_EQ(said.code, 2) << testing::PrintToString(arguments) << said.err;
    EXPECT_NE(said.err, "");
    EXPECT_EQ(said.out, "");
  }
}

TEST_F(CommandLineTest, AMistypedVerbGetsASuggestion) {
  EXPECT_EQ(Run({"exprot", "--all"}).err,
            "cairn: there is no verb \"exprot\"; did you mean export?\n"
            "Try `cairn --help`.\n");
  EXPECT_THAT(Run({"--config", "x.toml", "scna"}).err, HasSubstr("scan?"));
  EXPECT_THAT(Run({"banana"}).err, Not(HasSubstr("did you mean")));
}

TEST_F(CommandLineTest, WithoutConfigurationSaysWhatToDo) {
  for (const char* name : {"scan", "ls", "status", "rebuild", "doctor"}) {
    const Said said = Run({name});
    EXPECT_EQ(said.code, 1) << name;
    EXPECT_EQ(said.out, "");
    EXPECT_THAT(said.err, StartsWith("cairn " + std::string(name) + ": "));
    EXPECT_THAT(said.err, HasSubstr("cairn init"));
  }
}

TEST_F(CommandLineTest, GlobalFlagsMayStandOnBothSidesOfTheVerb) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"--config", "x.toml", "ls"}, {"ls", "--config", "x.toml"}}) {
    const Said said = Run(arguments);
    EXPECT_EQ(said.code, 1);
    EXPECT_THAT(said.err, HasSubstr("x.toml"));
  }
}

TEST_F(CommandLineTest, AFailedInitLeavesNothing) {
  EXPECT_EQ(Run({"init", "--accelerator", "acc", "--core",
                 "file://" + directory_ / "acc/core"})
                .code,
            2);
  EXPECT_NE(access("acc", F_OK), 0);
  EXPECT_NE(access("cairn.toml", F_OK), 0);
}

}  // namespace
}  // namespace cairn
