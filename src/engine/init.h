// Giving tiers their identity, and opening a store over them.

#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cairn/store.h"
#include "engine/context.h"
#include "engine/locks.h"

namespace cairn {

absl::Status InitTiers(const InitOptions& options, Observer* observer);

// Tiers, catalog (rebuilt if it is empty) and identities, all checked. `lock`
// is the store's lock, held in `mode`.
struct OpenedStore {
  Lock lock;
  std::unique_ptr<Context> context;
};
absl::StatusOr<OpenedStore> OpenForVerbs(const Options& options,
                                         Observer* observer, Lock::Mode mode);

absl::StatusOr<RebuildReport> RebuildFromTiers(const Options& options,
                                               Observer* observer);

}  // namespace cairn
