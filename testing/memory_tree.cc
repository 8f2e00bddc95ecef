#include "testing/memory_tree.h"

#include <utility>

#include "base/bytes.h"

namespace cairn {
namespace {

class CountingSource final : public ByteSource {
 public:
  CountingSource(std::shared_ptr<const std::string> content,
                 std::shared_ptr<int> reads)
      : content_(std::move(content)),
        source_(AsBytes(*content_)),
        reads_(std::move(reads)) {}

  uint64_t SizeBytes() const override { return source_.SizeBytes(); }
  absl::Status ReadAt(uint64_t offset, MutableByteView out) override {
    ++*reads_;
    return source_.ReadAt(offset, out);
  }

 private:
  const std::shared_ptr<const std::string> content_;
  MemoryByteSource source_;
  const std::shared_ptr<int> reads_;
};

std::pair<std::string, std::string> Split(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {"", std::string(path)};
  return {std::string(path.substr(0, slash)),
          std::string(path.substr(slash + 1))};
}

bool IsBelow(std::string_view path, std::string_view directory) {
  return directory.empty() || path == directory ||
         (path.size() > directory.size() && path.starts_with(directory) &&
          path[directory.size()] == '/');
}

}  // namespace

MemoryTree::Node* MemoryTree::Find(std::string_view path) {
  const auto [parent, name] = Split(path);
  const auto directory = directories_.find(parent);
  if (directory == directories_.end()) return nullptr;
  const auto found = directory->second.find(name);
  return found == directory->second.end() ? nullptr : &found->second;
}

MemoryTree::Node& MemoryTree::Add(std::string_view path, FileType type,
                                  int64_t mtime_ns) {
  const auto [parent, name] = Split(path);
  if (!directories_.contains(parent)) MakeDirectory(parent);
  Node& node = directories_[parent][name];
  node.entry = {name, type, 0, mtime_ns};
  return node;
}

void MemoryTree::Put(std::string_view path, std::string_view content,
                     int64_t mtime_ns) {
  Node& node = Add(path, FileType::kFile, mtime_ns);
  node.entry.size_bytes = content.size();
  node.content = std::make_shared<const std::string>(content);
}

void MemoryTree::MakeDirectory(std::string_view path, int64_t mtime_ns) {
  Add(path, FileType::kDirectory, mtime_ns);
  directories_.try_emplace(std::string(path));
}

void MemoryTree::MakeSymlink(std::string_view path) {
  Add(path, FileType::kSymlink, kOldNs);
}

void MemoryTree::Remove(std::string_view path) {
  const auto [parent, name] = Split(path);
  directories_[parent].erase(name);
  std::erase_if(directories_, [&](const auto& directory) {
    return IsBelow(directory.first, path);
  });
}

void MemoryTree::SetTime(std::string_view path, int64_t mtime_ns) {
  if (Node* node = Find(path)) node->entry.mtime_ns = mtime_ns;
}

void MemoryTree::SetTimes(std::string_view directory, int64_t mtime_ns) {
  for (auto& [path, entries] : directories_) {
    if (!IsBelow(path, directory)) continue;
    for (auto& [name, node] : entries) node.entry.mtime_ns = mtime_ns;
  }
}

void MemoryTree::FailAt(std::string_view path, absl::Status status) {
  failures_[std::string(path)] = std::move(status);
}

absl::StatusOr<std::vector<TreeEntry>> MemoryTree::List(
    std::string_view directory) {
  ++lists_;
  if (const auto failure = failures_.find(directory);
      failure != failures_.end()) {
    return failure->second;
  }
  const auto found = directories_.find(directory);
  if (found == directories_.end()) {
    return absl::NotFoundError("no such directory: " + std::string(directory));
  }
  std::vector<TreeEntry> entries;
  for (const auto& [name, node] : found->second) {
    if (directory.empty() && name == ".cairn") continue;
    entries.push_back(node.entry);
  }
  return entries;
}

absl::StatusOr<std::unique_ptr<ByteSource>> MemoryTree::Open(
    std::string_view file) {
  ++opens_;
  if (const auto failure = failures_.find(file); failure != failures_.end()) {
    return failure->second;
  }
  const Node* node = Find(file);
  if (node == nullptr || node->entry.type != FileType::kFile) {
    return absl::NotFoundError("no such file: " + std::string(file));
  }
  return std::make_unique<CountingSource>(node->content, reads_);
}

}  // namespace cairn
