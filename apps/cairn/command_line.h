// From argv to a verb: parsing (CLI11), help, and the mapping to exit codes.

#pragma once

namespace cairn {

// The whole program but for process-wide settings. Returns the exit code.
int RunCommandLine(int argc, char** argv);

}  // namespace cairn
