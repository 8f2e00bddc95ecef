#include "apps/cairn/checkpoint_path.h"

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/status/statusor.h"
#include "cairn/store.h"

namespace cairn {

namespace {

namespace fs = std::filesystem;

bool Exists(const fs::path& path) {
  struct stat status;
  return lstat(path.c_str(), &status) == 0;
}

std::string Tidied(std::string_view text) {
  std::string tidy;
  for (const char c : text) {
    if (c == '/' && tidy.ends_with('/')) continue;
    tidy += c;
  }
  while (tidy.starts_with("./")) tidy.erase(0, 2);
  while (tidy.size() > 1 && tidy.ends_with('/')) tidy.pop_back();
  return tidy == "." ? "" : tidy;
}

// `path` relative to `root`, both absolute; nullopt: not in there.
std::optional<std::string> Below(const fs::path& root, const fs::path& path) {
  const std::string relative =
      path.lexically_normal().lexically_relative(root).string();
  if (relative.empty() || relative == ".." || relative.starts_with("../")) {
    return std::nullopt;
  }
  return Tidied(relative);
}

// As `Below`, also where a symbolic link leads to the one or the other. The
// last component is never followed: it may itself be a link on the tier.
std::optional<std::string> OnTier(const fs::path& root, const fs::path& path) {
  if (const auto found = Below(root, path)) return found;
  std::error_code error;
  const fs::path real_root = fs::canonical(root, error);
  if (error) return std::nullopt;
  const fs::path tidy(Tidied(path.string()));
  if (fs::equivalent(root, tidy, error) && !error) return "";
  const fs::path real_parent = fs::weakly_canonical(tidy.parent_path(), error);
  if (error) return std::nullopt;
  return Below(real_root, real_parent / tidy.filename());
}

}  // namespace

std::string CheckpointPath(std::string_view argument,
                           const std::string& accelerator_path) {
  const absl::StatusOr<std::string> unescaped = UnescapeFromDisplay(argument);
  const std::string name =
      Tidied(unescaped.ok() ? *unescaped : std::string(argument));
  const fs::path root(accelerator_path);

  // A path of a file is as the shell has it: raw.
  const std::string typed(argument);
  if (typed.starts_with('/')) {
    if (Exists(typed)) return OnTier(root, typed).value_or(name);
    return OnTier(root, "/" + name).value_or(name);
  }
  if (!name.empty() && Exists(root / name)) return name;
  std::error_code error;
  const fs::path directory = fs::current_path(error);
  if (!error && !typed.empty() && Exists(directory / typed)) {
    if (const auto found = OnTier(root, directory / typed)) return *found;
  }
  return name;
}

}  // namespace cairn
