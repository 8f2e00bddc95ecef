#include "apps/cairn/config_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/posix.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "toml++/toml.h"

namespace cairn {

namespace {

std::string Quoted(const std::string& text) {
  std::ostringstream out;
  const toml::value<std::string> value(text);
  // Without flags it is always "...", with what needs it escaped.
  out << toml::default_formatter(value, toml::format_flags::none);
  return out.str();
}

absl::Status WriteAll(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return PosixError(errno, "write", path);
    text.remove_prefix(written);
  }
  if (fsync(fd) != 0) return PosixError(errno, "sync", path);
  return absl::OkStatus();
}

// Gives `from` the name `to` unless that is taken. Returns errno.
int RenameExclusively(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                RENAME_NOREPLACE) == 0) {
    return 0;
  }
  if (errno != EINVAL && errno != ENOSYS) return errno;
  // File systems without it, NFS for one, have links.
  if (link(from.c_str(), to.c_str()) != 0) return errno;
  unlink(from.c_str());
  return 0;
}

}  // namespace

std::string ConfigText(const ConfigValues& values) {
  std::string text =
      "# The configuration of cairn; docs/cli.md explains every key.\n\n";
  if (!values.state_dir.empty()) {
    text += fmt::format("state_dir = {}\n\n", Quoted(values.state_dir));
  }
  return text + fmt::format(
                    "[accelerator]\n"
                    "path = {}\n\n"
                    "[[core]]\n"
                    "url = {}\n\n"
                    "[export]\n"
                    "enabled = true\n"
                    "prefixes = [\"\"]             # which runs: every one\n"
                    "# max_rate = \"7.5GB/s\"\n",
                    Quoted(values.accelerator_path), Quoted(values.core_url));
}

NewConfigFile::NewConfigFile(std::string path, std::string temporary_path)
    : path_(std::move(path)), temporary_path_(std::move(temporary_path)) {}

NewConfigFile::NewConfigFile(NewConfigFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_path_(std::exchange(other.temporary_path_, "")) {}

NewConfigFile::~NewConfigFile() {
  if (!temporary_path_.empty()) unlink(temporary_path_.c_str());
}

absl::StatusOr<NewConfigFile> NewConfigFile::Write(const std::string& path,
                                                   const std::string& text) {
  const std::string temporary = fmt::format("{}.new-{}", path, getpid());
  const UniqueFd fd(
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.ok()) return PosixError(errno, "create", temporary);
  NewConfigFile file(path, temporary);
  CAIRN_RETURN_IF_ERROR(WriteAll(fd.get(), text, temporary));
  return file;
}

absl::Status NewConfigFile::Publish(bool replace) {
  int error = 0;
  if (replace) {
    if (rename(temporary_path_.c_str(), path_.c_str()) != 0) error = errno;
  } else {
    error = RenameExclusively(temporary_path_, path_);
  }
  if (error != 0) return PosixError(error, "create", path_);
  temporary_path_.clear();
  std::string directory = std::filesystem::path(path_).parent_path().string();
  if (directory.empty()) directory = ".";
  const UniqueFd fd(open(directory.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return PosixError(errno, "open", directory);
  if (fsync(fd.get()) != 0) return PosixError(errno, "sync", directory);
  return absl::OkStatus();
}

}  // namespace cairn
