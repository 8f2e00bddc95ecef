#include "apps/cairn/session.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "apps/cairn/checkpoint_path.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace cairn {

namespace {

int output_error = 0;

Progress::Style ChooseStyle(const GlobalFlags& flags) {
  if (flags.json || flags.quiet || flags.no_progress) {
    return Progress::Style::kNone;
  }
  const char* const terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return isatty(STDERR_FILENO) == 1 && !dumb ? Progress::Style::kBar
                                             : Progress::Style::kLines;
}

int TerminalColumns() {
  constexpr int kUsual = 80;
  struct winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) return kUsual;
  return size.ws_col > 0 ? size.ws_col : kUsual;
}

Progress::Setup ProgressSetup(const std::string& prefix,
                              const GlobalFlags& flags) {
  return {.style = ChooseStyle(flags),
          .notices = !flags.quiet,
          .prefix = prefix,
          .columns = TerminalColumns(),
          .clock = Clock::Real(),
          .write = WriteToStandardError};
}

}  // namespace

void WriteToStandardError(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(written);
  }
}

int FinishOutput() {
  if (std::fflush(stdout) != 0 && output_error == 0) output_error = errno;
  return output_error == EPIPE ? 0 : output_error;
}

Session::Session(std::string_view verb, const GlobalFlags& flags)
    : prefix_(fmt::format("cairn {}: ", verb)),
      flags_(flags),
      start_(Clock::Real()->Now()),
      progress_(ProgressSetup(prefix_, flags)) {}

absl::Duration Session::elapsed() const {
  return Clock::Real()->Now() - start_;
}

absl::Status Session::LoadConfiguration() {
  CAIRN_ASSIGN_OR_RETURN(options_, LoadOptions(flags_.config));
  return absl::OkStatus();
}

absl::Status Session::Open() {
  CAIRN_RETURN_IF_ERROR(LoadConfiguration());
  CAIRN_ASSIGN_OR_RETURN(store_, Store::Open(options_, observer()));
  return absl::OkStatus();
}

std::string Session::Path(std::string_view argument) const {
  return CheckpointPath(argument, options_.accelerator_path);
}

std::vector<std::string> Session::Paths(
    const std::vector<std::string>& arguments) const {
  std::vector<std::string> paths;
  paths.reserve(arguments.size());
  for (const std::string& argument : arguments) paths.push_back(Path(argument));
  return paths;
}

void Session::Print(std::string_view text) {
  progress_.Clear();
  const size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written < text.size() && output_error == 0) output_error = errno;
}

void Session::Account(std::string_view text) {
  if (!flags_.quiet && !flags_.json) Print(text);
}

void Session::Note(std::string_view text) {
  if (!flags_.quiet) Problem(text);
}

void Session::Problem(std::string_view text) {
  progress_.Clear();
  // What was printed before stands before it, where both go to one place.
  std::fflush(stdout);
  WriteToStandardError(fmt::format("{}{}\n", prefix_, text));
}

}  // namespace cairn
