#include "engine/doctor.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/crc64.h"
#include "base/escape.h"
#include "base/posix.h"
#include "base/units.h"
#include "engine/context.h"
#include "io/probe.h"

namespace cairn {
namespace {

using Level = DoctorItem::Level;

// Each thread may have a source, an object and a directory open; a few more.
constexpr uint64_t kOpenFilesWanted = 1024;
// Below this a checkpoint of any size is likely to fail.
constexpr double kFreeShareWanted = 0.05;

class Examination {
 public:
  explicit Examination(const Options& options) : options_(options) {}

  DoctorReport Run() {
    Machine();
    absl::StatusOr<Root> root = Root::Open(options_.accelerator_path);
    if (!root.ok()) {
      Bad("accelerator tier", Message(root.status()),
          "mount it, or correct `path` in cairn.toml");
    } else {
      FileSystem(*root);
    }
    Tiers();
    return std::move(report_);
  }

 private:
  void Add(Level level, std::string subject, std::string finding,
           std::string advice) {
    report_.items.push_back({.level = level,
                             .subject = std::move(subject),
                             .finding = std::move(finding),
                             .advice = std::move(advice)});
  }
  void Good(std::string subject, std::string finding) {
    Add(Level::kGood, std::move(subject), std::move(finding), "");
  }
  void Note(std::string subject, std::string finding, std::string advice) {
    Add(Level::kNote, std::move(subject), std::move(finding),
        std::move(advice));
  }
  void Bad(std::string subject, std::string finding, std::string advice) {
    Add(Level::kBad, std::move(subject), std::move(finding), std::move(advice));
  }

  void Machine() {
    Good("checksums",
         fmt::format("CRC-64/NVME by {}", Crc64KindName(Crc64KindInUse())));
  }

  void FileSystem(const Root& root) {
    absl::StatusOr<IoFacts> probed = ProbeIo(root, ".cairn/probe");
    if (!probed.ok()) {
      Bad("accelerator tier", Message(probed.status()), "");
      return;
    }
    const IoFacts& facts = *probed;
    Good("accelerator tier",
         fmt::format("{} on {}, mounted {}", EscapeName(root.path()),
                     facts.file_system, facts.mount_options));
    if (facts.read_only) {
      Bad("accelerator tier", "is mounted read-only",
          "remount it for writing; nothing can be committed or restored");
    }
    DirectIo(facts);
    Guards(facts);
    Limits(facts);
  }

  void DirectIo(const IoFacts& facts) {
    if (facts.direct_io) {
      Good("direct I/O", facts.direct_alignment_bytes > 0
                             ? fmt::format("works, aligned to {} bytes",
                                           facts.direct_alignment_bytes)
                             : "works");
    } else {
      Note("direct I/O", "is refused: " + facts.direct_reason,
           "files go through the page cache instead, which is slower");
    }
    if (facts.io_uring) {
      Good("io_uring", "works");
    } else {
      Note("io_uring", "is not available: " + facts.io_uring_reason,
           "reads and writes are made one by one instead; more threads "
           "([engine] "
           "threads) make up for some of it");
    }
    if (facts.holes) {
      Good("sparse files", "holes are found and kept");
    } else {
      Note("sparse files", "this file system does not tell holes",
           "sparse files are archived in full");
    }
  }

  void Guards(const IoFacts& facts) {
    if (facts.write_lease) {
      Good("files in use",
           "write leases tell whether a file is open on this host");
    } else {
      Note("files in use",
           "write leases are refused: " + facts.write_lease_reason,
           fmt::format("a release waits {} after the last change and reads the "
                       "files again",
                       cairn::FormatDuration(options_.release_grace)));
    }
    if (facts.rename_noreplace) {
      Good("atomic names", "rename refuses to replace where asked to");
    } else {
      Note("atomic names", "rename cannot be told not to replace",
           "hard links are used instead");
    }
    if (facts.timestamp_step_ns > 10'000'000) {
      Note("time stamps",
           fmt::format("move in steps of {} ms",
                       facts.timestamp_step_ns / 1000000),
           "files changed within 2 s of being read are read again");
    } else {
      Good("time stamps", fmt::format("move in steps of {} ns or less",
                                      facts.timestamp_step_ns));
    }
  }

  void Limits(const IoFacts& facts) {
    const std::string space = fmt::format(
        "{} free of {}, {} more files", FormatBytesBoth(facts.free_bytes),
        FormatBytesBoth(facts.total_bytes), facts.free_inodes);
    const double share = facts.total_bytes == 0
                             ? 1.0
                             : static_cast<double>(facts.free_bytes) /
                                   static_cast<double>(facts.total_bytes);
    if (share < kFreeShareWanted) {
      Bad("free space", space,
          "release archived checkpoints: `cairn release --all`");
    } else {
      Good("free space", space);
    }
    if (facts.open_files_max < kOpenFilesWanted) {
      Note("open files", fmt::format("at most {}", facts.open_files_max),
           fmt::format("raise it: `ulimit -n {}`", kOpenFilesWanted));
    } else {
      Good("open files", fmt::format("at most {}", facts.open_files_max));
    }
    Good("locked memory",
         "at most " + FormatBytesBoth(facts.memlock_max_bytes));
  }

  void Tiers() {
    absl::StatusOr<std::unique_ptr<Context>> context =
        OpenTiers(options_, nullptr, /*create=*/false);
    if (!context.ok()) {
      Bad("tiers", Message(context.status()), "");
      return;
    }
    absl::StatusOr<std::unique_ptr<Catalog>> catalog =
        Catalog::Open(CatalogConnection(options_));
    if (!catalog.ok()) {
      Bad("catalog", Message(catalog.status()),
          "`cairn rebuild` makes it again from the tiers");
      return;
    }
    absl::Status ids = CheckTierIds(**context, **catalog);
    if (!ids.ok()) {
      Bad("tiers", Message(ids), "");
      return;
    }
    Good("accelerator identity", (*context)->accelerator_id);
    Good("core tier",
         fmt::format("{}, identity {}", EscapeName(options_.core_urls.front()),
                     (*context)->core_id));
  }

  const Options& options_;
  DoctorReport report_;
};

}  // namespace

DoctorReport ExamineMachine(const Options& options) {
  return Examination(options).Run();
}

}  // namespace cairn
