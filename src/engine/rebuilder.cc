#include "engine/rebuilder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "base/escape.h"
#include "base/kill_point.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "engine/checkpoint_files.h"
#include "engine/committer.h"
#include "engine/restorer.h"
#include "engine/root_tree_view.h"
#include "engine/scanner.h"
#include "engine/staging.h"

namespace cairn {
namespace {

constexpr char kManifests[] = ".cairn/manifests";

// "<checkpoint path>/<sequence>-<generation>.jsonl.zst" below kManifests.
struct ManifestName {
  std::string checkpoint;
  ManifestFileId id;
};

absl::StatusOr<ManifestName> ParseManifestPath(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) {
    return absl::InvalidArgumentError("no checkpoint in its path");
  }
  ManifestName name;
  name.checkpoint = path.substr(0, slash);
  CAIRN_ASSIGN_OR_RETURN(name.id,
                         ParseManifestFileName(path.substr(slash + 1)));
  return name;
}

class Rebuild {
 public:
  Rebuild(Context* context, Catalog* catalog)
      : context_(*context), catalog_(*catalog) {}

  absl::StatusOr<RebuildReport> Run() {
    CAIRN_RETURN_IF_ERROR(ReadAccelerator());
    CAIRN_RETURN_IF_ERROR(ReadCore());
    CAIRN_RETURN_IF_ERROR(ApplyMarks());
    std::vector<CheckpointRecord> records;
    for (auto& [generation, record] : records_) records.push_back(record);
    CAIRN_RETURN_IF_ERROR(catalog_.UpsertAll(records));
    report_.checkpoints = records.size();
    return std::move(report_);
  }

 private:
  absl::Status ReadAccelerator() {
    std::vector<std::string> paths;
    absl::Status walked = context_.accelerator->Walk(
        kManifests, [&](std::string_view path, const NodeStat& stat) {
          if (stat.type == NodeType::kFile) paths.emplace_back(path);
          return absl::OkStatus();
        });
    if (!walked.ok() && !absl::IsNotFound(walked)) return walked;
    for (const std::string& path : paths) {
      CAIRN_ASSIGN_OR_RETURN(
          std::optional<Manifest> manifest,
          Read(path, "accelerator", &ReadAcceleratorManifest));
      if (!manifest.has_value()) continue;
      ++report_.manifests_accelerator;
      CheckpointRecord& record = Merge(*manifest);
      record.accelerator.manifest = true;
      CAIRN_RETURN_IF_ERROR(LookAtFiles(*manifest, &record));
    }
    return absl::OkStatus();
  }

  absl::Status ReadCore() {
    const std::string prefix = std::string(kManifests) + "/";
    std::vector<std::string> paths;
    CAIRN_RETURN_IF_ERROR(
        context_.core->List(prefix, [&](const ObjectInfo& object) {
          paths.push_back(object.key.substr(prefix.size()));
          return absl::OkStatus();
        }));
    for (const std::string& path : paths) {
      CAIRN_ASSIGN_OR_RETURN(std::optional<Manifest> manifest,
                             Read(path, "core", &ReadCoreManifest));
      if (!manifest.has_value()) continue;
      ++report_.manifests_core;
      CheckpointRecord& record = Merge(*manifest);
      record.core.manifest = true;
      record.core.present = true;
      // It went up last, after every object was verified.
      record.core.verified_ns = manifest->head.created_ns;
    }
    return absl::OkStatus();
  }

  using Reader = absl::StatusOr<Manifest> (*)(Context&,
                                              const CheckpointRecord&);

  // nullopt: damaged or not a manifest; named in the warnings, not fatal, so
  // that one bad file does not hide all the others.
  absl::StatusOr<std::optional<Manifest>> Read(const std::string& path,
                                               std::string_view tier,
                                               Reader reader) {
    const absl::StatusOr<ManifestName> name = ParseManifestPath(path);
    if (!name.ok()) {
      if (path.find("/.tmp-") != std::string::npos) return std::nullopt;
      Warn(tier, path, name.status());
      return std::nullopt;
    }
    absl::Status first;
    // The name's last component is the checkpoint's name nearly always; a
    // manifest knows better, so every split is tried.
    for (size_t cut = name->checkpoint.rfind('/');;
         cut = name->checkpoint.rfind('/', cut - 1)) {
      CheckpointRecord wanted;
      const bool top = cut == std::string::npos;
      wanted.run = top ? "" : name->checkpoint.substr(0, cut);
      wanted.name = top ? name->checkpoint : name->checkpoint.substr(cut + 1);
      wanted.sequence = name->id.sequence;
      wanted.generation = name->id.generation;
      absl::StatusOr<Manifest> manifest = reader(context_, wanted);
      if (manifest.ok()) return *std::move(manifest);
      if (!absl::IsDataLoss(manifest.status()) &&
          !absl::IsUnimplemented(manifest.status())) {
        return manifest.status();
      }
      if (first.ok()) first = manifest.status();
      if (top || cut == 0) break;
    }
    Warn(tier, path, first);
    return std::nullopt;
  }

  void Warn(std::string_view tier, const std::string& path,
            const absl::Status& status) {
    report_.warnings.push_back(fmt::format("{} tier: {}/{}: {}", tier,
                                           kManifests, EscapeName(path),
                                           Message(status)));
  }

  CheckpointRecord& Merge(const Manifest& manifest) {
    const auto [at, is_new] =
        records_.try_emplace(manifest.head.generation, RecordOf(manifest));
    return at->second;
  }

  // Present if every file is there with its size and mtime; what differs is
  // left to the check that follows (CheckCopy), which reads it.
  absl::Status LookAtFiles(const Manifest& manifest, CheckpointRecord* record) {
    absl::StatusOr<std::vector<LiveNode>> live =
        LookAt(*context_.accelerator, ShapeOf(manifest));
    if (absl::IsNotFound(live.status())) return absl::OkStatus();
    CAIRN_RETURN_IF_ERROR(live.status());
    record->accelerator.present = true;
    std::map<std::string, const ManifestNode*> nodes;
    for (const ManifestNode& node : manifest.nodes) nodes[node.path] = &node;
    bool as_recorded = live->size() == manifest.nodes.size();
    for (const LiveNode& node : *live) {
      const auto entry = nodes.find(node.path);
      if (entry == nodes.end()) {
        as_recorded = false;
      } else if (entry->second->type == ManifestNodeType::kFile) {
        as_recorded &= node.stat.size_bytes == entry->second->size_bytes &&
                       node.stat.mtime_ns == entry->second->mtime_ns;
      }
    }
    if (!as_recorded) doubtful_.insert(record->generation);
    return absl::OkStatus();
  }

  // nullopt: one of them is damaged on both tiers, or newer than this program.
  absl::StatusOr<std::optional<std::vector<Mark>>> ReadMarksOf(
      const std::string& path) {
    absl::StatusOr<std::vector<Mark>> marks = ReadMarks(context_, path);
    if (marks.ok()) return *std::move(marks);
    if (!absl::IsDataLoss(marks.status()) &&
        !absl::IsUnimplemented(marks.status())) {
      return marks.status();
    }
    report_.warnings.push_back(
        fmt::format("{} counts as pinned, as what was decided of it cannot be "
                    "read: {}",
                    EscapeName(path), Message(marks.status())));
    return std::nullopt;
  }

  absl::Status ApplyMarks() {
    std::map<std::string, std::optional<std::vector<Mark>>> marks;
    for (auto& [generation, record] : records_) {
      const std::string path = JoinPath(record.run, record.name);
      const auto [at, is_new] = marks.try_emplace(path);
      if (is_new) {
        CAIRN_ASSIGN_OR_RETURN(at->second, ReadMarksOf(path));
        if (at->second.has_value()) report_.marks += at->second->size();
      }
      if (!at->second.has_value()) {
        record.pinned = true;  // It may say so; what is unknown is kept.
        continue;
      }
      const MarkState state = SummariseMarks(*at->second, generation);
      record.pinned = state.pinned;
      record.hold_until_ns = state.hold_until_ns;
      record.released = state.released;
    }
    return absl::OkStatus();
  }

 public:
  const std::set<std::string>& doubtful() const { return doubtful_; }

 private:
  Context& context_;
  Catalog& catalog_;
  RebuildReport report_;
  std::map<std::string, CheckpointRecord> records_;  // By generation.
  std::set<std::string> doubtful_;
};

void RemoveDatabase(const std::string& path) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    unlink((path + suffix).c_str());
  }
}

}  // namespace

absl::StatusOr<RebuildReport> RebuildCatalog(Context& context) {
  const std::string path = context.options.state_dir + "/catalog.db";
  const std::string fresh = context.options.state_dir + "/catalog.new.db";
  CAIRN_RETURN_IF_ERROR(
      RecoverStaging(context, [&context](const Manifest& manifest) {
        return MarkPresent(context, manifest);
      }));
  RemoveDatabase(fresh);  // Left by a rebuild that was killed.
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<Catalog> catalog,
                         Catalog::Open("sqlite3://" + fresh));
  CAIRN_RETURN_IF_ERROR(
      catalog->SetSetting(kAcceleratorIdSetting, context.accelerator_id));
  CAIRN_RETURN_IF_ERROR(catalog->SetSetting(kCoreIdSetting, context.core_id));
  Rebuild rebuild(&context, catalog.get());
  CAIRN_ASSIGN_OR_RETURN(RebuildReport report, rebuild.Run());
  context.catalog = std::move(catalog);
  RootTreeView view(&context);
  for (const std::string& generation : rebuild.doubtful()) {
    CAIRN_ASSIGN_OR_RETURN(const CheckpointRecord record,
                           context.catalog->Get(generation));
    CAIRN_RETURN_IF_ERROR(CheckCopy(context, view, record).status());
  }
  CAIRN_RETURN_IF_ERROR(context.catalog->Close());
  context.catalog.reset();
  CAIRN_KILL_POINT("rebuild.before_rename");
  // The write-ahead log of the old catalog must not meet the new file.
  for (const char* suffix : {"-wal", "-shm"}) unlink((path + suffix).c_str());
  if (rename(fresh.c_str(), path.c_str()) != 0) {
    return PosixError(errno, "rename", fresh);
  }
  CAIRN_KILL_POINT("rebuild.after_rename");
  CAIRN_ASSIGN_OR_RETURN(context.catalog,
                         Catalog::Open(CatalogConnection(context.options)));
  return report;
}

}  // namespace cairn
