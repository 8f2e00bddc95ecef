#include "object/open_store.h"

#include <fmt/format.h>

#include <string>

#include "base/escape.h"
#include "base/status_macros.h"
#include "object/directory_store.h"

namespace cairn {

// What follows "file://" is the path, byte for byte: nothing is decoded, so
// that "file://$PWD/core" is right in every directory.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenStore(std::string_view url,
                                                       IoEngine* engine,
                                                       bool create) {
  constexpr std::string_view kFileScheme = "file://";
  const std::string_view path =
      url.starts_with(kFileScheme) ? url.substr(kFileScheme.size()) : "";
  if (!path.starts_with('/') || path.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is not the URL of a core tier; this build knows "
                    "file:///absolute/directory",
                    EscapeName(url)));
  }
  CAIRN_ASSIGN_OR_RETURN(
      std::unique_ptr<DirectoryStore> store,
      DirectoryStore::Open(std::string(path), engine, create));
  return store;
}

}  // namespace cairn
