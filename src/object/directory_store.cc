#include "object/directory_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/crc64.h"
#include "base/digest.h"
#include "base/escape.h"
#include "base/kill_point.h"
#include "base/status_macros.h"
#include "object/directory_keys.h"
#include "object/directory_upload.h"

namespace cairn {
namespace {

// One directory on the way down of a listing.
struct Level {
  std::string path;  // "" or ending in '/'.
  std::vector<DirectoryEntry> entries;
  size_t next = 0;
};

// The entries of `path` that can be part of a key, in key order: a directory
// sorts as its name and a slash ("a.b" before "a/c"), and gets it here.
absl::StatusOr<Level> ReadLevel(const Root& root, std::string path) {
  const std::string_view directory(path.data(),
                                   path.empty() ? 0 : path.size() - 1);
  auto listed = root.List(directory);
  if (absl::IsNotFound(listed.status())) {
    return absl::UnavailableError(
        fmt::format("directory '{}' vanished while it was listed; list again",
                    EscapeName(root.FullPath(directory))));
  }
  CAIRN_RETURN_IF_ERROR(listed.status());
  std::vector<DirectoryEntry> entries = *std::move(listed);
  std::erase_if(entries, [&path](const DirectoryEntry& entry) {
    return (entry.stat.type != NodeType::kFile &&
            entry.stat.type != NodeType::kDirectory) ||
           (path.empty() && entry.name == kStoreDirectory);
  });
  for (DirectoryEntry& entry : entries) {
    if (entry.stat.type == NodeType::kDirectory) entry.name += '/';
  }
  std::sort(entries.begin(), entries.end(),
            [](const DirectoryEntry& a, const DirectoryEntry& b) {
              return a.name < b.name;
            });
  return Level{std::move(path), std::move(entries), 0};
}

// Makes a file that was opened buffered a direct one, where that is possible.
void MakeDirect(BlockFile* file) {
  const int flags = fcntl(file->fd.get(), F_GETFL);
  file->direct =
      flags >= 0 && fcntl(file->fd.get(), F_SETFL, flags | O_DIRECT) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryStore>> DirectoryStore::Open(
    const std::string& path, IoEngine* engine, bool create) {
  if (create) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) return PosixError(error.value(), "make directory", path);
  }
  CAIRN_ASSIGN_OR_RETURN(Root root, Root::Open(path));
  return std::unique_ptr<DirectoryStore>(
      new DirectoryStore(std::move(root), engine));
}

absl::Status DirectoryStore::Put(std::string_view key, ByteView content,
                                 const PutOptions& options) {
  CAIRN_RETURN_IF_ERROR(CheckKey(key));
  const uint64_t crc = Crc64Nvme(content);
  if (options.crc64_nvme.has_value() && *options.crc64_nvme != crc) {
    return absl::DataLossError(
        fmt::format("the content for object '{}' has CRC-64 {} and should have "
                    "{}; nothing was stored",
                    EscapeName(key), ToHex(crc), ToHex(*options.crc64_nvme)));
  }
  CAIRN_ASSIGN_OR_RETURN(TemporaryObject temporary,
                         files_.CreateTemporary(content.size()));
  CAIRN_RETURN_IF_ERROR(files_.WriteContent(temporary.file(), content, crc));
  CAIRN_RETURN_IF_ERROR(
      files_.MarkContent(temporary.file(), crc, options.barrier));
  // Network file systems report some failed writes only here.
  if (close(temporary.file().fd.Release()) != 0 && errno != EINTR) {
    return PosixError(errno, "write", temporary.file().path);
  }
  if (options.barrier) {
    CAIRN_RETURN_IF_ERROR(files_.root().SyncFileSystem());
  }
  CAIRN_KILL_POINT("store.put.before_publish");
  CAIRN_ASSIGN_OR_RETURN(const std::string place,
                         files_.Publish(temporary.path(), key));
  temporary.Published();
  CAIRN_KILL_POINT("store.put.after_publish");
  return options.barrier ? files_.SyncNames(place) : absl::OkStatus();
}

absl::StatusOr<OpenObjectPtr> DirectoryStore::OpenCached(std::string_view key) {
  uint64_t ticket = 0;
  OpenObjectPtr object = open_files_.Find(key, &ticket);
  if (object != nullptr) {
    // Another process may have removed it.
    const auto stat = Root::StatOpen(object->file);
    if (stat.ok() && stat->links > 0) return object;
    open_files_.Erase(key);
    object = open_files_.Find(key, &ticket);
    if (object != nullptr) return object;
  }
  CAIRN_ASSIGN_OR_RETURN(BlockFile file, files_.OpenObject(key));
  CAIRN_ASSIGN_OR_RETURN(const NodeStat stat, Root::StatOpen(file));
  if (stat.size_bytes >= DirectoryFiles::kDirectBytesMin) MakeDirect(&file);
  object = std::make_shared<const OpenObject>(
      OpenObject{std::move(file), stat.size_bytes});
  open_files_.Insert(key, object, ticket);
  return object;
}

absl::Status DirectoryStore::ReadAt(std::string_view key, uint64_t offset,
                                    MutableByteView out) {
  CAIRN_RETURN_IF_ERROR(CheckKey(key));
  CAIRN_ASSIGN_OR_RETURN(const OpenObjectPtr object, OpenCached(key));
  if (offset > object->size_bytes || out.size() > object->size_bytes - offset) {
    return absl::OutOfRangeError(
        fmt::format("object '{}' has {} bytes; {} from byte {} were asked for",
                    EscapeName(key), object->size_bytes, out.size(), offset));
  }
  return files_.ReadContent(object->file, offset, out);
}

absl::StatusOr<ObjectInfo> DirectoryStore::Stat(std::string_view key) {
  CAIRN_RETURN_IF_ERROR(CheckKey(key));
  CAIRN_ASSIGN_OR_RETURN(const BlockFile file, files_.OpenObject(key));
  CAIRN_ASSIGN_OR_RETURN(const NodeStat stat, Root::StatOpen(file));
  return ObjectInfo{std::string(key), stat.size_bytes, files_.CrcOf(file)};
}

absl::Status DirectoryStore::List(std::string_view prefix, Visitor visit) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> aside,
                         ListAside(prefix));
  auto next = aside.begin();
  const auto visit_merged = [&](const ObjectInfo& natural) -> absl::Status {
    for (; next != aside.end() && next->key <= natural.key; ++next) {
      if (next->key == natural.key) continue;  // See Publish: one place counts.
      CAIRN_RETURN_IF_ERROR(visit(*next));
    }
    return visit(natural);
  };
  CAIRN_RETURN_IF_ERROR(ListNatural(prefix, visit_merged));
  for (; next != aside.end(); ++next) CAIRN_RETURN_IF_ERROR(visit(*next));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ObjectInfo>> DirectoryStore::ListAside(
    std::string_view prefix) {
  std::vector<ObjectInfo> objects;
  const auto visit = [&](std::string_view path,
                         const NodeStat& stat) -> absl::Status {
    if (stat.type != NodeType::kFile) return absl::OkStatus();
    CAIRN_ASSIGN_OR_RETURN(std::string key, KeyOfAsidePath(path));
    if (!key.starts_with(prefix)) return absl::OkStatus();
    if (objects.size() >= kAsideKeysMax) {
      return absl::ResourceExhaustedError(fmt::format(
          "more than {} objects lie in '{}'; list a longer prefix",
          kAsideKeysMax, EscapeName(files_.root().FullPath(kAsideDirectory))));
    }
    objects.push_back({std::move(key), stat.size_bytes, std::nullopt});
    return absl::OkStatus();
  };
  CAIRN_ASSIGN_OR_RETURN(const bool any, files_.root().Exists(kAsideDirectory));
  if (!any) return objects;
  const absl::Status walked = files_.root().Walk(kAsideDirectory, visit);
  // Gone since: the last object in it was removed.
  if (!walked.ok() && !absl::IsNotFound(walked)) return walked;
  std::sort(
      objects.begin(), objects.end(),
      [](const ObjectInfo& a, const ObjectInfo& b) { return a.key < b.key; });
  return objects;
}

absl::Status DirectoryStore::ListNatural(std::string_view prefix,
                                         Visitor visit) {
  // No natural key has a prefix whose whole components are not natural.
  const size_t slash = prefix.rfind('/');
  const size_t start_bytes = slash == std::string_view::npos ? 0 : slash + 1;
  if (start_bytes > 0 && !IsNaturalKey(prefix.substr(0, start_bytes - 1))) {
    return absl::OkStatus();
  }
  if (start_bytes > 0) {
    const auto stat = files_.root().Stat(prefix.substr(0, start_bytes - 1));
    if (absl::IsNotFound(stat.status())) return absl::OkStatus();
    CAIRN_RETURN_IF_ERROR(stat.status());
    if (stat->type != NodeType::kDirectory) return absl::OkStatus();
  }
  CAIRN_ASSIGN_OR_RETURN(
      Level start,
      ReadLevel(files_.root(), std::string(prefix.substr(0, start_bytes))));

  std::vector<Level> levels;
  levels.push_back(std::move(start));
  while (!levels.empty()) {
    Level& level = levels.back();
    if (level.next == level.entries.size()) {
      levels.pop_back();
      continue;
    }
    const DirectoryEntry& entry = level.entries[level.next++];
    std::string path = level.path + entry.name;
    if (path.size() > kKeyBytesMax) continue;
    const std::string_view both =
        prefix.substr(0, std::min(prefix.size(), path.size()));
    if (!std::string_view(path).starts_with(both)) continue;
    if (entry.stat.type == NodeType::kDirectory) {
      CAIRN_ASSIGN_OR_RETURN(Level below,
                             ReadLevel(files_.root(), std::move(path)));
      levels.push_back(std::move(below));
    } else if (path.size() >= prefix.size()) {
      CAIRN_RETURN_IF_ERROR(
          visit({std::move(path), entry.stat.size_bytes, std::nullopt}));
    }
  }
  return absl::OkStatus();
}

absl::Status DirectoryStore::Remove(std::string_view key) {
  CAIRN_RETURN_IF_ERROR(CheckKey(key));
  const absl::Status removed = files_.RemoveObject(key);
  open_files_.Erase(key);
  CAIRN_KILL_POINT("store.remove");
  return removed;
}

absl::StatusOr<std::unique_ptr<Upload>> DirectoryStore::BeginUpload(
    std::string_view key, const UploadOptions& options) {
  return DirectoryUpload::Begin(&files_, key, options);
}

absl::StatusOr<std::unique_ptr<Upload>> DirectoryStore::ResumeUpload(
    std::string_view key, std::string_view token,
    const UploadOptions& options) {
  return DirectoryUpload::Resume(&files_, key, token, options);
}

absl::StatusOr<std::vector<UploadInfo>> DirectoryStore::ListUploads(
    std::string_view prefix) {
  return DirectoryUpload::List(&files_, prefix);
}

}  // namespace cairn
