#include "catalog/manifest.h"

#include <sys/random.h>

#include <array>
#include <cerrno>

#include "base/check.h"
#include "base/escape.h"
#include "catalog/manifest_check.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr char kManifests[] = ".cairn/manifests";
constexpr char kSuffix[] = ".jsonl.zst";
constexpr size_t kSequenceDigits = 20;

}  // namespace

uint64_t Manifest::FileCount() const {
  uint64_t count = 0;
  for (const ManifestNode& node : nodes) {
    const bool is_name_of_file = node.type == ManifestNodeType::kFile ||
                                 node.type == ManifestNodeType::kHardLink;
    count += is_name_of_file ? 1 : 0;
  }
  return count;
}

uint64_t Manifest::TotalBytes() const {
  uint64_t bytes = 0;
  for (const ManifestNode& node : nodes) {
    if (node.type == ManifestNodeType::kFile) bytes += node.size_bytes;
  }
  return bytes;
}

bool Manifest::FullyDigested() const {
  for (const ManifestNode& node : nodes) {
    if (node.type != ManifestNodeType::kFile || node.size_bytes == 0) continue;
    if (node.blocks.empty()) return false;
    for (const BlockDigest& block : node.blocks) {
      if (!block.sha256.has_value()) return false;
    }
  }
  return true;
}

std::string Manifest::CheckpointPath() const {
  return JoinPath(head.run, head.name);
}

std::string Manifest::BasePath() const {
  return head.is_directory ? CheckpointPath() : head.run;
}

std::string ManifestDirectory(std::string_view checkpoint_path) {
  return JoinPath(kManifests, checkpoint_path);
}

std::string ManifestFileName(uint64_t sequence, std::string_view generation) {
  return fmt::format("{:020}-{}{}", sequence, generation, kSuffix);
}

std::string ManifestPath(const ManifestHead& head) {
  return JoinPath(ManifestDirectory(JoinPath(head.run, head.name)),
                  ManifestFileName(head.sequence, head.generation));
}

absl::StatusOr<ManifestFileId> ParseManifestFileName(std::string_view name) {
  ManifestFileId id;
  const std::string_view digits = name.substr(0, kSequenceDigits);
  bool is_sound = digits.size() == kSequenceDigits;
  for (const char digit : digits) {
    is_sound = is_sound && digit >= '0' && digit <= '9' &&
               id.sequence <= kInt64Max / 10;
    if (!is_sound) break;
    id.sequence = 10 * id.sequence + static_cast<uint64_t>(digit - '0');
  }
  is_sound = is_sound && id.sequence <= kInt64Max;
  if (is_sound) {
    std::string_view rest = name.substr(kSequenceDigits);
    const std::string_view suffix = kSuffix;
    is_sound = rest.starts_with('-') && rest.ends_with(suffix) &&
               rest.size() > suffix.size();
    if (is_sound) {
      rest = rest.substr(1, rest.size() - 1 - suffix.size());
      is_sound = IsHexId(rest);
      id.generation = rest;
    }
  }
  if (is_sound) return id;
  return absl::InvalidArgumentError(fmt::format(
      "\"{}\" is not the name of a manifest (<20 digits>-<32 hex digits>{})",
      EscapeName(name), kSuffix));
}

std::string NewGeneration() {
  std::array<uint8_t, 16> random;
  ssize_t got = 0;
  do {
    got = ::getrandom(random.data(), random.size(), 0);
  } while (got < 0 && errno == EINTR);
  CAIRN_CHECK(got == static_cast<ssize_t>(random.size()));
  std::string generation;
  for (const uint8_t byte : random) {
    generation += fmt::format("{:02x}", byte);
  }
  return generation;
}

}  // namespace cairn
