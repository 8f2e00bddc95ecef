#include "catalog/manifest.h"

#include <ctime>
#include <functional>
#include <set>
#include <string>

#include "base/digest.h"
#include "catalog/manifest_test_data.h"
#include "fmt/format.h"
#include "testing/status_matchers.h"

namespace cairn {
namespace {

std::string Encode(const Manifest& manifest) {
  const auto encoded = EncodeManifest(manifest);
  EXPECT_OK(encoded);
  return encoded.value_or("");
}

void ExpectRoundTrip(const Manifest& manifest) {
  const auto decoded = DecodeManifest(AsBytes(Encode(manifest)));
  ASSERT_OK(decoded);
  EXPECT_TRUE(*decoded == manifest);
}

// Refused before it is written.
void ExpectRefused(const std::function<void(Manifest*)>& spoil,
                   const std::string& why) {
  Manifest manifest = SmallTestManifest();
  spoil(&manifest);
  EXPECT_THAT(EncodeManifest(manifest),
              FailsWith(absl::StatusCode::kInvalidArgument, why));
}

void Add(Manifest* manifest, ManifestNode node) {
  manifest->nodes.push_back(std::move(node));
}

TEST(Manifest, EveryFieldComesBack) {
  ExpectRoundTrip(FullTestManifest());
  ExpectRoundTrip(SmallTestManifest());
}

TEST(Manifest, ACheckpointWithoutNodesOrRunComesBack) {
  Manifest manifest = SmallTestManifest();
  manifest.nodes.clear();
  manifest.head.run = "";
  manifest.head.sequence = 0;
  ExpectRoundTrip(manifest);
}

TEST(Manifest, FilesOfARunComeBack) {
  Manifest manifest = SmallTestManifest();
  manifest.head.is_directory = false;
  manifest.nodes = {TestFile("epoch=1.ckpt", 9)};
  ExpectRoundTrip(manifest);
  EXPECT_EQ(manifest.BasePath(), "modelA");
  EXPECT_EQ(manifest.CheckpointPath(), "modelA/global_step1000");
}

TEST(Manifest, EqualManifestsEncodeToEqualBytes) {
  EXPECT_EQ(Encode(FullTestManifest()), Encode(FullTestManifest()));
}

TEST(Manifest, EveryByteMayBeInAName) {
  Manifest manifest = SmallTestManifest();
  for (int byte = 1; byte < 256; ++byte) {
    if (byte == '/' || byte == '.') continue;
    manifest.nodes.push_back(
        TestFile("x" + std::string(1, static_cast<char>(byte)), 0));
  }
  ExpectRoundTrip(manifest);
}

TEST(Manifest, Counts) {
  const Manifest manifest = FullTestManifest();
  EXPECT_EQ(manifest.FileCount(), 8U);
  EXPECT_EQ(manifest.TotalBytes(), 5 + 5 * kDigestBlockBytes + 1 + 1 + 77 + 1);
  EXPECT_EQ(manifest.BasePath(), manifest.CheckpointPath());
  EXPECT_EQ(manifest.CheckpointPath(), "team \xff/model%A/step\n1000");
}

TEST(Manifest, FullyDigestedMeansSha256OfEveryBlock) {
  EXPECT_TRUE(SmallTestManifest().FullyDigested());
  EXPECT_FALSE(FullTestManifest().FullyDigested());
  Manifest manifest = SmallTestManifest();
  manifest.nodes.push_back(TestFile("x-empty", 0));
  EXPECT_TRUE(manifest.FullyDigested());
  manifest.nodes[1].blocks.clear();
  EXPECT_FALSE(manifest.FullyDigested());
}

TEST(Manifest, HeadsThatNoReaderAcceptsAreRefused) {
  ExpectRefused([](Manifest* m) { m->head.name = ""; }, "no name");
  ExpectRefused([](Manifest* m) { m->head.name = "a/../b"; }, "\"..\"");
  ExpectRefused([](Manifest* m) { m->head.run = "/abs"; }, "absolute");
  ExpectRefused([](Manifest* m) { m->head.run = "a/"; }, "empty component");
  ExpectRefused([](Manifest* m) { m->head.run = ".cairn"; }, "reserved");
  ExpectRefused([](Manifest* m) { m->head.name = std::string("a\0b", 3); },
                "NUL");
  ExpectRefused([](Manifest* m) { m->head.name = std::string(5000, 'n'); },
                "4096");
  ExpectRefused([](Manifest* m) { m->head.sequence = uint64_t{1} << 63; },
                "2^63-1");
  ExpectRefused([](Manifest* m) { m->head.generation = "ABC"; }, "32 hex");
  ExpectRefused([](Manifest* m) { m->head.marker = "../x"; }, "marker");
  ExpectRefused([](Manifest* m) { m->head.labels["a"] = "\xff"; }, "UTF-8");
  ExpectRefused(
      [](Manifest* m) { m->head.labels["a"] = std::string(1025, 'x'); },
      "1024");
  ExpectRefused(
      [](Manifest* m) {
        for (int i = 0; i < 65; ++i) m->head.labels[std::to_string(i)] = "";
      },
      "at most 64");
  ExpectRefused([](Manifest* m) { m->head.pointers = {{"a/../../b", ""}}; },
                "pointer");
  ExpectRefused(
      [](Manifest* m) {
        m->head.pointers = {{"a", std::string(kPointerBytesMax + 1, 'x')}};
      },
      "longer");
  ExpectRefused(
      [](Manifest* m) { m->head.pointers.resize(kPointersMax + 1, {"a", ""}); },
      "at most 256");
}

TEST(Manifest, PathsThatNoReaderAcceptsAreRefused) {
  for (const char* const path :
       {"x/..", "../x", "x//y", "x/", "/x", "x/./y", "."}) {
    ExpectRefused([path](Manifest* m) { Add(m, TestFile(path, 1)); }, "path");
  }
  ExpectRefused([](Manifest* m) { Add(m, TestFile("weights.bin", 1)); },
                "ascending");
  ExpectRefused([](Manifest* m) { Add(m, TestFile("a", 1)); }, "ascending");
  ExpectRefused([](Manifest* m) { m->nodes = {TestFile("", 1)}; }, "base");
  ExpectRefused([](Manifest* m) { Add(m, TestFile("weights.bin/x", 1)); },
                "not a directory");
  ExpectRefused(
      [](Manifest* m) {
        Add(m, TestLink("x", ManifestNodeType::kSymlink, "/etc"));
        Add(m, TestFile("x.y", 1));
        Add(m, TestFile("x/d/passwd", 1));
      },
      "not a directory");
  ExpectRefused(
      [](Manifest* m) {
        m->head.run = "";
        m->head.is_directory = false;
        m->nodes = {TestFile(".cairn/tier.json", 1)};
      },
      "reserved");
}

TEST(Manifest, LinksToNothingAreRefused) {
  const auto link = [](const char* path, const char* target) {
    return TestLink(path, ManifestNodeType::kHardLink, target);
  };
  for (const char* const target : {"", "absent", "x-later", "a-self"}) {
    ExpectRefused(
        [&](Manifest* m) {
          m->nodes = {link("a-self", target), TestFile("x-later", 1)};
        },
        "first name");
  }
  ExpectRefused(
      [](Manifest* m) {
        Add(m, TestLink("x", ManifestNodeType::kSymlink, ""));
      },
      "target is empty");
  ExpectRefused([](Manifest* m) { m->nodes[1].target = "x"; }, "no link");
}

TEST(Manifest, ContentThatContradictsItselfIsRefused) {
  ExpectRefused([](Manifest* m) { m->nodes[1].blocks.resize(2); }, "2 digests");
  ExpectRefused([](Manifest* m) { m->nodes[1].size_bytes = 0; }, "1 digests");
  ExpectRefused([](Manifest* m) { m->nodes[0].size_bytes = 1; }, "not a file");
  ExpectRefused([](Manifest* m) { m->nodes[0].key = "k"; }, "not a file");
  ExpectRefused([](Manifest* m) { m->nodes[1].key = "a/../b"; }, "object key");
  ExpectRefused([](Manifest* m) { m->nodes[1].key = std::string(1025, 'k'); },
                "1024");
  ExpectRefused([](Manifest* m) { m->nodes[1].mode = 010000; }, "mode");
  for (const auto& extents :
       std::vector<std::vector<ManifestExtent>>{{{0, 7}},
                                                {{6, 1}},
                                                {{0, 0}},
                                                {{0, 2}, {1, 1}},
                                                {{2, 1}, {0, 1}},
                                                {{1, ~uint64_t{0}}},
                                                {{~uint64_t{0}, 2}}}) {
    ExpectRefused([&](Manifest* m) { m->nodes[1].extents = extents; },
                  "extents");
  }
}

TEST(Manifest, SizesBeyondTheLimitsAreRefused) {
  const auto add_unread = [](Manifest* m, const char* path, uint64_t size) {
    ManifestNode node = TestNode(path, ManifestNodeType::kFile);
    node.size_bytes = size;
    Add(m, node);
  };
  ExpectRefused([&](Manifest* m) { add_unread(m, "x", uint64_t{1} << 63); },
                "2^63-1");
  ExpectRefused([&](Manifest* m) { add_unread(m, "x", uint64_t{1} << 62); },
                "digest blocks");
}

TEST(Manifest, PathsOnTheTier) {
  const Manifest manifest = SmallTestManifest();
  EXPECT_EQ(ManifestDirectory("modelA/x"), ".cairn/manifests/modelA/x");
  EXPECT_EQ(ManifestPath(manifest.head),
            ".cairn/manifests/modelA/global_step1000/00001767225601000000-"
            "0f1e2d3c4b5a69788796a5b4c3d2e1f0.jsonl.zst");
  EXPECT_EQ(JoinPath("", "b"), "b");
  EXPECT_EQ(JoinPath("a", ""), "a");
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
}

TEST(Manifest, FileNamesAreParsedStrictly) {
  const std::string generation = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
  for (const uint64_t sequence : {uint64_t{0}, (uint64_t{1} << 63) - 1}) {
    const auto id =
        ParseManifestFileName(ManifestFileName(sequence, generation));
    ASSERT_OK(id);
    EXPECT_EQ(id->sequence, sequence);
    EXPECT_EQ(id->generation, generation);
  }
  for (const std::string& name :
       {std::string(), std::string("x"),
        ManifestFileName(uint64_t{1} << 63, generation),
        ManifestFileName(~uint64_t{0}, generation),
        ManifestFileName(1, "F" + generation.substr(1)),
        ManifestFileName(1, generation.substr(1)),
        ManifestFileName(1, generation) + "x",
        ManifestFileName(1, generation).substr(1),
        "99999999999999999999-" + generation + ".jsonl.zst",
        "+0000000000000000001-" + generation + ".jsonl.zst"}) {
    EXPECT_THAT(ParseManifestFileName(name),
                HasCode(absl::StatusCode::kInvalidArgument))
        << name;
  }
}

TEST(Manifest, GenerationsAreDistinctAndWellFormed) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(NewGeneration());
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_OK(ParseManifestFileName(ManifestFileName(1, *seen.begin())));
}

// A file of 1 TiB: 131,072 blocks, a line of 10.5 MB.
TEST(Manifest, AFileOfATebibyteComesBack) {
  Manifest manifest = SmallTestManifest();
  manifest.nodes.push_back(TestFile("x", uint64_t{1} << 40));
  ExpectRoundTrip(manifest);
}

// What a writer refuses as a bomb is what a reader would refuse.
TEST(Manifest, TooManyEqualBlocksAreRefused) {
  Manifest manifest = SmallTestManifest();
  manifest.nodes[1].size_bytes = uint64_t{8} << 40;
  manifest.nodes[1].blocks.assign(DigestBlockCount(uint64_t{8} << 40),
                                  TestBlock(0, true));
  EXPECT_THAT(EncodeManifest(manifest),
              FailsWith(absl::StatusCode::kInvalidArgument, "6 TiB"));
}

int CpuMilliseconds() {
  return static_cast<int>(std::clock() * 1000 / CLOCKS_PER_SEC);
}

// The limit on time leaves room for slow machines and sanitizers.
TEST(Manifest, AHundredThousandFilesAreQuickAndSmall) {
  Manifest manifest = SmallTestManifest();
  manifest.nodes.pop_back();
  for (int i = 0; i < 100'000; ++i) {
    ManifestNode node =
        TestFile(fmt::format("rank{:03}/{:06}.bin", i / 1000, i), 123456);
    node.blocks[0] = DigestBlock(AsBytes(node.path), /*with_sha256=*/true);
    manifest.nodes.push_back(std::move(node));
  }
  const uint64_t before = PeakResidentBytes();
  const int begin_ms = CpuMilliseconds();
  const std::string encoded = Encode(manifest);
  const int middle_ms = CpuMilliseconds();
  const uint64_t after = PeakResidentBytes();
  const auto decoded = DecodeManifest(AsBytes(encoded));
  const int end_ms = CpuMilliseconds();
  ASSERT_OK(decoded);
  EXPECT_TRUE(*decoded == manifest);
  RecordProperty("encode_ms", middle_ms - begin_ms);
  RecordProperty("decode_ms", end_ms - middle_ms);
  RecordProperty("encode_peak_mib", static_cast<int>((after - before) >> 20));
  RecordProperty("encoded_kib", static_cast<int>(encoded.size() >> 10));
  EXPECT_LT(end_ms - begin_ms, 20'000);
  EXPECT_LT(after - before, kMemoryFactor * (uint64_t{60} << 20));
}

}  // namespace
}  // namespace cairn
