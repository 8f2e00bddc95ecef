#include "engine/reports.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/digest.h"
#include "base/status_macros.h"
#include "engine/checkpoint_files.h"
#include "engine/locks.h"
#include "engine/staging.h"
#include "policy/selection.h"

namespace cairn {
namespace {

// A checkpoint that a living process works on shows what is being done with it.
CheckpointInfo LiveInfo(Context& context, const CheckpointRecord& record,
                        bool newest) {
  CheckpointInfo info = ToInfo(record, newest);
  const std::string purpose =
      Lock::PurposeOfHolder(context.options.state_dir, info.path);
  if (purpose == "export" && !info.archived) info.state = State::kExporting;
  if (purpose == "restore" && !info.present) info.state = State::kRestoring;
  return info;
}

const char* NodeTypeName(ManifestNodeType type) {
  switch (type) {
    case ManifestNodeType::kFile:
      return "file";
    case ManifestNodeType::kDirectory:
      return "directory";
    case ManifestNodeType::kSymlink:
      return "symlink";
    case ManifestNodeType::kHardLink:
      return "hardlink";
  }
  return "file";
}

FileInfo ToFileInfo(const Manifest& manifest, const ManifestNode& node,
                    bool archived) {
  FileInfo info;
  info.path = node.path;
  info.type = NodeTypeName(node.type);
  info.size_bytes = node.size_bytes;
  info.mode = node.mode;
  info.mtime_ns = node.mtime_ns;
  info.target = node.target;
  if (node.type == ManifestNodeType::kFile) {
    if (archived) info.key = KeyOf(manifest, node);
    const bool digested = node.size_bytes == 0 || !node.blocks.empty();
    const auto name = FileSha256(node.blocks);
    if (digested && name.has_value()) info.sha256 = ToHex(*name);
  }
  return info;
}

}  // namespace

absl::StatusOr<std::vector<CheckpointInfo>> ListCheckpoints(
    Context& context, const ListOptions& options) {
  std::vector<CheckpointRecord> records;
  if (options.run.has_value()) {
    CAIRN_ASSIGN_OR_RETURN(records, context.catalog->OfRun(*options.run));
  } else {
    CAIRN_ASSIGN_OR_RETURN(records, context.catalog->All());
  }
  std::set<std::pair<std::string, std::string>> seen;
  std::vector<CheckpointInfo> infos;
  for (const CheckpointRecord& record : records) {
    const bool newest = seen.emplace(record.run, record.name).second;
    if (!newest && !options.all_generations) continue;
    infos.push_back(LiveInfo(context, record, newest));
  }
  return infos;
}

absl::StatusOr<ShowReport> ShowCheckpoint(Context& context,
                                          std::string_view path) {
  ShowReport report;
  CAIRN_ASSIGN_OR_RETURN(const CheckpointRecord record,
                         FindCheckpoint(context, path, ""));
  report.checkpoint = LiveInfo(context, record, true);
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> generations,
                         context.catalog->Generations(record.run, record.name));
  for (const CheckpointRecord& generation : generations) {
    report.generations.push_back(
        ToInfo(generation, generation.generation == record.generation));
  }
  CAIRN_ASSIGN_OR_RETURN(const Manifest manifest,
                         ReadBestManifest(context, record));
  for (const ManifestNode& node : manifest.nodes) {
    report.files.push_back(ToFileInfo(manifest, node, record.core.manifest));
  }
  report.pointers = manifest.head.pointers;
  report.marker = manifest.head.marker;
  report.verified_accelerator_ns = record.accelerator.verified_ns;
  report.verified_core_ns = record.core.verified_ns;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> run,
                         context.catalog->OfRun(record.run));
  const ReleaseDecision decision = DecideRelease(record, run, context.NowNs());
  report.release = decision.allowed ? "may be released: archived and verified"
                                    : decision.reason;
  return report;
}

absl::StatusOr<StatusReport> StoreStatus(Context& context) {
  StatusReport report;
  report.accelerator_path = context.options.accelerator_path;
  report.accelerator_id = context.accelerator_id;
  report.core_urls = context.options.core_urls;
  report.core_id = context.core_id;
  CAIRN_ASSIGN_OR_RETURN(const Root::Space space,
                         context.accelerator->FreeSpace());
  report.accelerator_total_bytes = space.total_bytes;
  report.accelerator_free_bytes = space.free_bytes;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointInfo> infos,
                         ListCheckpoints(context, {}));
  for (const CheckpointInfo& info : infos) {
    report.count_by_state[StateName(info.state)] += 1;
    report.bytes_by_state[StateName(info.state)] += info.bytes;
    report.pinned += info.pinned;
    report.damaged += info.damaged;
    report.lost += info.lost;
    if (info.archived && !info.dirty) continue;
    ++report.unarchived;
    report.unarchived_bytes += info.bytes;
    if (report.oldest_unarchived_ns == 0 ||
        info.created_ns < report.oldest_unarchived_ns) {
      report.oldest_unarchived_ns = info.created_ns;
    }
  }
  CAIRN_ASSIGN_OR_RETURN(const std::vector<StagingLeftover> leftovers,
                         ListStagingLeftovers(context));
  for (const StagingLeftover& leftover : leftovers) {
    report.staging_bytes += leftover.bytes;
  }
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CandidateRecord> candidates,
                         context.catalog->Candidates());
  for (const CandidateRecord& candidate : candidates) {
    report.candidates.push_back(
        {.path = JoinPath(candidate.run, candidate.name),
         .framework = candidate.framework,
         .step = candidate.step,
         .verdict = candidate.verdict,
         .reason = candidate.reason});
  }
  CAIRN_ASSIGN_OR_RETURN(const std::vector<FailureRecord> failures,
                         context.catalog->Failures());
  for (const FailureRecord& failure : failures) {
    report.failures.push_back({.operation = failure.operation,
                               .path = failure.subject,
                               .message = failure.message,
                               .time_ns = failure.time_ns});
  }
  return report;
}

}  // namespace cairn
