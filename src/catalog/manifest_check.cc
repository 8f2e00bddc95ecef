#include "catalog/manifest_check.h"

#include <algorithm>

#include "base/digest.h"
#include "base/escape.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr size_t kKeyBytesMax = 1024;  // What S3 and Azure take.
constexpr char kReserved[] = ".cairn";

absl::Status Fault(std::string_view what) {
  return absl::InvalidArgumentError(std::string(what));
}

absl::Status Fault(const ManifestNode& node, std::string_view what) {
  return Fault(fmt::format("\"{}\": {}", EscapeName(node.path), what));
}

bool IsReserved(std::string_view path) {
  return path.substr(0, path.find('/')) == kReserved;
}

std::optional<std::string> TextFault(std::string_view text, size_t bytes_max) {
  if (text.find('\0') != std::string_view::npos) return "has a NUL byte";
  if (text.size() <= bytes_max) return std::nullopt;
  return fmt::format("is longer than {} bytes", bytes_max);
}

absl::Status CheckLabels(const ManifestHead& head) {
  if (head.labels.size() > kLabelsMax) {
    return Fault(fmt::format("{} labels; at most {} can be kept",
                             head.labels.size(), kLabelsMax));
  }
  for (const auto& [name, value] : head.labels) {
    if (name.size() > kLabelBytesMax || value.size() > kLabelBytesMax) {
      return Fault(fmt::format("the label \"{}\" is longer than {} bytes",
                               EscapeName(name.substr(0, 64)), kLabelBytesMax));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPointers(const ManifestHead& head) {
  if (head.pointers.size() > kPointersMax) {
    return Fault(fmt::format("{} pointer files; at most {} can be kept",
                             head.pointers.size(), kPointersMax));
  }
  for (const auto& [path, content] : head.pointers) {
    std::optional<std::string> fault = PathFault(path);
    if (path.empty()) fault = "has no name";
    if (IsReserved(path)) fault = "is reserved";
    if (content.size() > kPointerBytesMax) {
      fault = fmt::format("is longer than {} bytes", kPointerBytesMax);
    }
    if (fault.has_value()) {
      return Fault(
          fmt::format("the pointer file \"{}\" {}", EscapeName(path), *fault));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<std::string> PathFault(std::string_view path) {
  if (path.empty()) return std::nullopt;
  if (auto fault = TextFault(path, kPathBytesMax)) return fault;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view component = path.substr(at, end - at);
    if (component.empty()) return "is absolute or has an empty component";
    if (component == "." || component == "..") {
      return fmt::format("has the component \"{}\"", component);
    }
    at = end + 1;
  }
  return std::nullopt;
}

bool IsHexId(std::string_view text) {
  constexpr size_t kDigits = 32;
  return text.size() == kDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

absl::Status ManifestChecker::CheckHead() const {
  const ManifestHead& head = manifest_.head;
  const std::string path = manifest_.CheckpointPath();
  std::optional<std::string> fault = PathFault(path);
  if (head.name.empty()) fault = "has no name";
  if (auto run_fault = PathFault(head.run)) fault = run_fault;
  if (IsReserved(path)) fault = "begins with the reserved name .cairn";
  if (fault.has_value()) {
    return Fault(
        fmt::format("the checkpoint \"{}\" {}", EscapeName(path), *fault));
  }
  if (!IsHexId(head.generation)) {
    return Fault(fmt::format("the generation \"{}\" is not 32 hex digits",
                             EscapeName(head.generation)));
  }
  if (head.sequence > kInt64Max) {
    return Fault(
        fmt::format("the sequence {} is beyond 2^63-1", head.sequence));
  }
  if (auto marker_fault = PathFault(head.marker)) {
    return Fault(fmt::format("the marker \"{}\" {}", EscapeName(head.marker),
                             *marker_fault));
  }
  CAIRN_RETURN_IF_ERROR(CheckLabels(head));
  return CheckPointers(head);
}

absl::Status ManifestChecker::CheckNextNode() {
  const ManifestNode& node = manifest_.nodes[checked_];
  CAIRN_RETURN_IF_ERROR(CheckPlace(node));
  CAIRN_RETURN_IF_ERROR(CheckAncestors(node));
  CAIRN_RETURN_IF_ERROR(CheckTarget(node));
  CAIRN_RETURN_IF_ERROR(CheckContent(node));
  ++checked_;
  return absl::OkStatus();
}

absl::Status ManifestChecker::CheckPlace(const ManifestNode& node) {
  if (checked_ >= kManifestNodesMax) {
    return Fault(
        fmt::format("more than {} files and directories", kManifestNodesMax));
  }
  if (auto fault = PathFault(node.path)) {
    return Fault(node, "the path " + *fault);
  }
  if (checked_ > 0 && manifest_.nodes[checked_ - 1].path >= node.path) {
    return Fault(node, "the paths are not in ascending order");
  }
  if (node.path.empty() && node.type != ManifestNodeType::kDirectory) {
    return Fault(node, "the base is not a directory");
  }
  const bool is_at_root =
      !manifest_.head.is_directory && manifest_.head.run.empty();
  if (is_at_root && IsReserved(node.path)) {
    return Fault(node, "the name .cairn is reserved");
  }
  if (node.mode > 07777) {
    return Fault(node, fmt::format("the mode {:o} is beyond 7777", node.mode));
  }
  return absl::OkStatus();
}

absl::Status ManifestChecker::CheckAncestors(const ManifestNode& node) {
  const size_t slash = node.path.rfind('/');
  if (slash == std::string::npos) return absl::OkStatus();
  const std::string_view parent = std::string_view(node.path).substr(0, slash);
  if (parent_ == parent) return absl::OkStatus();
  for (size_t end = slash; end != std::string::npos && end > 0;
       end = node.path.rfind('/', end - 1)) {
    const auto ancestor = std::string_view(node.path).substr(0, end);
    const ManifestNode* const found = FindBefore(ancestor);
    if (found != nullptr && found->type != ManifestNodeType::kDirectory) {
      return Fault(node, fmt::format("it lies below \"{}\", which is not a "
                                     "directory",
                                     EscapeName(ancestor)));
    }
  }
  parent_ = parent;
  return absl::OkStatus();
}

absl::Status ManifestChecker::CheckTarget(const ManifestNode& node) const {
  switch (node.type) {
    case ManifestNodeType::kFile:
    case ManifestNodeType::kDirectory:
      if (node.target.empty()) return absl::OkStatus();
      return Fault(node, "it has a target but is no link");
    case ManifestNodeType::kSymlink:
      if (node.target.empty()) return Fault(node, "the target is empty");
      if (auto fault = TextFault(node.target, kPathBytesMax)) {
        return Fault(node, "the target " + *fault);
      }
      return absl::OkStatus();
    case ManifestNodeType::kHardLink:
      break;
  }
  const ManifestNode* const first = FindBefore(node.target);
  if (first != nullptr && first->type == ManifestNodeType::kFile) {
    return absl::OkStatus();
  }
  return Fault(node,
               fmt::format("its first name \"{}\" is not a file before it",
                           EscapeName(node.target)));
}

absl::Status ManifestChecker::CheckContent(const ManifestNode& node) {
  if (node.type != ManifestNodeType::kFile) {
    files_ += node.type == ManifestNodeType::kHardLink ? 1 : 0;
    const bool is_bare = node.size_bytes == 0 && node.blocks.empty() &&
                         !node.extents.has_value() && node.key.empty();
    return is_bare ? absl::OkStatus()
                   : Fault(node, "it has content but is not a file");
  }
  if (node.size_bytes > kInt64Max - bytes_) {
    return Fault(node, fmt::format("with its size of {} bytes, the checkpoint "
                                   "is larger than 2^63-1 bytes",
                                   node.size_bytes));
  }
  ++files_;
  bytes_ += node.size_bytes;
  const uint64_t blocks = DigestBlockCount(node.size_bytes);
  if (!node.blocks.empty() && node.blocks.size() != blocks) {
    return Fault(node, fmt::format("{} digests for {} blocks",
                                   node.blocks.size(), blocks));
  }
  blocks_ += blocks;
  if (blocks_ > kManifestBlocksMax) {
    return Fault(node, fmt::format("more than {} digest blocks in one "
                                   "checkpoint",
                                   kManifestBlocksMax));
  }
  if (node.extents.has_value()) {
    uint64_t end = 0;
    for (const ManifestExtent& extent : *node.extents) {
      const bool is_sound =
          extent.offset >= end && extent.offset <= node.size_bytes &&
          extent.size_bytes > 0 &&
          extent.size_bytes <= node.size_bytes - extent.offset;
      if (!is_sound) return Fault(node, "its extents overlap or pass its end");
      end = extent.offset + extent.size_bytes;
    }
    extents_ += node.extents->size();
    if (extents_ > kManifestExtentsMax) {
      return Fault(node, fmt::format("more than {} extents in one checkpoint",
                                     kManifestExtentsMax));
    }
  }
  std::optional<std::string> fault = PathFault(node.key);
  if (!fault.has_value()) fault = TextFault(node.key, kKeyBytesMax);
  if (fault.has_value()) return Fault(node, "its object key " + *fault);
  return absl::OkStatus();
}

const ManifestNode* ManifestChecker::FindBefore(std::string_view path) const {
  const auto end = manifest_.nodes.begin() + static_cast<ptrdiff_t>(checked_);
  const auto found =
      std::lower_bound(manifest_.nodes.begin(), end, path,
                       [](const ManifestNode& node, std::string_view wanted) {
                         return node.path < wanted;
                       });
  return found != end && found->path == path ? &*found : nullptr;
}

}  // namespace cairn
