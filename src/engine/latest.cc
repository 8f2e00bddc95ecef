#include "engine/latest.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "engine/checkpoint_files.h"
#include "engine/restorer.h"
#include "engine/scanner.h"
#include "policy/selection.h"

namespace cairn {
namespace {

constexpr char kNotArchivedYet[] = "not archived yet";

// Why a generation can't be the answer; nullopt: it is good where `present`
// says.
struct Look {
  std::optional<std::string> bad;
  bool present = false;
};

absl::StatusOr<Look> LookAtCandidate(Context& context,
                                     const CheckpointRecord& record,
                                     const LatestOptions& options) {
  Look look;
  if (options.durability == Durability::kArchived && !record.core.manifest) {
    look.bad = kNotArchivedYet;
    return look;
  }
  std::string accelerator = "not on the accelerator tier";
  if (record.accelerator.present) {
    RootTreeView view(&context);
    absl::StatusOr<CopyCheck> check = CheckCopy(context, view, record);
    // An unreadable manifest of ours is damage of this one checkpoint.
    if (!check.ok() && !absl::IsDataLoss(check.status()) &&
        !absl::IsPermissionDenied(check.status()) &&
        !absl::IsNotFound(check.status())) {
      return check.status();
    }
    const bool good =
        check.ok() && (check->verdict == CopyVerdict::kUnchanged ||
                       check->verdict == CopyVerdict::kEqual);
    if (good) {
      look.present = true;
      return look;
    }
    accelerator = !check.ok() ? Message(check.status())
                  : check->verdict == CopyVerdict::kAbsent
                      ? "gone from the accelerator tier"
                      : "on the accelerator tier: " + check->reason;
  }
  if (!record.core.manifest) {
    look.bad = accelerator + "; never archived";
  } else if (record.core.damaged) {
    look.bad = accelerator + "; " + record.core.damage;
  }
  return look;
}

absl::Status NothingGood(std::string_view run, const LatestReport& report,
                         const LatestOptions& options) {
  std::string text = fmt::format(
      "run {} has no good checkpoint{}", EscapeName(run.empty() ? "." : run),
      options.durability == Durability::kArchived ? " that is archived" : "");
  bool lost = false;
  for (const auto& [path, reason] : report.passed_over) {
    text += fmt::format("; {}: {}", EscapeName(path), reason);
    lost |= reason != kNotArchivedYet;
  }
  if (report.passed_over.empty()) {
    text += "; `cairn scan` looks for new ones, `cairn ls` lists the runs";
  }
  return lost ? absl::DataLossError(text) : absl::NotFoundError(text);
}

// Brings it back; false if it turned out to be damaged, with why in `reason`.
absl::StatusOr<bool> BringBack(Context& context, const CheckpointRecord& record,
                               LatestReport* report, std::string* reason) {
  RestoreOptions restore;
  restore.generation = record.generation;
  absl::StatusOr<RestoreReport> restored =
      RestoreCheckpoint(context, JoinPath(record.run, record.name), restore);
  if (absl::IsDataLoss(restored.status())) {
    *reason = Message(restored.status());
    return false;
  }
  CAIRN_RETURN_IF_ERROR(restored.status());
  report->restored = !restored->already_there;
  for (std::string& warning : restored->warnings) {
    report->warnings.push_back(std::move(warning));
  }
  return true;
}

// Candidates that a scan saw and refused, newer than what was chosen: whoever
// resumes should know that work was lost there.
absl::Status NameIncomplete(Context& context, std::string_view run,
                            const CheckpointRecord& chosen,
                            LatestReport* report) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CandidateRecord> candidates,
                         context.catalog->Candidates());
  for (const CandidateRecord& candidate : candidates) {
    if (candidate.run != run || !candidate.step.has_value()) continue;
    if (chosen.step.has_value() && *candidate.step <= *chosen.step) continue;
    report->passed_over.emplace_back(
        JoinPath(candidate.run, candidate.name),
        fmt::format("{}: {}", candidate.verdict, candidate.reason));
  }
  return absl::OkStatus();
}

void WarnOfOrder(const std::vector<CheckpointRecord>& records,
                 const CheckpointRecord& chosen, LatestReport* report) {
  for (const CheckpointRecord& other : records) {
    const bool both = other.step.has_value() && chosen.step.has_value();
    if (both && *other.step > *chosen.step &&
        other.sequence < chosen.sequence) {
      report->warnings.push_back(fmt::format(
          "{} has the higher step {} and was committed earlier; newest means "
          "committed last",
          EscapeName(JoinPath(other.run, other.name)), *other.step));
      return;
    }
  }
}

}  // namespace

absl::StatusOr<LatestReport> FindLatest(Context& context, std::string_view run,
                                        const LatestOptions& options) {
  LatestReport report;
  CAIRN_ASSIGN_OR_RETURN(std::vector<CheckpointRecord> records,
                         context.catalog->OfRun(run));
  SortNewestFirst(records);
  for (const CheckpointRecord& record : records) {
    const std::string path = JoinPath(record.run, record.name);
    CAIRN_ASSIGN_OR_RETURN(const Look look,
                           LookAtCandidate(context, record, options));
    if (look.bad.has_value()) {
      report.passed_over.emplace_back(path, *look.bad);
      continue;
    }
    if (!look.present && !options.restore) {
      return absl::FailedPreconditionError(
          fmt::format("the newest good checkpoint, {}, is on the core tier "
                      "only; add --restore "
                      "to bring it back",
                      EscapeName(path)));
    }
    if (!look.present) {
      std::string reason;
      CAIRN_ASSIGN_OR_RETURN(const bool back,
                             BringBack(context, record, &report, &reason));
      if (!back) {
        report.passed_over.emplace_back(path, reason);
        continue;
      }
    }
    if (options.restore) {
      CAIRN_ASSIGN_OR_RETURN(const Manifest manifest,
                             ReadBestManifest(context, record));
      CAIRN_RETURN_IF_ERROR(WritePointers(context, manifest));
    }
    CAIRN_ASSIGN_OR_RETURN(const CheckpointRecord chosen,
                           context.catalog->Get(record.generation));
    report.checkpoint = ToInfo(chosen, true);
    report.location = context.accelerator->FullPath(path);
    CAIRN_RETURN_IF_ERROR(NameIncomplete(context, run, chosen, &report));
    WarnOfOrder(records, chosen, &report);
    return report;
  }
  return NothingGood(run, report, options);
}

}  // namespace cairn
