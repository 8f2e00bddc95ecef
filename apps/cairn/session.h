// One run of one verb: the configuration, the store, and where output goes.
//
// Standard output carries what was asked for and nothing else; all other words
// go to standard error. One thread at a time, but for observer().

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "apps/cairn/progress.h"
#include "cairn/options.h"
#include "cairn/store.h"

namespace cairn {

// The flags that every verb has.
struct GlobalFlags {
  std::string config;
  bool json = false;
  bool quiet = false;
  bool no_progress = false;
};

class Session {
 public:
  Session(std::string_view verb, const GlobalFlags& flags);

  const GlobalFlags& flags() const { return flags_; }
  bool json() const { return flags_.json; }
  Observer* observer() { return &progress_; }
  absl::Duration elapsed() const;

  // Reads the configuration; then also opens the store.
  absl::Status LoadConfiguration();
  absl::Status Open();
  const Options& options() const { return options_; }
  Store& store() { return *store_; }

  // The raw name that the user means (checkpoint_path.h). After Open().
  std::string Path(std::string_view argument) const;
  std::vector<std::string> Paths(
      const std::vector<std::string>& arguments) const;

  // To standard output: the answer.
  void Print(std::string_view text);
  // To standard output, unless --quiet or --json: an account of what was done.
  void Account(std::string_view text);
  // To standard error with the program's name before it: one line; a note is
  // left out with --quiet.
  void Note(std::string_view text);
  void Problem(std::string_view text);

 private:
  const std::string prefix_;
  const GlobalFlags flags_;
  const absl::Time start_;
  Progress progress_;
  Options options_;
  std::unique_ptr<Store> store_;  // Borrows progress_.
};

// At once, and without caring whether anybody reads it.
void WriteToStandardError(std::string_view text);

// Ends what was written to standard output. 0, or the errno for which some of
// it could not be written; that nobody read it to the end is no error.
int FinishOutput();

}  // namespace cairn
