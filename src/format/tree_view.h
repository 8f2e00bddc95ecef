// A directory tree as the recogniser sees it: names, sizes and bytes, never
// writes. The engine implements it over the accelerator tier; tests implement
// it in memory.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/byte_source.h"

namespace cairn {

enum class FileType { kFile, kDirectory, kSymlink, kOther };

struct TreeEntry {
  std::string name;  // One path component, raw bytes.
  FileType type = FileType::kFile;
  uint64_t size_bytes = 0;
  int64_t mtime_ns = 0;
};

// Paths are raw bytes, relative to the tier's root, "" for the root itself,
// components joined by '/'. Symlinks are never followed. One thread at a time.
class TreeView {
 public:
  virtual ~TreeView() = default;

  // Entries of the directory, sorted by name (as bytes). An absent directory is
  // kNotFound. The reserved `.cairn` at the root is never listed.
  virtual absl::StatusOr<std::vector<TreeEntry>> List(
      std::string_view directory) = 0;

  // kNotFound: no regular file of that name.
  virtual absl::StatusOr<std::unique_ptr<ByteSource>> Open(
      std::string_view file) = 0;
};

}  // namespace cairn
