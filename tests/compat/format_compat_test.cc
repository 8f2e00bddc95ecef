// Golden files of every version of every format, read by today's code, and the
// examples of docs/format.md, held to what the code writes. README.md in this
// directory says how golden files are made.

#include <zstd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "catalog/manifest.h"
#include "catalog/mark.h"
#include "catalog/tier_id.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

// Everything below, down to the tests, is frozen: it is what the files of
// version 1 hold.

ManifestNode Node(std::string path, ManifestNodeType type, uint32_t mode) {
  ManifestNode node;
  node.path = std::move(path);
  node.type = type;
  node.mode = mode;
  node.uid = 1000;
  node.gid = 1000;
  node.mtime_ns = 1767225600123456789;
  return node;
}

ManifestNode File(std::string path, const std::string& content) {
  ManifestNode node = Node(std::move(path), ManifestNodeType::kFile, 0644);
  node.size_bytes = content.size();
  if (!content.empty()) node.blocks = {DigestBlock(AsBytes(content), true)};
  return node;
}

ManifestNode Link(std::string path, ManifestNodeType type, uint32_t mode,
                  std::string target) {
  ManifestNode node = Node(std::move(path), type, mode);
  node.target = std::move(target);
  return node;
}

// The example of docs/format.md.
Manifest ExampleManifest() {
  Manifest manifest;
  ManifestHead& head = manifest.head;
  head.run = "modelA";
  head.name = "global_step1000";
  head.sequence = 1767225601000000;
  head.generation = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
  head.framework = "deepspeed";
  head.step = 1000;
  head.created_ns = 1767225601000000000;
  head.marker_mtime_ns = 1767225600123456789;
  head.origin = "scan";
  head.labels = {{"commit", "4f2a91c"}};
  head.pointers = {{"latest", "global_step1000"}};
  manifest.nodes = {
      Node("", ManifestNodeType::kDirectory, 0755),
      File("empty.bin", ""),
      File("loss 100%.txt", "0.125\n"),
      Link("newest", ManifestNodeType::kSymlink, 0777, "weights.bin"),
      File("weights.bin", "hello\n"),
      Link("weights2.bin", ManifestNodeType::kHardLink, 0644, "weights.bin")};
  return manifest;
}

// What the example leaves out.
Manifest FullManifest() {
  Manifest manifest = ExampleManifest();
  ManifestHead& head = manifest.head;
  head.run = "team \xff/model%A";
  head.name = "epoch=2";
  head.is_directory = false;
  head.step.reset();
  head.epoch = -2;
  head.created_ns = -1;
  head.marker = "done/\xc3\xa9";
  head.origin = "adopt";
  head.labels = {{"", "\x01\""}, {"gr\xc3\xb6\xc3\x9f", "50 %"}};
  head.pointers.emplace_back("checkpoint", std::string("\0\xff\n", 3));
  ManifestNode sparse = Node("d/sparse", ManifestNodeType::kFile, 07777);
  sparse.size_bytes = 2 * kDigestBlockBytes + 1;
  sparse.blocks = {DigestOfZeros(kDigestBlockBytes),
                   DigestBlock(AsBytes("save"), false),
                   DigestBlock(AsBytes("x"), true)};
  sparse.extents = {{4096, 512}, {2 * kDigestBlockBytes, 1}};
  sparse.key = ".cairn/generations/0f1e2d3c4b5a69788796a5b4c3d2e1f0/d/sparse";
  sparse.mtime_ns = -1;
  sparse.uid = 0;
  sparse.gid = 4294967295;
  ManifestNode hole = Node("e", ManifestNodeType::kFile, 0);
  hole.size_bytes = 1;
  hole.extents.emplace();
  manifest.nodes = {Node("d", ManifestNodeType::kDirectory, 01777), sparse,
                    hole,
                    Link("f", ManifestNodeType::kSymlink, 0777, "/\xfe/..")};
  return manifest;
}

Mark ExampleMark() {
  Mark mark;
  mark.kind = MarkKind::kPin;
  mark.time_us = 1767225700000000;
  mark.until_ns = 1798761600000000000;
  mark.reason = "baseline of the paper";
  mark.user = "ada";
  return mark;
}

Mark OtherMark(MarkKind kind) {
  Mark mark;
  mark.kind = kind;
  mark.time_us = 1;
  mark.generation = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
  mark.reason = "100 %\n\xff";
  return mark;
}

TierId ExampleTier() {
  TierId tier;
  tier.id = "00112233445566778899aabbccddeeff";
  tier.kind = "core";
  tier.created = "2026-01-01T00:00:00Z";
  return tier;
}

const std::vector<std::pair<std::string, Manifest>>& Manifests() {
  static const auto* const manifests =
      new std::vector<std::pair<std::string, Manifest>>{
          {"manifest-v1-example.jsonl.zst", ExampleManifest()},
          {"manifest-v1-full.jsonl.zst", FullManifest()}};
  return *manifests;
}

const std::vector<std::pair<std::string, Mark>>& Marks() {
  static const auto* const marks =
      new std::vector<std::pair<std::string, Mark>>{
          {"mark-v1-hold.json", ExampleMark()},
          {"mark-v1-pin.json", OtherMark(MarkKind::kPin)},
          {"mark-v1-unpin.json", OtherMark(MarkKind::kUnpin)},
          {"mark-v1-release.json", OtherMark(MarkKind::kRelease)},
          {"mark-v1-present.json", OtherMark(MarkKind::kPresent)}};
  return *marks;
}

constexpr char kTierFileName[] = "tier-v1.json";

std::string Golden(const std::string& name) {
  return ReadTestFile(std::string(CAIRN_COMPAT_DATA "/") + name);
}

std::string Decompress(const std::string& encoded) {
  std::string out(size_t{1} << 20, '\0');
  const size_t size =
      ZSTD_decompress(out.data(), out.size(), encoded.data(), encoded.size());
  EXPECT_FALSE(ZSTD_isError(size));
  out.resize(ZSTD_isError(size) ? 0 : size);
  return out;
}

TEST(FormatCompat, ManifestsOfVersion1AreReadInEveryField) {
  for (const auto& [name, expected] : Manifests()) {
    const auto decoded = DecodeManifest(AsBytes(Golden(name)));
    ASSERT_OK(decoded) << name;
    EXPECT_TRUE(decoded->head == expected.head) << name;
    EXPECT_EQ(decoded->nodes.size(), expected.nodes.size()) << name;
    EXPECT_TRUE(*decoded == expected) << name;
  }
}

// The lines, that is; another version of zstd may compress them otherwise.
TEST(FormatCompat, ManifestsAreStillWrittenAsVersion1) {
  for (const auto& [name, manifest] : Manifests()) {
    const auto encoded = EncodeManifest(manifest);
    ASSERT_OK(encoded) << name;
    EXPECT_EQ(Decompress(*encoded), Decompress(Golden(name))) << name;
  }
}

TEST(FormatCompat, MarksOfVersion1) {
  for (const auto& [name, mark] : Marks()) {
    const auto decoded = DecodeMark(AsBytes(Golden(name)));
    ASSERT_OK(decoded) << name;
    EXPECT_EQ(*decoded, mark) << name;
    EXPECT_EQ(EncodeMark(mark), Golden(name)) << name;
  }
}

TEST(FormatCompat, TierIdsOfVersion1) {
  const auto decoded = DecodeTierId(AsBytes(Golden(kTierFileName)));
  ASSERT_OK(decoded);
  EXPECT_EQ(*decoded, ExampleTier());
  EXPECT_EQ(EncodeTierId(ExampleTier()), Golden(kTierFileName));
}

TEST(FormatCompat, TheExamplesOfTheSpecificationAreTrue) {
  const std::string page = ReadTestFile(CAIRN_FORMAT_PAGE);
  for (const std::string& example :
       {Decompress(Golden("manifest-v1-example.jsonl.zst")),
        Golden("mark-v1-hold.json"), Golden(kTierFileName)}) {
    EXPECT_NE(page.find("```\n" + example + "```\n"), std::string::npos)
        << example;
  }
  EXPECT_NE(page.find(ManifestPath(ExampleManifest().head)), std::string::npos);
  const auto digest = FileSha256({DigestBlock(AsBytes("hello\n"), true)});
  EXPECT_NE(page.find(ToHex(*digest)), std::string::npos);
}

// Not a test: run by hand when a version is added. Never writes over a file.
TEST(FormatCompat, DISABLED_WriteMissingGoldenFiles) {
  const auto write = [](const std::string& name, const std::string& content) {
    const std::string path = std::string(CAIRN_COMPAT_DATA "/") + name;
    if (!std::filesystem::exists(path)) WriteTestFile(path, content);
  };
  for (const auto& [name, manifest] : Manifests()) {
    const auto encoded = EncodeManifest(manifest);
    ASSERT_OK(encoded);
    write(name, *encoded);
  }
  for (const auto& [name, mark] : Marks()) write(name, EncodeMark(mark));
  write(kTierFileName, EncodeTierId(ExampleTier()));
}

}  // namespace
}  // namespace cairn
