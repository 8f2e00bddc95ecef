#include "engine/staging.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/escape.h"
#include "base/kill_point.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "engine/checkpoint_files.h"

namespace cairn {
namespace {

constexpr char kLockFile[] = "/lock";
constexpr char kTree[] = "/tree";
constexpr char kReplaced[] = "/replaced";
constexpr char kReplaceFlag[] = "/replace";
constexpr char kDecision[] = "/publish.jsonl.zst";
constexpr uint64_t kDecisionBytesMax = uint64_t{4} << 30;

// The lock file of an attempt, locked. kUnavailable: its owner is alive.
absl::StatusOr<UniqueFd> TakeLock(const Root& root,
                                  const std::string& directory) {
  const std::string path = directory + kLockFile;
  absl::StatusOr<BlockFile> file = root.OpenForUpdate(path, /*direct=*/false);
  if (absl::IsNotFound(file.status())) {
    file = root.CreateForWrite(path, /*direct=*/false);
    // Another process was first: then it is there now.
    if (absl::IsAlreadyExists(file.status())) {
      file = root.OpenForUpdate(path, /*direct=*/false);
    }
  }
  CAIRN_RETURN_IF_ERROR(file.status());
  if (flock(file->fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return PosixError(errno, "lock", file->path);
    return absl::UnavailableError(fmt::format(
        "{} belongs to a process that is alive", EscapeName(directory)));
  }
  return std::move(file->fd);
}

// What has to be renamed to publish: the directory itself, or each of the
// files, the framework's marker last.
std::vector<std::string> NamesToMove(const Manifest& manifest) {
  if (manifest.head.is_directory) return {""};
  std::vector<std::string> names;
  for (const ManifestNode& node : manifest.nodes) {
    if (node.path != manifest.head.marker) names.push_back(node.path);
  }
  if (names.size() < manifest.nodes.size()) {
    names.push_back(manifest.head.marker);
  }
  return names;
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// Takes what lies at the place of `name` out of the way, into the attempt.
absl::Status MoveAside(const Root& root, const std::string& directory,
                       const std::string& place, const std::string& name) {
  CAIRN_ASSIGN_OR_RETURN(const bool there, root.Exists(place));
  if (!there) return absl::OkStatus();
  const std::string to = JoinPath(directory + kReplaced, name);
  CAIRN_RETURN_IF_ERROR(root.MakeDirectories(ParentOf(to)));
  CAIRN_RETURN_IF_ERROR(root.Rename(place, to, /*replace=*/false));
  CAIRN_KILL_POINT("publish.after_move_aside");
  return absl::OkStatus();
}

// Everything from the decision on; safe to repeat from any point.
absl::Status FinishPublication(Context& context, const std::string& directory,
                               const Manifest& manifest) {
  const Root& root = *context.accelerator;
  CAIRN_ASSIGN_OR_RETURN(const bool replace,
                         root.Exists(directory + kReplaceFlag));
  for (const std::string& name : NamesToMove(manifest)) {
    const std::string from = JoinPath(directory + kTree, name);
    const std::string to = JoinPath(manifest.BasePath(), name);
    CAIRN_ASSIGN_OR_RETURN(const bool waiting, root.Exists(from));
    if (!waiting)
      continue;  // Moved by an earlier try: what lies there is ours.
    CAIRN_RETURN_IF_ERROR(root.MakeDirectories(ParentOf(to)));
    if (replace) CAIRN_RETURN_IF_ERROR(MoveAside(root, directory, to, name));
    CAIRN_RETURN_IF_ERROR(root.Rename(from, to, /*replace=*/false));
    CAIRN_KILL_POINT("publish.after_rename");
    CAIRN_RETURN_IF_ERROR(root.SyncDirectory(ParentOf(to)));
  }
  CAIRN_RETURN_IF_ERROR(root.SyncDirectory(directory));
  CAIRN_KILL_POINT("publish.before_manifest");
  CAIRN_RETURN_IF_ERROR(
      WriteAcceleratorManifest(context, manifest, /*replace=*/true));
  CAIRN_KILL_POINT("publish.after_manifest");
  return absl::OkStatus();
}

absl::Status CheckPlaceIsFree(const Root& root, const Manifest& manifest) {
  for (const std::string& name : NamesToMove(manifest)) {
    const std::string place = JoinPath(manifest.BasePath(), name);
    CAIRN_ASSIGN_OR_RETURN(const bool there, root.Exists(place));
    if (there) {
      return absl::AlreadyExistsError(fmt::format(
          "{} is already there; nothing was overwritten", EscapeName(place)));
    }
  }
  return absl::OkStatus();
}

// The decision first: what is half removed must not be taken for half
// published.
absl::Status RemoveAttempt(const Root& root, const std::string& directory) {
  CAIRN_RETURN_IF_ERROR(root.RemoveFile(directory + kDecision));
  CAIRN_RETURN_IF_ERROR(root.RemoveTree(directory));
  return root.SyncDirectory(kStagingDirectory);
}

absl::StatusOr<Manifest> ReadDecision(const Root& root,
                                      const std::string& directory) {
  CAIRN_ASSIGN_OR_RETURN(
      const std::string content,
      root.ReadSmallFile(directory + kDecision, kDecisionBytesMax));
  return DecodeManifest(AsBytes(content));
}

}  // namespace

Staging::Staging(Context* context, std::string directory, UniqueFd lock,
                 bool resumed)
    : context_(context),
      directory_(std::move(directory)),
      lock_(std::move(lock)),
      resumed_(resumed) {}

absl::StatusOr<Staging> Staging::Take(Context& context,
                                      std::string_view attempt) {
  const Root& root = *context.accelerator;
  std::string directory =
      std::string(kStagingDirectory) + "/" + std::string(attempt);
  CAIRN_RETURN_IF_ERROR(root.MakeDirectories(directory));
  CAIRN_ASSIGN_OR_RETURN(UniqueFd lock, TakeLock(root, directory));
  CAIRN_ASSIGN_OR_RETURN(const bool resumed, root.Exists(directory + kTree));
  return Staging(&context, std::move(directory), std::move(lock), resumed);
}

std::string Staging::TreePath(std::string_view node) const {
  return JoinPath(directory_ + kTree, node);
}

absl::Status Staging::Publish(const Manifest& manifest, bool replace) {
  const Root& root = *context_->accelerator;
  if (replace) {
    CAIRN_RETURN_IF_ERROR(
        root.WriteFileDurably(directory_ + kReplaceFlag, {}, /*replace=*/true));
  } else {
    CAIRN_RETURN_IF_ERROR(CheckPlaceIsFree(root, manifest));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string encoded, EncodeManifest(manifest));
  CAIRN_KILL_POINT("publish.before_decision");
  CAIRN_RETURN_IF_ERROR(root.WriteFileDurably(
      directory_ + kDecision, AsBytes(encoded), /*replace=*/true));
  CAIRN_KILL_POINT("publish.after_decision");
  absl::Status finished = FinishPublication(*context_, directory_, manifest);
  if (absl::IsAlreadyExists(finished)) {
    // Somebody took the place meanwhile: nothing of ours was published there.
    CAIRN_RETURN_IF_ERROR(root.RemoveFile(directory_ + kDecision));
  }
  return finished;
}

absl::Status Staging::Discard() {
  return RemoveAttempt(*context_->accelerator, directory_);
}

absl::Status RecoverStaging(
    Context& context, absl::FunctionRef<absl::Status(const Manifest&)> record) {
  const Root& root = *context.accelerator;
  absl::StatusOr<std::vector<DirectoryEntry>> attempts =
      root.List(kStagingDirectory);
  if (absl::IsNotFound(attempts.status())) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(attempts.status());
  for (const DirectoryEntry& attempt : *attempts) {
    if (attempt.stat.type != NodeType::kDirectory) continue;
    const std::string directory =
        std::string(kStagingDirectory) + "/" + attempt.name;
    CAIRN_ASSIGN_OR_RETURN(const bool decided,
                           root.Exists(directory + kDecision));
    if (!decided) continue;
    absl::StatusOr<UniqueFd> lock = TakeLock(root, directory);
    if (absl::IsUnavailable(lock.status())) continue;  // Its owner will finish.
    CAIRN_RETURN_IF_ERROR(lock.status());
    CAIRN_ASSIGN_OR_RETURN(const Manifest manifest,
                           ReadDecision(root, directory));
    absl::Status finished = FinishPublication(context, directory, manifest);
    if (absl::IsAlreadyExists(finished)) {
      context.observer->OnNotice(
          fmt::format("an interrupted restore or save of {} was given up: its "
                      "place is taken",
                      EscapeName(manifest.CheckpointPath())));
      CAIRN_RETURN_IF_ERROR(root.RemoveFile(directory + kDecision));
      continue;
    }
    CAIRN_RETURN_IF_ERROR(finished);
    CAIRN_RETURN_IF_ERROR(record(manifest));
    CAIRN_RETURN_IF_ERROR(RemoveAttempt(root, directory));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StagingLeftover>> ListStagingLeftovers(
    Context& context) {
  const Root& root = *context.accelerator;
  std::vector<StagingLeftover> leftovers;
  absl::StatusOr<std::vector<DirectoryEntry>> attempts =
      root.List(kStagingDirectory);
  if (absl::IsNotFound(attempts.status())) return leftovers;
  CAIRN_RETURN_IF_ERROR(attempts.status());
  for (const DirectoryEntry& attempt : *attempts) {
    StagingLeftover leftover;
    leftover.directory = std::string(kStagingDirectory) + "/" + attempt.name;
    leftover.newest_mtime_ns = attempt.stat.mtime_ns;
    if (attempt.stat.type == NodeType::kDirectory) {
      absl::StatusOr<UniqueFd> lock = TakeLock(root, leftover.directory);
      if (absl::IsUnavailable(lock.status())) continue;
      CAIRN_RETURN_IF_ERROR(lock.status());
      CAIRN_RETURN_IF_ERROR(root.Walk(
          leftover.directory, [&](std::string_view, const NodeStat& stat) {
            if (stat.type == NodeType::kFile) {
              leftover.bytes += stat.allocated_bytes;
            }
            leftover.newest_mtime_ns =
                std::max(leftover.newest_mtime_ns, stat.mtime_ns);
            return absl::OkStatus();
          }));
    }
    leftovers.push_back(std::move(leftover));
  }
  return leftovers;
}

absl::Status RemoveStagingLeftover(Context& context,
                                   const StagingLeftover& leftover) {
  const Root& root = *context.accelerator;
  CAIRN_ASSIGN_OR_RETURN(const NodeStat stat, root.Stat(leftover.directory));
  if (stat.type != NodeType::kDirectory) {
    return root.RemoveFile(leftover.directory);
  }
  // Held while it goes, so that nobody resumes what is half removed.
  CAIRN_ASSIGN_OR_RETURN(const UniqueFd lock,
                         TakeLock(root, leftover.directory));
  return root.RemoveTree(leftover.directory);
}

}  // namespace cairn
