// What every verb works with: the two tiers, the catalog, and how to reach
// them.
//
// Built by OpenContext() for one Store; the verbs (scanner.h, exporter.h, ...)
// are classes or functions that borrow it. Thread-safe as far as its members
// are.

#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/buffer_pool.h"
#include "base/clock.h"
#include "cairn/options.h"
#include "cairn/store.h"
#include "catalog/catalog.h"
#include "catalog/tier_id.h"
#include "format/recogniser.h"
#include "io/io_engine.h"
#include "io/root.h"
#include "object/object_store.h"

namespace cairn {

struct Context {
  Options options;
  Observer* observer = nullptr;  // Never null: a silent one stands in.
  Clock* clock = nullptr;
  std::unique_ptr<IoEngine> io;
  std::unique_ptr<Root> accelerator;
  std::unique_ptr<ObjectStore> core;
  std::unique_ptr<Catalog> catalog;
  std::unique_ptr<Recogniser> recogniser;
  std::unique_ptr<BufferPool> buffers;  // Of kDigestBlockBytes.
  std::string accelerator_id;
  std::string core_id;
  int threads = 4;

  int64_t NowNs() const;
};

// Setting keys in the catalog.
inline constexpr char kAcceleratorIdSetting[] = "accelerator_id";
inline constexpr char kCoreIdSetting[] = "core_id";

// Everything but the catalog and the tiers' identities.
absl::StatusOr<std::unique_ptr<Context>> OpenTiers(const Options& options,
                                                   Observer* observer,
                                                   bool create);

// Reads the identity of a tier. kNotFound: it has none.
absl::StatusOr<TierId> ReadAcceleratorId(const Root& root);
absl::StatusOr<TierId> ReadCoreId(ObjectStore& store);

// Compares the tiers' identities with `catalog`'s. kFailedPrecondition names
// the tier, says what was found and what to do.
absl::Status CheckTierIds(Context& context, Catalog& catalog);

std::string CatalogConnection(const Options& options);

// A directory of ours below the accelerator tier's root.
inline constexpr char kStagingDirectory[] = ".cairn/staging";
inline constexpr char kInboxDirectory[] = ".cairn/inbox";

}  // namespace cairn
