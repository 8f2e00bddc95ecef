// A directory tree in memory, for tests of what only reads trees.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_source.h"
#include "format/tree_view.h"

namespace cairn {

// One thread at a time. Parents are made as they are needed.
class MemoryTree final : public TreeView {
 public:
  // What has no time of its own gets this.
  static constexpr int64_t kOldNs = int64_t{1'700'000'000} * 1'000'000'000;

  void Put(std::string_view path, std::string_view content,
           int64_t mtime_ns = kOldNs);
  void MakeDirectory(std::string_view path, int64_t mtime_ns = kOldNs);
  void MakeSymlink(std::string_view path);
  // The file, or the directory and all below it.
  void Remove(std::string_view path);
  // Of one file or directory.
  void SetTime(std::string_view path, int64_t mtime_ns);
  // Of all that lies below.
  void SetTimes(std::string_view directory, int64_t mtime_ns);
  // Every later call about this path fails with this.
  void FailAt(std::string_view path, absl::Status status);

  absl::StatusOr<std::vector<TreeEntry>> List(
      std::string_view directory) override;
  absl::StatusOr<std::unique_ptr<ByteSource>> Open(
      std::string_view file) override;

  int lists() const { return lists_; }
  int opens() const { return opens_; }
  int reads() const { return *reads_; }

 private:
  struct Node {
    TreeEntry entry;
    std::shared_ptr<const std::string> content;  // Outlives Put: open sources.
  };
  using Directory = std::map<std::string, Node, std::less<>>;

  Node* Find(std::string_view path);
  Node& Add(std::string_view path, FileType type, int64_t mtime_ns);

  std::map<std::string, Directory, std::less<>> directories_ = {{"", {}}};
  std::map<std::string, absl::Status, std::less<>> failures_;
  int lists_ = 0;
  int opens_ = 0;
  std::shared_ptr<int> reads_ =
      std::make_shared<int>(0);  // Open sources count.
};

}  // namespace cairn
