#include "engine/sweeper.h"

#include <fmt/format.h>

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/escape.h"
#include "base/kill_point.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "engine/checkpoint_files.h"
#include "engine/staging.h"

namespace cairn {
namespace {

constexpr char kManifestsPrefix[] = ".cairn/manifests/";
constexpr char kOurDirectory[] = ".cairn";
// A small file that is being written has such a name for a moment. Another host
// may be writing one just now.
constexpr char kTemporaryPrefix[] = ".tmp-";
constexpr absl::Duration kTemporaryAgeMin = absl::Minutes(1);

// Every key that a manifest on the core tier names. A manifest that can't be
// read stops the sweep: we can't tell what it needs.
absl::StatusOr<std::unordered_set<std::string>> NamedKeys(Context& context) {
  std::unordered_set<std::string> keys;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> records,
                         context.catalog->All());
  for (const CheckpointRecord& record : records) {
    if (!record.core.manifest) continue;
    absl::StatusOr<Manifest> manifest = ReadCoreManifest(context, record);
    if (!manifest.ok()) {
      return Annotate(manifest.status(),
                      "nothing was swept from the core tier, as a manifest "
                      "cannot be read");
    }
    for (const ManifestNode& node : manifest->nodes) {
      if (node.type == ManifestNodeType::kFile) {
        keys.insert(KeyOf(*manifest, node));
      }
    }
  }
  return keys;
}

// The catalog must know every manifest on the tier, or we would take the
// objects of one it does not know for orphans.
absl::Status CheckCatalogIsWhole(Context& context) {
  uint64_t on_tier = 0;
  CAIRN_RETURN_IF_ERROR(
      context.core->List(kManifestsPrefix, [&on_tier](const ObjectInfo&) {
        ++on_tier;
        return absl::OkStatus();
      }));
  uint64_t known = 0;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> records,
                         context.catalog->All());
  for (const CheckpointRecord& record : records) known += record.core.manifest;
  if (on_tier == known) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "the core tier holds {} manifests and the catalog knows {}; run `cairn "
      "rebuild` first",
      on_tier, known));
}

class Sweep {
 public:
  Sweep(Context* context, const SweepOptions& options)
      : context_(*context), options_(options) {
    report_.dry_run = options.dry_run;
  }

  absl::StatusOr<SweepReport> Run() {
    CAIRN_RETURN_IF_ERROR(SweepStaging());
    CAIRN_RETURN_IF_ERROR(SweepTemporaries());
    CAIRN_RETURN_IF_ERROR(SweepUploads());
    CAIRN_RETURN_IF_ERROR(CheckCatalogIsWhole(context_));
    CAIRN_RETURN_IF_ERROR(SweepObjects());
    return std::move(report_);
  }

 private:
  absl::Status SweepStaging() {
    CAIRN_ASSIGN_OR_RETURN(const std::vector<StagingLeftover> leftovers,
                           ListStagingLeftovers(context_));
    for (const StagingLeftover& leftover : leftovers) {
      SweepItem item{.what = "staging",
                     .name = leftover.directory,
                     .bytes = leftover.bytes,
                     .reason = "left by a process that is gone"};
      if (!options_.dry_run) {
        CAIRN_RETURN_IF_ERROR(RemoveStagingLeftover(context_, leftover));
        item.removed = true;
        CAIRN_KILL_POINT("sweep.after_staging");
      }
      report_.items.push_back(std::move(item));
    }
    return absl::OkStatus();
  }

  // Manifests and marks that were never finished.
  absl::Status SweepTemporaries() {
    std::vector<std::string> paths;
    const absl::Time newest = context_.clock->Now() - kTemporaryAgeMin;
    CAIRN_RETURN_IF_ERROR(context_.accelerator->Walk(
        kOurDirectory, [&](std::string_view path, const NodeStat& stat) {
          const std::string_view name = path.substr(path.rfind('/') + 1);
          if (stat.type == NodeType::kFile &&
              name.starts_with(kTemporaryPrefix) &&
              !path.starts_with("staging/") &&
              absl::FromUnixNanos(stat.mtime_ns) < newest) {
            paths.push_back(JoinPath(kOurDirectory, path));
          }
          return absl::OkStatus();
        }));
    for (const std::string& path : paths) {
      SweepItem item{.what = "staging",
                     .name = path,
                     .bytes = 0,
                     .reason = "left by a process that is gone",
                     .removed = !options_.dry_run};
      if (item.removed) {
        CAIRN_RETURN_IF_ERROR(context_.accelerator->RemoveFile(path));
      }
      report_.items.push_back(std::move(item));
    }
    return absl::OkStatus();
  }

  absl::Status SweepUploads() {
    CAIRN_ASSIGN_OR_RETURN(const std::vector<UploadInfo> uploads,
                           context_.core->ListUploads(""));
    for (const UploadInfo& upload : uploads) {
      SweepItem item{.what = "upload",
                     .name = upload.key,
                     .reason = "an upload that nobody works on"};
      if (!options_.dry_run) {
        // Resumed without sizes it can only be destroyed, which aborts it.
        const auto doomed =
            context_.core->ResumeUpload(upload.key, upload.token, {});
        if (!doomed.ok() && !absl::IsNotFound(doomed.status())) {
          return doomed.status();
        }
        item.removed = true;
      }
      report_.items.push_back(std::move(item));
    }
    return absl::OkStatus();
  }

  absl::Status SweepObjects() {
    CAIRN_ASSIGN_OR_RETURN(const std::unordered_set<std::string> named,
                           NamedKeys(context_));
    std::vector<std::string> doomed;
    CAIRN_RETURN_IF_ERROR(
        context_.core->List("", [&](const ObjectInfo& object) {
          if (!named.contains(object.key)) Judge(object, &doomed);
          return absl::OkStatus();
        }));
    for (const std::string& key : doomed) {
      CAIRN_RETURN_IF_ERROR(context_.core->Remove(key));
      CAIRN_KILL_POINT("sweep.after_object");
    }
    return absl::OkStatus();
  }

  void Judge(const ObjectInfo& object, std::vector<std::string>* doomed) {
    const bool ours = object.key.starts_with(".cairn/generations/") ||
                      object.key.starts_with(".cairn/objects/");
    if (!ours && object.key.starts_with(".cairn/")) return;
    SweepItem item{.what = ours ? "object" : "unreferenced",
                   .name = object.key,
                   .bytes = object.size_bytes,
                   .reason = ours ? "no manifest names it"
                                  : "no manifest names it; it may be somebody "
                                    "else's (--unreferenced removes it)"};
    item.removed = !options_.dry_run && (ours || options_.unreferenced);
    if (item.removed) doomed->push_back(object.key);
    report_.items.push_back(std::move(item));
  }

  Context& context_;
  const SweepOptions options_;
  SweepReport report_;
};

}  // namespace

absl::StatusOr<SweepReport> SweepStore(Context& context,
                                       const SweepOptions& options) {
  return Sweep(&context, options).Run();
}

}  // namespace cairn
