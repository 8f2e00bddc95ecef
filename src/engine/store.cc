// The verbs of cairn/store.h, handed to those who do them.

#include "cairn/store.h"

#include <fmt/format.h>

#include <utility>

#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "engine/checkpoint_files.h"
#include "engine/committer.h"
#include "engine/context.h"
#include "engine/doctor.h"
#include "engine/exporter.h"
#include "engine/init.h"
#include "engine/latest.h"
#include "engine/pins.h"
#include "engine/releaser.h"
#include "engine/reports.h"
#include "engine/restorer.h"
#include "engine/saver.h"
#include "engine/scanner.h"
#include "engine/staging.h"
#include "engine/sweeper.h"
#include "engine/verifier.h"

namespace cairn {
namespace {

// Holds the store's lock, shared, for its lifetime.
class StoreImpl final : public Store {
 public:
  explicit StoreImpl(OpenedStore opened)
      : lock_(std::move(opened.lock)), context_(std::move(opened.context)) {}

  absl::StatusOr<ScanReport> Scan() override {
    return Scanner(context_.get()).Run();
  }

  absl::StatusOr<CheckpointInfo> Commit(std::string_view path,
                                        const CommitOptions& options) override {
    CAIRN_ASSIGN_OR_RETURN(const CheckpointRecord record,
                           CommitByHand(*context_, path, options));
    return ToInfo(record, true);
  }

  absl::StatusOr<CheckpointInfo> Save(std::string_view path,
                                      const std::string& source,
                                      const SaveOptions& options) override {
    CAIRN_ASSIGN_OR_RETURN(const CheckpointRecord record,
                           SaveDirectory(*context_, path, source, options));
    return ToInfo(record, true);
  }

  absl::StatusOr<std::vector<CheckpointInfo>> List(
      const ListOptions& options) override {
    return ListCheckpoints(*context_, options);
  }

  absl::StatusOr<ShowReport> Show(std::string_view path) override {
    return ShowCheckpoint(*context_, path);
  }

  absl::StatusOr<LatestReport> Latest(std::string_view run,
                                      const LatestOptions& options) override {
    return FindLatest(*context_, run, options);
  }

  absl::StatusOr<BatchReport> Export(const std::vector<std::string>& paths,
                                     const ExportOptions& options) override {
    Exporter exporter(context_.get(), options);
    CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> records,
                           exporter.Select(paths));
    BatchReport report{.outcomes = {}, .dry_run = options.dry_run};
    for (const CheckpointRecord& record : records) {
      report.outcomes.push_back(exporter.Export(record));
    }
    return report;
  }

  absl::StatusOr<RestoreReport> Restore(
      std::string_view path, const RestoreOptions& options) override {
    return RestoreCheckpoint(*context_, path, options);
  }

  absl::StatusOr<VerifyReport> Verify(const std::vector<std::string>& paths,
                                      const VerifyOptions& options) override {
    CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> records,
                           Select(paths, options.all));
    VerifyReport report;
    for (const CheckpointRecord& record : records) {
      CAIRN_ASSIGN_OR_RETURN(std::vector<VerifyOutcome> outcomes,
                             VerifyCheckpoint(*context_, record, options));
      std::move(outcomes.begin(), outcomes.end(),
                std::back_inserter(report.outcomes));
    }
    return report;
  }

  absl::StatusOr<BatchReport> Release(const std::vector<std::string>& paths,
                                      const ReleaseOptions& options) override {
    CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> records,
                           Select(paths, options.all));
    BatchReport report{.outcomes = {}, .dry_run = options.dry_run};
    for (const CheckpointRecord& record : records) {
      if (options.all && !record.accelerator.present) continue;
      report.outcomes.push_back(
          ReleaseCheckpoint(*context_, record, options.dry_run));
    }
    return report;
  }

  absl::StatusOr<BatchReport> RemoveFromCore(
      const std::vector<std::string>& paths,
      const RemoveOptions& options) override {
    BatchReport report{.outcomes = {}, .dry_run = options.dry_run};
    for (const std::string& path : paths) {
      CAIRN_ASSIGN_OR_RETURN(
          const CheckpointRecord found,
          FindCheckpoint(*context_, path, options.generation));
      CAIRN_ASSIGN_OR_RETURN(
          const std::vector<CheckpointRecord> generations,
          context_->catalog->Generations(found.run, found.name));
      for (const CheckpointRecord& record : generations) {
        const bool wanted = options.generation.empty() ||
                            record.generation == options.generation;
        if (!wanted) continue;
        report.outcomes.push_back(
            RemoveCoreCopy(*context_, record, options.force, options.dry_run));
      }
    }
    return report;
  }

  absl::StatusOr<SweepReport> Sweep(const SweepOptions& options) override {
    // Alone in the store: nobody else's unfinished work is to be taken for
    // left.
    lock_ = Lock();
    CAIRN_ASSIGN_OR_RETURN(lock_, Lock::OfStore(context_->options.state_dir,
                                                Lock::Mode::kExclusive));
    absl::StatusOr<SweepReport> report = SweepStore(*context_, options);
    lock_ = Lock();
    CAIRN_ASSIGN_OR_RETURN(
        lock_, Lock::OfStore(context_->options.state_dir, Lock::Mode::kShared));
    return report;
  }

  absl::Status Pin(std::string_view path, const PinOptions& options) override {
    return PinCheckpoint(*context_, path, options);
  }

  absl::Status Unpin(std::string_view path) override {
    return UnpinCheckpoint(*context_, path);
  }

  absl::StatusOr<StatusReport> Status() override {
    return StoreStatus(*context_);
  }

 private:
  absl::StatusOr<std::vector<CheckpointRecord>> Select(
      const std::vector<std::string>& paths, bool all) {
    if (!all) return FindCheckpoints(*context_, paths);
    return context_->catalog->All();
  }

  Lock lock_;
  const std::unique_ptr<Context> context_;
};

}  // namespace

namespace {

absl::Status RecordRecovered(Context& context, const Manifest& manifest) {
  const std::string path = EscapeName(manifest.CheckpointPath());
  const absl::Status there =
      LookAt(*context.accelerator, ShapeOf(manifest)).status();
  if (absl::IsNotFound(there)) {
    context.observer->OnNotice(fmt::format(
        "{}: was deleted after an interrupted restore or save", path));
    return RemoveAcceleratorManifest(context, RecordOf(manifest));
  }
  CAIRN_RETURN_IF_ERROR(there);
  CAIRN_RETURN_IF_ERROR(MarkPresent(context, manifest));
  // Its owner may have written to it since, so nothing is known of the content
  // of its files until it is read.
  CAIRN_RETURN_IF_ERROR(RecordPresent(context, manifest, /*live=*/{}, 0));
  context.observer->OnNotice(
      fmt::format("{}: an interrupted restore or save was finished", path));
  return absl::OkStatus();
}

}  // namespace

absl::Status Store::Init(const InitOptions& options, Observer* observer) {
  return InitTiers(options, observer);
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const Options& options,
                                                   Observer* observer) {
  CAIRN_ASSIGN_OR_RETURN(OpenedStore opened,
                         OpenForVerbs(options, observer, Lock::Mode::kShared));
  // What a dead process had decided to publish is finished before anything
  // else.
  Context& context = *opened.context;
  CAIRN_RETURN_IF_ERROR(
      RecoverStaging(context, [&context](const Manifest& manifest) {
        return RecordRecovered(context, manifest);
      }));
  CAIRN_RETURN_IF_ERROR(RecoverReleases(context));
  return std::make_unique<StoreImpl>(std::move(opened));
}

absl::StatusOr<RebuildReport> Store::Rebuild(const Options& options,
                                             Observer* observer) {
  return RebuildFromTiers(options, observer);
}

DoctorReport Store::Doctor(const Options& options) {
  return ExamineMachine(options);
}

std::string EscapeForDisplay(std::string_view name) { return EscapeName(name); }

absl::StatusOr<std::string> UnescapeFromDisplay(std::string_view text) {
  return UnescapeName(text);
}

}  // namespace cairn
