// The program `cairn`.

#include <csignal>

#include "apps/cairn/command_line.h"
#include "apps/cairn/exit_code.h"
#include "apps/cairn/progress.h"
#include "apps/cairn/session.h"
#include "base/posix.h"
#include "fmt/format.h"

int main(int argc, char** argv) {
  // `cairn ls | head` ends quietly, and a reader that went away must not kill a
  // verb in the middle of its work.
  std::signal(SIGPIPE, SIG_IGN);
  cairn::ClearProgressOnSignals();
  const int code = cairn::RunCommandLine(argc, argv);
  const int error = cairn::FinishOutput();
  if (error == 0) return code;
  const absl::Status status =
      cairn::PosixError(error, "write the answer to", "standard output");
  cairn::WriteToStandardError(
      fmt::format("cairn: {}\n", cairn::Message(status)));
  return code != 0 ? code : static_cast<int>(cairn::ExitCode::kFailed);
}
