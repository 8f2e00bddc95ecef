// Manifests, and measures of memory, that tests share.

#pragma once

#include <sys/resource.h>

#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "catalog/manifest.h"

namespace cairn {

// Sanitizers keep what was freed, and shadows of it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr uint64_t kMemoryFactor = 16;
#else
inline constexpr uint64_t kMemoryFactor = 1;
#endif

inline uint64_t PeakResidentBytes() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

inline BlockDigest TestBlock(uint8_t seed, bool with_sha256) {
  BlockDigest block;
  block.crc64_nvme = uint64_t{0x0102030405060708} * seed;
  if (with_sha256) {
    block.sha256.emplace();
    for (size_t i = 0; i < block.sha256->size(); ++i) {
      (*block.sha256)[i] = static_cast<uint8_t>(seed * 7 + i);
    }
  }
  return block;
}

inline ManifestNode TestNode(std::string path, ManifestNodeType type) {
  ManifestNode node;
  node.path = std::move(path);
  node.type = type;
  node.mode = type == ManifestNodeType::kDirectory ? 0755 : 0644;
  node.uid = 1000;
  node.gid = 4294967295;
  node.mtime_ns = 1767225600123456789;
  return node;
}

inline ManifestNode TestFile(std::string path, uint64_t size_bytes,
                             bool with_sha256 = true) {
  ManifestNode node = TestNode(std::move(path), ManifestNodeType::kFile);
  node.size_bytes = size_bytes;
  for (uint64_t i = 0; i < DigestBlockCount(size_bytes); ++i) {
    node.blocks.push_back(TestBlock(static_cast<uint8_t>(i + 1), with_sha256));
  }
  return node;
}

inline ManifestNode TestLink(std::string path, ManifestNodeType type,
                             std::string target) {
  ManifestNode node = TestNode(std::move(path), type);
  node.target = std::move(target);
  return node;
}

inline Manifest SmallTestManifest() {
  Manifest manifest;
  manifest.head.run = "modelA";
  manifest.head.name = "global_step1000";
  manifest.head.sequence = 1767225601000000;
  manifest.head.generation = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
  manifest.nodes.push_back(TestNode("", ManifestNodeType::kDirectory));
  manifest.nodes.push_back(TestFile("weights.bin", 6));
  return manifest;
}

// Every field away from its default, and every kind of node.
inline Manifest FullTestManifest() {
  Manifest manifest = SmallTestManifest();
  ManifestHead& head = manifest.head;
  head.run = "team \xff/model%A";
  head.name = "step\n1000";
  head.sequence = (uint64_t{1} << 63) - 1;
  head.framework = "deepspeed";
  head.step = 1000;
  head.epoch = -2;
  head.created_ns = -5;
  head.marker_mtime_ns = 1767225600123456789;
  head.marker = "done/COMPLETE";
  head.origin = "adopt";
  head.labels = {
      {"commit", "4f2a91c"}, {"", "\x01\""}, {"gr\xc3\xb6\xc3\x9f", ""}};
  head.pointers = {{"team \xff/latest", "global_step1000\n"},
                   {"checkpoint", std::string("\0\xff%", 3)}};

  ManifestNode sparse = TestFile("d/sparse", 3 * kDigestBlockBytes + 1);
  sparse.extents = {{0, 4096}, {4096, 1}, {kDigestBlockBytes * 3, 1}};
  ManifestNode hole = TestFile("d/z-hole", 1, /*with_sha256=*/false);
  hole.extents.emplace();
  ManifestNode mixed = TestFile("e-mixed", 2 * kDigestBlockBytes);
  mixed.blocks[0].sha256.reset();
  ManifestNode unread = TestFile("f-unread", 77);
  unread.blocks.clear();
  ManifestNode mapped = TestFile("g/\x80 mapped", 1);
  mapped.key = ".cairn/objects/ab\xff";
  mapped.mode = 07777;
  mapped.mtime_ns = -1;
  manifest.nodes = {
      TestNode("", ManifestNodeType::kDirectory),
      TestNode("d", ManifestNodeType::kDirectory),
      TestFile("d.txt", 5),  // Between a directory and what is in it.
      sparse,
      hole,
      mixed,
      unread,
      mapped,  // Its directory is only implied.
      TestFile("h-empty", 0),
      TestLink("i-link", ManifestNodeType::kSymlink, "../../etc\xff/passwd"),
      TestLink("j-hard", ManifestNodeType::kHardLink, "d/sparse"),
  };
  return manifest;
}

}  // namespace cairn
