// How a store is opened: cairn.toml, the environment and flags come together
// here.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace cairn {

// A [[framework]] table: a user's own rule for what a checkpoint is.
struct FrameworkRule {
  std::string name;
  std::string directory;  // Regular expression; (?P<step>..), (?P<epoch>..).
  std::vector<std::string> complete;
  std::vector<std::string> in_progress;
  std::optional<absl::Duration> quiet;
  std::string pointer;
  std::string pointer_content;
};

// A [[retention]] table. Checked when read; acted on by `cairn retain`.
struct RetentionRule {
  std::string tier;
  std::string match;
  std::optional<int64_t> keep_last;
  std::string keep_every;
  std::optional<absl::Duration> max_age;
};

struct Options {
  std::string accelerator_path;
  std::vector<std::string> core_urls;
  std::string state_dir;  // Default: cairn-state/ beside cairn.toml.

  bool export_enabled = true;
  std::vector<std::string> export_prefixes;  // Empty or {""}: everything.
  uint64_t export_bytes_per_second_max = 0;  // 0: no limit.

  std::vector<FrameworkRule> frameworks;
  std::vector<RetentionRule> retention;

  // The generic rule's quiet time; nullopt: unknown layouts are never taken.
  std::optional<absl::Duration> generic_quiet;
  // A released file must have been unchanged this long where no lease can prove
  // that nobody has it open.
  absl::Duration release_grace = absl::Minutes(10);
  int threads = 0;  // 0: chosen from the CPUs, 4 to 16.
};

// Finds and reads the configuration: `config_path` if not "", else
// ./cairn.toml, else $CAIRN_CONFIG, else /etc/cairn/cairn.toml; then
// CAIRN_ACCELERATOR, CAIRN_CORE (comma-separated), CAIRN_STATE_DIR,
// CAIRN_EXPORT_MAX_RATE, CAIRN_THREADS override. Relative paths are taken from
// the file's directory. kNotFound: no file; says where it looked.
// kInvalidArgument: names the file, the line and the key; unknown keys are
// errors, with the nearest known one.
absl::StatusOr<Options> LoadOptions(const std::string& config_path);

}  // namespace cairn
