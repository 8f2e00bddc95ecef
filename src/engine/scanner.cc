#include "engine/scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "engine/committer.h"
#include "engine/locks.h"
#include "policy/selection.h"

namespace cairn {

absl::StatusOr<ScanReport> Scanner::Run() {
  CAIRN_RETURN_IF_ERROR(LoadKnown());
  context_.observer->OnStart("scan", 0, 0);
  queue_ = {""};
  while (!queue_.empty()) {
    const std::string directory = std::move(queue_.back());
    queue_.pop_back();
    CAIRN_RETURN_IF_ERROR(Visit(directory));
  }
  // Whatever was known and not met is no longer where it was.
  for (const auto& [path, record] : known_directories_) {
    if (record.accelerator.present) CAIRN_RETURN_IF_ERROR(Disappeared(record));
  }
  for (const auto& [run, records] : known_files_) {
    for (const CheckpointRecord& record : records) {
      if (record.accelerator.present)
        CAIRN_RETURN_IF_ERROR(Disappeared(record));
    }
  }
  CAIRN_RETURN_IF_ERROR(CommitNew());
  std::vector<CandidateRecord> candidates;
  for (const CandidateInfo& candidate : report_.candidates) {
    const size_t slash = candidate.path.rfind('/');
    const bool top = slash == std::string::npos;
    candidates.push_back(
        {.run = top ? "" : candidate.path.substr(0, slash),
         .name = top ? candidate.path : candidate.path.substr(slash + 1),
         .framework = candidate.framework,
         .step = candidate.step,
         .verdict = candidate.verdict,
         .reason = candidate.reason,
         .first_seen_ns = context_.NowNs()});
  }
  CAIRN_RETURN_IF_ERROR(context_.catalog->ReplaceCandidates(candidates));
  context_.observer->OnFinish();
  return std::move(report_);
}

absl::Status Scanner::LoadKnown() {
  CAIRN_ASSIGN_OR_RETURN(std::vector<CheckpointRecord> all,
                         context_.catalog->All());
  std::set<std::pair<std::string, std::string>> seen;
  for (CheckpointRecord& record : all) {
    if (!seen.emplace(record.run, record.name).second) continue;
    if (record.is_directory) {
      std::string path = JoinPath(record.run, record.name);
      known_directories_.emplace(std::move(path), std::move(record));
    } else {
      known_files_[record.run].push_back(std::move(record));
    }
  }
  return absl::OkStatus();
}

absl::Status Scanner::Visit(const std::string& directory) {
  if (const auto known = known_directories_.find(directory);
      known != known_directories_.end()) {
    const CheckpointRecord record = std::move(known->second);
    known_directories_.erase(known);
    return VisitKnown(record);
  }
  if (const auto known = known_files_.find(directory);
      known != known_files_.end()) {
    const std::vector<CheckpointRecord> records = std::move(known->second);
    known_files_.erase(known);
    for (const CheckpointRecord& record : records) {
      CAIRN_RETURN_IF_ERROR(VisitKnown(record));
    }
  }
  absl::StatusOr<Recogniser::Examined> examined =
      context_.recogniser->Examine(view_, directory, context_.clock->Now());
  // A run's directory may be removed while we look.
  if (absl::IsNotFound(examined.status()) && !directory.empty()) {
    return absl::OkStatus();
  }
  // One directory that we may not read must not hide all the others.
  if (absl::IsPermissionDenied(examined.status()) && !directory.empty()) {
    report_.ignored.emplace_back(directory, Message(examined.status()));
    context_.observer->OnNotice(Message(examined.status()));
    unreadable_.push_back(directory + "/");
    return absl::OkStatus();
  }
  CAIRN_RETURN_IF_ERROR(examined.status());
  for (Finding& finding : examined->findings) {
    CAIRN_RETURN_IF_ERROR(TakeFinding(std::move(finding)));
  }
  for (auto& [name, why] : examined->ignored) {
    report_.ignored.emplace_back(JoinPath(directory, name), std::move(why));
  }
  // Depth first, in order of names.
  queue_.insert(queue_.end(), examined->descend.rbegin(),
                examined->descend.rend());
  return absl::OkStatus();
}

absl::Status Scanner::TakeFinding(Finding finding) {
  if (finding.verdict == Verdict::kComplete) {
    found_.push_back(std::move(finding));
    return absl::OkStatus();
  }
  report_.candidates.push_back({.path = JoinPath(finding.run, finding.name),
                                .framework = finding.framework,
                                .step = finding.step,
                                .verdict = VerdictName(finding.verdict),
                                .reason = finding.reason});
  return absl::OkStatus();
}

absl::Status Scanner::VisitKnown(const CheckpointRecord& record) {
  absl::StatusOr<CopyCheck> looked = CheckCopy(context_, view_, record);
  // Its own records are damaged, or we may not read it; that must not hide all
  // the others.
  if (absl::IsDataLoss(looked.status()) || absl::IsNotFound(looked.status())) {
    Note(record, Outcome::Kind::kDamaged, Message(looked.status()));
    return absl::OkStatus();
  }
  if (absl::IsPermissionDenied(looked.status())) {
    Note(record, Outcome::Kind::kFailed, Message(looked.status()));
    return absl::OkStatus();
  }
  CAIRN_RETURN_IF_ERROR(looked.status());
  CopyCheck check = *std::move(looked);
  const std::string base =
      record.is_directory ? JoinPath(record.run, record.name) : record.run;
  switch (check.verdict) {
    case CopyVerdict::kAbsent:
      return record.accelerator.present ? Disappeared(record)
                                        : absl::OkStatus();
    case CopyVerdict::kRewritten:
      Note(record, Outcome::Kind::kDone, check.reason);
      // Found again below for a file checkpoint, as its files are not hidden.
      if (record.is_directory) found_.push_back(std::move(check.finding));
      return absl::OkStatus();
    case CopyVerdict::kDamaged:
      Note(record, Outcome::Kind::kDamaged, check.reason);
      break;
    case CopyVerdict::kWriting:
      Note(record, Outcome::Kind::kFailed, check.reason);
      return absl::OkStatus();
    case CopyVerdict::kEqual:
      Note(record, Outcome::Kind::kDone, check.reason);
      break;
    case CopyVerdict::kUnchanged:
      break;
  }
  ++report_.checkpoints;
  Count(check.live);
  if (!record.is_directory) {
    for (const LiveNode& node : check.live)
      view_.Hide(JoinPath(base, node.path));
  }
  return absl::OkStatus();
}

absl::Status Scanner::Disappeared(const CheckpointRecord& record) {
  // Not seen is not gone where we could not look.
  const std::string path = JoinPath(record.run, record.name);
  for (const std::string& directory : unreadable_) {
    if (path.starts_with(directory)) return absl::OkStatus();
  }
  CheckpointRecord gone = record;
  CAIRN_RETURN_IF_ERROR(RemoveAcceleratorManifest(context_, record));
  if (!record.core.manifest) {
    Note(record, Outcome::Kind::kDone,
         "deleted from the accelerator tier by its owner; it was never "
         "archived");
    return context_.catalog->Remove(record.generation);
  }
  gone.accelerator = {};
  gone.dirty = false;
  if (!record.released) {
    Note(record, Outcome::Kind::kDone,
         "deleted from the accelerator tier by its owner; the archived copy "
         "stays");
  }
  CAIRN_RETURN_IF_ERROR(
      context_.catalog->SetFingerprints(gone.generation, {}, ""));
  return context_.catalog->Upsert(gone);
}

absl::Status Scanner::CommitNew() {
  if (found_.empty()) return absl::OkStatus();
  // Truth 2: data and directories first. One call for all that was found.
  CAIRN_RETURN_IF_ERROR(context_.accelerator->SyncFileSystem());
  std::map<std::string, std::vector<NewFind>> by_run;
  for (size_t i = 0; i < found_.size(); ++i) {
    by_run[found_[i].run].push_back(
        {.index = i,
         .step = found_[i].step,
         .marker_mtime_ns = found_[i].marker_mtime_ns,
         .name = found_[i].name});
  }
  for (auto& [run, finds] : by_run) {
    std::string warning;
    for (const NewFind& find : OrderOfAdoption(std::move(finds), &warning)) {
      const Finding& finding = found_[find.index];
      const std::string path = JoinPath(finding.run, finding.name);
      absl::StatusOr<CheckpointRecord> record = CommitFound(finding, path);
      if (!record.ok()) {
        // It vanished or changed under our eyes, or another process has it; the
        // next scan looks again.
        if (!absl::IsNotFound(record.status()) &&
            !absl::IsUnavailable(record.status())) {
          return record.status();
        }
        report_.candidates.push_back({.path = path,
                                      .framework = finding.framework,
                                      .step = finding.step,
                                      .verdict = VerdictName(Verdict::kWriting),
                                      .reason = Message(record.status())});
        continue;
      }
      ++report_.checkpoints;
      report_.files += record->files;
      report_.bytes += record->bytes;
      report_.committed.push_back(ToInfo(*record, /*newest_generation=*/true));
    }
    if (!warning.empty()) context_.observer->OnNotice(warning);
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointRecord> Scanner::CommitFound(const Finding& finding,
                                                      const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(
      const Lock lock,
      Lock::OfCheckpoint(context_.options.state_dir, path, "scan"));
  return CommitFinding(context_, finding, "scan", {});
}

void Scanner::Note(const CheckpointRecord& record, Outcome::Kind kind,
                   std::string message) {
  report_.changes.push_back({.path = JoinPath(record.run, record.name),
                             .generation = record.generation,
                             .kind = kind,
                             .message = std::move(message)});
}

void Scanner::Count(const std::vector<LiveNode>& live) {
  for (const LiveNode& node : live) {
    if (node.stat.type != NodeType::kFile) continue;
    ++report_.files;
    report_.bytes += node.stat.size_bytes;
  }
}

}  // namespace cairn
