#include "object/directory_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "object/object_store.h"
#include "testing/object_store_harness.h"
#include "testing/status_matchers.h"

namespace cairn {

namespace {

std::string Below(const std::string& path) {
  return path.substr(kAsideDirectory.size() + 1);
}

TEST(DirectoryKeys, NaturalKeysArePaths) {
  for (const std::string key :
       {"a", "a/b", ".cairn/tier.json", ".hidden", "...", "a/..b", "x+",
        "x=", "100%", "line\nbreak", "\xff", ".cairn-store-not/x",
        "a/.cairn-store/b"}) {
    EXPECT_TRUE(IsNaturalKey(key)) << key;
  }
  EXPECT_TRUE(IsNaturalKey("a/" + std::string(255, 'n')));
  for (const std::string key :
       {"/", "/a", "a/", "a//b", ".", "..", "a/./b", "a/../b", "../a",
        ".cairn-store", ".cairn-store/aside/x="}) {
    EXPECT_FALSE(IsNaturalKey(key)) << key;
  }
  EXPECT_FALSE(IsNaturalKey("a/" + std::string(256, 'n') + "/b"));
}

TEST(DirectoryKeys, AsidePathsAreReadable) {
  EXPECT_EQ(AsidePath("run"), ".cairn-store/aside/run=");
  EXPECT_EQ(AsidePath("run/../x+ 1%"),
            ".cairn-store/aside/run%2F..%2Fx%2B%201%25=");
  EXPECT_EQ(AsidePath(std::string(201, 'k')),
            ".cairn-store/aside/" + std::string(200, 'k') + "+/k=");
}

TEST(DirectoryKeys, EveryKeyHasOnePathAndComesBack) {
  std::vector<std::string> keys = OddKeys();
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string key(1 + random() % kKeyBytesMax, '\0');
    for (char& c : key) c = static_cast<char>(1 + random() % 255);
    keys.push_back(key);
  }
  std::set<std::string> files;
  std::set<std::string> directories;
  for (const std::string& key : keys) {
    const std::string path = AsidePath(key);
    const auto back = KeyOfAsidePath(Below(path));
    ASSERT_OK(back);
    EXPECT_EQ(*back, key);
    EXPECT_TRUE(files.insert(path).second);
    for (size_t slash = path.find('/'); slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
      directories.insert(path.substr(0, slash));
    }
    for (size_t start = 0; start < path.size();) {
      const size_t end = std::min(path.find('/', start), path.size());
      EXPECT_GT(end, start);
      EXPECT_LE(end - start, kComponentBytesMax);
      EXPECT_NE(path.substr(start, end - start), "..");
      start = end + 1;
    }
  }
  for (const std::string& file : files)
    EXPECT_FALSE(directories.contains(file));
}

TEST(DirectoryKeys, WhatTheStoreDoesNotWriteIsNoKey) {
  for (const std::string path :
       {"", "=", "a", "a+", "a/b=", "a+/b=", "a+/=", "%=", "%2=", "%2f=",
        "%zz=", "%61=", "a b=", "%00=", "a==", "\xff=", "a+=", "/a="}) {
    EXPECT_THAT(KeyOfAsidePath(path),
                HasCode(absl::StatusCode::kFailedPrecondition))
        << path;
  }
  // Cut elsewhere than AsidePath cuts.
  EXPECT_THAT(KeyOfAsidePath(std::string(199, 'k') + "+/k="),
              HasCode(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(KeyOfAsidePath(std::string(3000, 'k') + "="),
              HasCode(absl::StatusCode::kFailedPrecondition));
}

TEST(DirectoryKeys, AnyTextIsRefusedOrIsItsKeysPath) {
  constexpr char kAlphabet[] = "a%20F+=/.-";
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; ++i) {
    std::string path(random() % 12, '\0');
    for (char& c : path) c = kAlphabet[random() % (sizeof(kAlphabet) - 1)];
    const auto key = KeyOfAsidePath(path);
    if (key.ok()) {
      ASSERT_EQ(Below(AsidePath(*key)), path);
    }
  }
}

}  // namespace
}  // namespace cairn
