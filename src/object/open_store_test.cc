#include "object/open_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "io/io_engine.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

class OpenStoreTest : public testing::Test {
 protected:
  const TempDir directory_;
  const std::unique_ptr<IoEngine> engine_ = IoEngine::Create({});
};

TEST_F(OpenStoreTest, ADirectoryIsMadeOnlyOnRequest) {
  const std::string path = directory_ / "new/core";
  const std::string url = "file://" + path;
  EXPECT_THAT(OpenStore(url, engine_.get(), /*create=*/false),
              HasCode(absl::StatusCode::kNotFound));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_OK(OpenStore(url, engine_.get(), /*create=*/true));
  EXPECT_TRUE(std::filesystem::is_directory(path));
  EXPECT_OK(OpenStore(url, engine_.get(), /*create=*/false));
  EXPECT_OK(OpenStore(url, engine_.get(), /*create=*/true));
}

TEST_F(OpenStoreTest, ThePathIsTakenByteForByte) {
  const std::string path = directory_ / "50% off + more";
  auto store = OpenStore("file://" + path, engine_.get(), /*create=*/true);
  ASSERT_OK(store);
  ASSERT_OK((*store)->Put("k", AsBytes("content"), {}));
  EXPECT_EQ(ReadTestFile(path + "/k"), "content");
}

TEST_F(OpenStoreTest, AFileIsNoStore) {
  WriteTestFile(directory_ / "file", "x");
  EXPECT_FALSE(
      OpenStore("file://" + directory_ / "file", engine_.get(), false).ok());
  EXPECT_FALSE(
      OpenStore("file://" + directory_ / "file", engine_.get(), true).ok());
}

TEST_F(OpenStoreTest, OtherUrlsAreRefusedWithWhatIsKnown) {
  for (const std::string url :
       {"", "core", "/core", "file:", "file://", "file:/core",
        "file://host/core", "s3://bucket/prefix", "FILE:///core"}) {
    EXPECT_THAT(OpenStore(url, engine_.get(), /*create=*/true),
                FailsWith(absl::StatusCode::kInvalidArgument,
                          "file:///absolute/directory"))
        << url;
  }
}

}  // namespace
}  // namespace cairn
