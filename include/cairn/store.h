// cairn's public C++ API. Start here: Init() once, then Open(), then the verbs.
//
// A Store stands over one accelerator tier, its core tier and a catalog. Every
// verb may be interrupted at any moment (kill -9 included): the invariants of
// docs/durability.md hold, and the same call again finishes the work without
// copying again what was already safely copied.
//
// Thread-safe; verbs on the same checkpoint exclude one another, also between
// processes of one host (a busy checkpoint is kUnavailable and says who holds
// it).
//
// Errors are absl::Status: kInvalidArgument (a name or option makes no sense),
// kNotFound, kAlreadyExists, kFailedPrecondition (a guard refuses; says which),
// kPermissionDenied, kResourceExhausted (disk or a limit is full), kUnavailable
// (try again), kDataLoss (damage; never retried), kUnimplemented (written by a
// newer version). Verbs over several checkpoints report one Outcome each and
// return a Status only for what stops them all.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cairn/options.h"
#include "cairn/types.h"

namespace cairn {

// Hears of progress while a verb runs. Called from several threads at once.
class Observer {
 public:
  virtual ~Observer() = default;
  // A phase begins: what ("export modelA/step-100"), how much (0: unknown).
  virtual void OnStart(std::string_view what, uint64_t bytes,
                       uint64_t files) = 0;
  virtual void OnProgress(uint64_t bytes_more, uint64_t files_more) = 0;
  virtual void OnFinish() = 0;
  // A sentence for the user that is not the result itself.
  virtual void OnNotice(std::string_view text) = 0;
};

struct InitOptions {
  Options options;
  // The accelerator directory has no identity although the catalog knows one (a
  // new disk): give it a new one. Nothing on the core tier changes.
  bool replace_accelerator = false;
};

struct CommitOptions {
  bool adopt =
      false;  // On the user's word: also what no rule takes for complete.
  bool force = false;  // With adopt: also what is structurally damaged.
  std::optional<int64_t> step;
  std::optional<int64_t> epoch;
  std::map<std::string, std::string> labels;
};

struct SaveOptions {
  std::optional<int64_t> step;
  std::optional<int64_t> epoch;
  std::string framework = "files";
  std::map<std::string, std::string> labels;
};

struct ListOptions {
  std::optional<std::string> run;
  bool all_generations = false;
};

struct LatestOptions {
  Durability durability = Durability::kLocal;  // kLocal or kArchived.
  bool restore =
      false;  // Bring it back, and write the framework's pointer files.
};

struct ExportOptions {
  bool all = false;
  bool dry_run = false;
  std::optional<uint64_t> bytes_per_second_max;  // Overrides the configuration.
};

struct RestoreOptions {
  std::string generation;   // "" : the newest good one.
  bool set_latest = false;  // Write the framework's pointer files.
  bool force = false;       // Also over changed (dirty) files.
  bool dry_run = false;
};

struct VerifyOptions {
  TierChoice tier = TierChoice::kBoth;
  bool quick = false;  // Presence and sizes only.
  bool all = false;
};

struct ReleaseOptions {
  bool all = false;  // Everything the guards let go.
  bool dry_run = false;
};

struct RemoveOptions {
  std::string generation;  // "" : every generation.
  bool force = false;      // Also the only good copy.
  bool dry_run = false;
};

struct SweepOptions {
  bool dry_run = false;
  // Also objects under natural keys that no manifest names (they may be
  // somebody else's).
  bool unreferenced = false;
};

struct PinOptions {
  std::optional<absl::Duration> hold_for;  // A hold; nullopt: without end.
  std::string reason;
};

class Store {
 public:
  // Gives both tiers an identity (or joins the one they have), makes the state
  // directory and the catalog. Writes no configuration file. Repeatable.
  static absl::Status Init(const InitOptions& options, Observer* observer);

  // Refuses a tier that is missing, has no identity, or another than the
  // catalog knows. An empty catalog is rebuilt first. `observer` may be null,
  // else must outlive the store.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const Options& options,
                                                     Observer* observer);
  virtual ~Store() = default;

  virtual absl::StatusOr<ScanReport> Scan() = 0;
  virtual absl::StatusOr<CheckpointInfo> Commit(
      std::string_view path, const CommitOptions& options) = 0;
  // Copies the directory `source` in as checkpoint `path` and commits it.
  virtual absl::StatusOr<CheckpointInfo> Save(std::string_view path,
                                              const std::string& source,
                                              const SaveOptions& options) = 0;
  virtual absl::StatusOr<std::vector<CheckpointInfo>> List(
      const ListOptions& options) = 0;
  virtual absl::StatusOr<ShowReport> Show(std::string_view path) = 0;
  // kNotFound: the run has no checkpoint of that durability. kDataLoss: it has
  // some, and none is good; says why each was passed over. kFailedPrecondition:
  // the newest good one is on the core tier only, and `restore` was not asked
  // for.
  virtual absl::StatusOr<LatestReport> Latest(std::string_view run,
                                              const LatestOptions& options) = 0;
  // A path may name a checkpoint, a run, or a prefix of runs.
  virtual absl::StatusOr<BatchReport> Export(
      const std::vector<std::string>& paths, const ExportOptions& options) = 0;
  virtual absl::StatusOr<RestoreReport> Restore(
      std::string_view path, const RestoreOptions& options) = 0;
  virtual absl::StatusOr<VerifyReport> Verify(
      const std::vector<std::string>& paths, const VerifyOptions& options) = 0;
  virtual absl::StatusOr<BatchReport> Release(
      const std::vector<std::string>& paths, const ReleaseOptions& options) = 0;
  virtual absl::StatusOr<BatchReport> RemoveFromCore(
      const std::vector<std::string>& paths, const RemoveOptions& options) = 0;
  virtual absl::StatusOr<SweepReport> Sweep(const SweepOptions& options) = 0;
  virtual absl::Status Pin(std::string_view path,
                           const PinOptions& options) = 0;
  virtual absl::Status Unpin(std::string_view path) = 0;
  virtual absl::StatusOr<StatusReport> Status() = 0;

  // Makes the catalog again from what lies on the tiers. Needs no open store,
  // as the catalog may be damaged.
  static absl::StatusOr<RebuildReport> Rebuild(const Options& options,
                                               Observer* observer);
  // Looks at the machine and the tiers; works also when Open() fails.
  static DoctorReport Doctor(const Options& options);
};

// The one printable form of a name (docs/format.md, "Names").
std::string EscapeForDisplay(std::string_view name);
// kInvalidArgument: not an escaped name.
absl::StatusOr<std::string> UnescapeFromDisplay(std::string_view text);

}  // namespace cairn
