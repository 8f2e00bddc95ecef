#include "engine/init.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "catalog/manifest.h"
#include "engine/rebuilder.h"

namespace cairn {
namespace {

absl::Status MakeDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return PosixError(error.value(), "make directory", path);
  return absl::OkStatus();
}

TierId NewTierId(std::string_view kind, absl::Time now) {
  TierId tier;
  tier.id = NewGeneration();
  tier.kind = std::string(kind);
  tier.created = absl::FormatTime(absl::RFC3339_sec, now, absl::UTCTimeZone());
  return tier;
}

// The accelerator's identity: the one it has, else a new one. On an empty
// directory whose predecessor the catalog knows, only if that was asked for.
absl::StatusOr<TierId> IdentifyAccelerator(Context& context, Catalog& catalog,
                                           bool replace) {
  absl::StatusOr<TierId> found = ReadAcceleratorId(*context.accelerator);
  if (!absl::IsNotFound(found.status())) return found;
  CAIRN_ASSIGN_OR_RETURN(const std::string known,
                         catalog.GetSetting(kAcceleratorIdSetting));
  if (!known.empty() && !replace) {
    return absl::FailedPreconditionError(
        fmt::format("{} has no .cairn/tier.json, but this catalog knows an "
                    "accelerator tier "
                    "there. If it is only not mounted, mount it; if this is a "
                    "new, empty disk, "
                    "add --replace-accelerator",
                    EscapeName(context.options.accelerator_path)));
  }
  const TierId fresh = NewTierId("accelerator", context.clock->Now());
  absl::Status written = context.accelerator->WriteFileDurably(
      kTierFile, AsBytes(EncodeTierId(fresh)), /*replace=*/false);
  if (absl::IsAlreadyExists(written)) {
    return ReadAcceleratorId(*context.accelerator);
  }
  CAIRN_RETURN_IF_ERROR(written);
  return fresh;
}

absl::StatusOr<TierId> IdentifyCore(Context& context,
                                    const std::string& known) {
  absl::StatusOr<TierId> found = ReadCoreId(*context.core);
  if (!absl::IsNotFound(found.status())) return found;
  if (!known.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "{} has no .cairn/tier.json, but this catalog knows a core tier there. "
        "If "
        "it is only not mounted, mount it; for a new one use another state_dir",
        EscapeName(context.options.core_urls.front())));
  }
  const TierId fresh = NewTierId("core", context.clock->Now());
  absl::Status put =
      context.core->Put(kTierFile, AsBytes(EncodeTierId(fresh)),
                        {.metadata = {}, .crc64_nvme = {}, .barrier = true});
  if (absl::IsAlreadyExists(put)) return ReadCoreId(*context.core);
  CAIRN_RETURN_IF_ERROR(put);
  return fresh;
}

// Nothing is known of what lay on the tier that is gone.
absl::Status ForgetAccelerator(Catalog& catalog) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> records,
                         catalog.All());
  for (CheckpointRecord record : records) {
    if (!record.core.manifest) {
      CAIRN_RETURN_IF_ERROR(catalog.Remove(record.generation));
      continue;
    }
    record.accelerator = {};
    record.dirty = false;
    CAIRN_RETURN_IF_ERROR(catalog.Upsert(record));
    CAIRN_RETURN_IF_ERROR(catalog.SetFingerprints(record.generation, {}, ""));
  }
  return absl::OkStatus();
}

absl::Status CheckConditionalCreate(ObjectStore& core) {
  // The identity is there by now, so storing it again must be refused.
  absl::Status again = core.Put(kTierFile, AsBytes("{}"), {});
  if (absl::IsAlreadyExists(again)) return absl::OkStatus();
  if (!again.ok()) return again;
  return absl::FailedPreconditionError(
      "the core tier replaces objects that exist; cairn needs a store that "
      "refuses "
      "to (conditional create)");
}

absl::StatusOr<bool> IsFresh(Catalog& catalog) {
  CAIRN_ASSIGN_OR_RETURN(const std::string known,
                         catalog.GetSetting(kCoreIdSetting));
  return known.empty();
}

}  // namespace

absl::Status InitTiers(const InitOptions& options, Observer* observer) {
  CAIRN_RETURN_IF_ERROR(MakeDirectory(options.options.state_dir));
  CAIRN_ASSIGN_OR_RETURN(
      const Lock lock,
      Lock::OfStore(options.options.state_dir, Lock::Mode::kExclusive));
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<Context> context,
                         OpenTiers(options.options, observer, /*create=*/true));
  CAIRN_ASSIGN_OR_RETURN(context->catalog,
                         Catalog::Open(CatalogConnection(options.options)));
  Catalog& catalog = *context->catalog;
  CAIRN_ASSIGN_OR_RETURN(const bool fresh, IsFresh(catalog));
  CAIRN_ASSIGN_OR_RETURN(const std::string known_core,
                         catalog.GetSetting(kCoreIdSetting));
  // The core tier is checked before anything is written to a new accelerator.
  CAIRN_ASSIGN_OR_RETURN(const TierId core, IdentifyCore(*context, known_core));
  if (!known_core.empty() && known_core != core.id) {
    return absl::FailedPreconditionError(
        fmt::format("{} is another core tier than this catalog knows; use "
                    "another state_dir for "
                    "it",
                    EscapeName(options.options.core_urls.front())));
  }
  CAIRN_RETURN_IF_ERROR(CheckConditionalCreate(*context->core));
  CAIRN_ASSIGN_OR_RETURN(
      const TierId accelerator,
      IdentifyAccelerator(*context, catalog, options.replace_accelerator));
  CAIRN_ASSIGN_OR_RETURN(const std::string known,
                         catalog.GetSetting(kAcceleratorIdSetting));
  const bool replaced = !known.empty() && known != accelerator.id;
  if (replaced && !options.replace_accelerator) {
    return absl::FailedPreconditionError(fmt::format(
        "{} is another accelerator tier than this catalog knows; add "
        "--replace-accelerator if it takes the old one's place for good",
        EscapeName(options.options.accelerator_path)));
  }
  context->accelerator_id = accelerator.id;
  context->core_id = core.id;
  if (fresh || replaced) {
    if (replaced) CAIRN_RETURN_IF_ERROR(ForgetAccelerator(catalog));
    CAIRN_RETURN_IF_ERROR(catalog.Close());
    context->catalog.reset();
    // Tiers that were in use before bring their checkpoints along.
    return RebuildCatalog(*context).status();
  }
  return absl::OkStatus();
}

absl::StatusOr<OpenedStore> OpenForVerbs(const Options& options,
                                         Observer* observer, Lock::Mode mode) {
  OpenedStore opened;
  struct stat state;
  if (stat(options.state_dir.c_str(), &state) != 0) {
    if (errno != ENOENT) {
      return PosixError(errno, "look at", options.state_dir);
    }
    CAIRN_RETURN_IF_ERROR(MakeDirectory(options.state_dir));
  }
  CAIRN_ASSIGN_OR_RETURN(opened.lock, Lock::OfStore(options.state_dir, mode));
  CAIRN_ASSIGN_OR_RETURN(opened.context,
                         OpenTiers(options, observer, /*create=*/false));
  Context& context = *opened.context;
  CAIRN_ASSIGN_OR_RETURN(context.catalog,
                         Catalog::Open(CatalogConnection(options)));
  CAIRN_RETURN_IF_ERROR(CheckTierIds(context, *context.catalog));
  CAIRN_ASSIGN_OR_RETURN(const bool fresh, IsFresh(*context.catalog));
  if (!fresh) return opened;
  // The catalog was deleted, or this host never had one: an index is made
  // again.
  context.catalog.reset();
  opened.lock = Lock();
  context.observer->OnNotice(
      "the catalog is empty; it is made again from the tiers");
  CAIRN_RETURN_IF_ERROR(RebuildFromTiers(options, observer).status());
  CAIRN_ASSIGN_OR_RETURN(opened.lock, Lock::OfStore(options.state_dir, mode));
  CAIRN_ASSIGN_OR_RETURN(context.catalog,
                         Catalog::Open(CatalogConnection(options)));
  return opened;
}

absl::StatusOr<RebuildReport> RebuildFromTiers(const Options& options,
                                               Observer* observer) {
  CAIRN_RETURN_IF_ERROR(MakeDirectory(options.state_dir));
  CAIRN_ASSIGN_OR_RETURN(
      const Lock lock,
      Lock::OfStore(options.state_dir, Lock::Mode::kExclusive));
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<Context> context,
                         OpenTiers(options, observer, /*create=*/false));
  absl::StatusOr<std::unique_ptr<Catalog>> old =
      Catalog::Open(CatalogConnection(options));
  if (old.ok()) {
    CAIRN_RETURN_IF_ERROR(CheckTierIds(*context, **old));
    CAIRN_RETURN_IF_ERROR((*old)->Close());
  } else {
    // Damaged: only the tiers' own word is left. Both must have an identity.
    CAIRN_ASSIGN_OR_RETURN(const TierId accelerator,
                           ReadAcceleratorId(*context->accelerator));
    CAIRN_ASSIGN_OR_RETURN(const TierId core, ReadCoreId(*context->core));
    context->accelerator_id = accelerator.id;
    context->core_id = core.id;
  }
  return RebuildCatalog(*context);
}

}  // namespace cairn
