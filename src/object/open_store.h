// From a URL in cairn.toml to an ObjectStore: the one place that chooses.

#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "io/io_engine.h"
#include "object/object_store.h"

namespace cairn {

// file:///dir. `engine` must outlive the store.
// kInvalidArgument: not a URL this build knows; lists those it does.
// kNotFound: the directory is not there (an unmounted tier is not created; only
// `create` makes it, for `cairn init`).
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenStore(std::string_view url,
                                                       IoEngine* engine,
                                                       bool create);

}  // namespace cairn
