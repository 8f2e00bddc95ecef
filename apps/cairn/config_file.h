// Writes cairn.toml, whole or not at all. One thread at a time.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cairn {

struct ConfigValues {
  std::string accelerator_path;  // Absolute.
  std::string core_url;
  std::string state_dir;  // Absolute; "": the default.
};

std::string ConfigText(const ConfigValues& values);

// A new file beside its final place, which it takes by Publish(). Until then it
// is named differently, and going away removes it.
class NewConfigFile {
 public:
  // `path` is where it will be.
  static absl::StatusOr<NewConfigFile> Write(const std::string& path,
                                             const std::string& text);
  NewConfigFile(NewConfigFile&& other) noexcept;
  NewConfigFile& operator=(NewConfigFile&&) = delete;
  ~NewConfigFile();

  const std::string& temporary_path() const { return temporary_path_; }

  // kAlreadyExists: another file is there by now, and `replace` is false.
  absl::Status Publish(bool replace);

 private:
  NewConfigFile(std::string path, std::string temporary_path);

  std::string path_;
  std::string temporary_path_;  // "": nothing to remove.
};

}  // namespace cairn
