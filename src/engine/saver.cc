#include "engine/saver.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/escape.h"
#include "base/kill_point.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "engine/block_reader.h"
#include "engine/checkpoint_files.h"
#include "engine/committer.h"
#include "engine/locks.h"
#include "engine/restorer.h"
#include "engine/staging.h"
#include "engine/workers.h"

namespace cairn {
namespace {

class DirectorySource final : public ContentSource {
 public:
  DirectorySource(Context* context, const Root* root)
      : context_(*context), root_(*root) {}

  absl::Status Read(const ManifestNode& node, uint64_t offset,
                    MutableByteView out) override {
    CAIRN_ASSIGN_OR_RETURN(const BlockFile file, root_.OpenForRead(node.path));
    // The buffer behind `out` has room for whole pages (ContentSource::Read).
    return context_.io->Read(
        file, offset, out.size(),
        MutableByteView(out.data(), RoundUpToDirect(out.size())));
  }

  std::string Describe(const ManifestNode& node) const override {
    return EscapeName(root_.FullPath(node.path)) +
           " changed while it was being saved; it";
  }

 private:
  Context& context_;
  const Root& root_;
};

// Nodes of the source with their digests.
absl::StatusOr<std::vector<ManifestNode>> ReadSource(Context& context,
                                                     const Root& root) {
  std::vector<LiveNode> live;
  CAIRN_ASSIGN_OR_RETURN(const NodeStat base, root.Stat(""));
  live.push_back({"", base});
  CAIRN_RETURN_IF_ERROR(
      root.Walk("", [&](std::string_view path, const NodeStat& stat) {
        live.push_back({std::string(path), stat});
        return absl::OkStatus();
      }));
  CAIRN_ASSIGN_OR_RETURN(std::vector<ManifestNode> nodes,
                         NodesIn(context, root, "", std::move(live)));
  Workers workers(context.threads);
  for (ManifestNode& node : nodes) {
    if (node.type != ManifestNodeType::kFile) continue;
    workers.Submit([&context, &root, &node]() -> absl::Status {
      CAIRN_ASSIGN_OR_RETURN(const BlockReader reader,
                             BlockReader::OpenIn(context, root, node.path));
      if (reader.size_bytes() != node.size_bytes) {
        return absl::UnavailableError(fmt::format(
            "{} changed while it was being saved", EscapeName(node.path)));
      }
      const Buffer buffer = context.buffers->Get();
      for (uint64_t i = 0; i < DigestBlockCount(node.size_bytes); ++i) {
        CAIRN_ASSIGN_OR_RETURN(BlockDigest digest,
                               reader.Digest(i, buffer.bytes()));
        node.blocks.push_back(std::move(digest));
      }
      return absl::OkStatus();
    });
  }
  CAIRN_RETURN_IF_ERROR(workers.Wait());
  return nodes;
}

absl::StatusOr<Manifest> DescribeSource(Context& context, std::string_view path,
                                        const Root& root,
                                        const SaveOptions& options) {
  Manifest manifest;
  ManifestHead& head = manifest.head;
  const size_t slash = path.rfind('/');
  head.run = slash == std::string_view::npos ? "" : path.substr(0, slash);
  head.name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  head.generation = NewGeneration();
  head.framework = options.framework;
  head.step = options.step;
  head.epoch = options.epoch;
  head.origin = "save";
  head.labels = options.labels;
  head.created_ns = context.NowNs();
  head.marker_mtime_ns = head.created_ns;
  CAIRN_ASSIGN_OR_RETURN(manifest.nodes, ReadSource(context, root));
  return manifest;
}

absl::Status CheckNotInsideAnother(Context& context, std::string_view path) {
  for (size_t slash = path.find('/'); slash != std::string_view::npos;
       slash = path.find('/', slash + 1)) {
    const std::string_view above = path.substr(0, slash);
    absl::StatusOr<CheckpointRecord> found = FindCheckpoint(context, above, "");
    if (found.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("{} lies inside the checkpoint {}; choose another name",
                      EscapeName(path), EscapeName(above)));
    }
    if (!absl::IsNotFound(found.status())) return found.status();
  }
  return absl::OkStatus();
}

// A save is not resumed (its source may be another by now), so what dead ones
// left only takes space.
absl::Status RemoveDeadSaves(Context& context) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<StagingLeftover> leftovers,
                         ListStagingLeftovers(context));
  const std::string prefix = std::string(kStagingDirectory) + "/save-";
  for (const StagingLeftover& leftover : leftovers) {
    if (!leftover.directory.starts_with(prefix)) continue;
    CAIRN_RETURN_IF_ERROR(RemoveStagingLeftover(context, leftover));
  }
  return absl::OkStatus();
}

absl::Status CheckFits(Context& context, const Manifest& manifest) {
  CAIRN_ASSIGN_OR_RETURN(const Root::Space space,
                         context.accelerator->FreeSpace());
  const uint64_t needed = manifest.TotalBytes();
  if (needed <= space.free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "{} needs {}, and {} has {} free; run `cairn sweep` for leftovers of "
      "dead "
      "saves, or release older checkpoints",
      EscapeName(manifest.CheckpointPath()), FormatBytesBoth(needed),
      EscapeName(context.accelerator->path()),
      FormatBytesBoth(space.free_bytes)));
}

}  // namespace

absl::StatusOr<CheckpointRecord> SaveDirectory(Context& context,
                                               std::string_view path,
                                               const std::string& source,
                                               const SaveOptions& options) {
  CAIRN_RETURN_IF_ERROR(CheckRelativePath(path));
  CAIRN_ASSIGN_OR_RETURN(
      const Lock lock,
      Lock::OfCheckpoint(context.options.state_dir, path, "save"));
  CAIRN_RETURN_IF_ERROR(CheckNotInsideAnother(context, path));
  CAIRN_ASSIGN_OR_RETURN(const bool taken, context.accelerator->Exists(path));
  if (taken) {
    return absl::AlreadyExistsError(fmt::format(
        "{} is already there; nothing was overwritten", EscapeName(path)));
  }
  CAIRN_ASSIGN_OR_RETURN(const Root root, Root::Open(source));
  CAIRN_ASSIGN_OR_RETURN(Manifest manifest,
                         DescribeSource(context, path, root, options));
  CAIRN_RETURN_IF_ERROR(RemoveDeadSaves(context));
  CAIRN_RETURN_IF_ERROR(CheckFits(context, manifest));
  CAIRN_ASSIGN_OR_RETURN(
      Staging staging,
      Staging::Take(context, "save-" + manifest.head.generation));
  DirectorySource content(&context, &root);
  TreeRestore tree(&context, &manifest, &staging, &content);
  context.observer->OnStart("save " + EscapeName(path), manifest.TotalBytes(),
                            manifest.FileCount());
  absl::Status copied = tree.Run();
  context.observer->OnFinish();
  if (absl::IsDataLoss(copied)) {
    // The second read did not match the first: it is being written to.
    copied = absl::UnavailableError(Message(copied));
  }
  if (copied.ok()) {
    CAIRN_ASSIGN_OR_RETURN(const Lock commits,
                           Lock::OfCommits(context.options.state_dir));
    CAIRN_ASSIGN_OR_RETURN(manifest.head.sequence,
                           NextSequence(context, manifest.head.run));
    copied = staging.Publish(manifest, /*replace=*/false);
    if (copied.ok()) {
      const int64_t known_ns = context.NowNs();
      CAIRN_ASSIGN_OR_RETURN(const std::vector<LiveNode> live,
                             LookAt(*context.accelerator, ShapeOf(manifest)));
      CAIRN_RETURN_IF_ERROR(RecordPresent(context, manifest, live, known_ns));
      CAIRN_RETURN_IF_ERROR(staging.Discard());
      return context.catalog->Get(manifest.head.generation);
    }
  }
  CAIRN_RETURN_IF_ERROR(staging.Discard());
  return copied;
}

}  // namespace cairn
