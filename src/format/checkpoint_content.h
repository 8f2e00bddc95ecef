// All that lies below one checkpoint, listed once: what the checks
// (content_checks.h) look at.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/path.h"
#include "format/tree_view.h"

namespace cairn {

// More than this is no checkpoint that anybody writes, and bounds the memory of
// one examination (about 100 bytes a file).
inline constexpr size_t kCheckpointFilesMax = 4'000'000;
inline constexpr int kCheckpointDepthMax = 32;

struct ContentFile {
  std::string path;  // Relative to the base.
  uint64_t size_bytes = 0;
  int64_t mtime_ns = 0;
};

struct ContentDirectory {
  std::string path;  // Relative to the base; "" for the base itself.
  std::vector<TreeEntry> entries;
};

// Immutable after creation.
class CheckpointContent {
 public:
  // The directory `base`, whose own entries are known already, and all below
  // it. A subdirectory that vanishes meanwhile is left out. kResourceExhausted:
  // past the limits above.
  static absl::StatusOr<CheckpointContent> Walk(TreeView& tree,
                                                std::string base,
                                                std::vector<TreeEntry> entries);
  // Some files of the directory `base`.
  static CheckpointContent OfFiles(std::string base,
                                   std::vector<TreeEntry> entries);

  const std::string& base() const { return base_; }
  const std::vector<ContentFile>& files() const { return files_; }  // Sorted.
  const std::vector<ContentDirectory>& directories() const {
    return directories_;
  }
  const ContentFile* Find(std::string_view path) const;  // nullptr: not there.
  // Of any file or directory; 0 when there is none.
  int64_t newest_mtime_ns() const { return newest_mtime_ns_; }

 private:
  void Add(std::string path, std::vector<TreeEntry> entries);
  void Sort();

  std::string base_;
  std::vector<ContentFile> files_;
  std::vector<ContentDirectory> directories_;
  int64_t newest_mtime_ns_ = 0;
};
bool HasSuffix(std::string_view text, std::string_view suffix);

}  // namespace cairn
