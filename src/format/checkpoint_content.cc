#include "format/checkpoint_content.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/escape.h"
#include "fmt/format.h"

namespace cairn {

bool HasSuffix(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
         text.substr(text.size() - suffix.size()) == suffix;
}

void CheckpointContent::Add(std::string path, std::vector<TreeEntry> entries) {
  for (const TreeEntry& entry : entries) {
    if (entry.type == FileType::kFile) {
      files_.push_back(
          {JoinPath(path, entry.name), entry.size_bytes, entry.mtime_ns});
    }
    if (entry.type == FileType::kFile || entry.type == FileType::kDirectory) {
      newest_mtime_ns_ = std::max(newest_mtime_ns_, entry.mtime_ns);
    }
  }
  directories_.push_back({std::move(path), std::move(entries)});
}

void CheckpointContent::Sort() {
  std::sort(files_.begin(), files_.end(),
            [](const ContentFile& a, const ContentFile& b) {
              return a.path < b.path;
            });
}

absl::StatusOr<CheckpointContent> CheckpointContent::Walk(
    TreeView& tree, std::string base, std::vector<TreeEntry> entries) {
  CheckpointContent content;
  content.base_ = std::move(base);
  content.Add("", std::move(entries));
  const auto too_large = [&](std::string_view what) {
    return absl::ResourceExhaustedError(
        fmt::format("'{}' has more than {}: too much for one checkpoint",
                    EscapeName(content.base_), what));
  };
  // Breadth first; directories_ is the queue.
  for (size_t next = 0; next < content.directories_.size(); ++next) {
    const std::string parent = content.directories_[next].path;
    const auto depth = std::count(parent.begin(), parent.end(), '/');
    std::vector<std::string> children;
    for (const TreeEntry& entry : content.directories_[next].entries) {
      if (entry.type == FileType::kDirectory) children.push_back(entry.name);
    }
    if (!children.empty() && depth + 1 >= kCheckpointDepthMax) {
      return too_large(
          fmt::format("{} levels of directories", kCheckpointDepthMax));
    }
    for (const std::string& child : children) {
      const std::string path = JoinPath(parent, child);
      auto listed = tree.List(JoinPath(content.base_, path));
      if (absl::IsNotFound(listed.status())) continue;
      if (!listed.ok()) return listed.status();
      content.Add(path, *std::move(listed));
      if (content.files_.size() + content.directories_.size() >
          kCheckpointFilesMax) {
        return too_large(fmt::format("{} files", kCheckpointFilesMax));
      }
    }
  }
  content.Sort();
  return content;
}

CheckpointContent CheckpointContent::OfFiles(std::string base,
                                             std::vector<TreeEntry> entries) {
  CheckpointContent content;
  content.base_ = std::move(base);
  content.Add("", std::move(entries));
  content.Sort();
  return content;
}

const ContentFile* CheckpointContent::Find(std::string_view path) const {
  const auto found =
      std::lower_bound(files_.begin(), files_.end(), path,
                       [](const ContentFile& file, std::string_view wanted) {
                         return std::string_view(file.path) < wanted;
                       });
  return found != files_.end() && found->path == path ? &*found : nullptr;
}

}  // namespace cairn
