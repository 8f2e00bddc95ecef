// Places where the crash tests end the process, as kill -9 would.
//
// CAIRN_KILL_POINT("export.before_manifest") does nothing unless the
// environment has CAIRN_KILL_AT=export.before_manifest[:N]; then the N-th
// passage (the first without N) sends SIGKILL to this process. In a build
// without CAIRN_KILL_POINTS it compiles to nothing. With CAIRN_KILL_TRACE=FILE,
// every passage adds a line with its name to FILE. tests/crash finds the names
// by reading the sources, so a name is a string literal and stands in one place
// only.

#pragma once

#ifdef CAIRN_KILL_POINTS
namespace cairn {
void KillPoint(const char* name);  // Thread-safe.
}
#define CAIRN_KILL_POINT(name) ::cairn::KillPoint(name)
#else
#define CAIRN_KILL_POINT(name) \
  do {                         \
  } while (false)
#endif
