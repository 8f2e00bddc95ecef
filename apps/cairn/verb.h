// A verb of the command line: what it is called, what it takes, what it does.
//
// Each verb is one file that ends in its Make...Verb(); verbs.cc lists them.
// Verbs know neither CLI11 (command_line.cc does) nor anything below the public
// interface. One thread at a time.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/cairn/exit_code.h"
#include "apps/cairn/session.h"

namespace cairn {

// What --help shows. Lines end within 78 columns.
struct VerbHelp {
  std::string_view name;
  std::string_view group;        // Under which `cairn --help` lists it.
  std::string_view summary;      // One line.
  std::string_view description;  // Paragraphs.
  std::string_view examples;     // A command a line, with comments.
  std::string_view exit_codes;   // Where they say more than the general ones.
};

// What a verb takes. Every target must live until the verb has run.
class Arguments {
 public:
  virtual ~Arguments() = default;

  // In the order of the command line. `name` is shown in capitals.
  virtual void Positional(const std::string& name, std::string* target,
                          bool required, const std::string& help) = 0;
  virtual void Positionals(const std::string& name,
                           std::vector<std::string>* target,
                           const std::string& help) = 0;
  virtual void Flag(const std::string& flag, bool* target,
                    const std::string& help) = 0;
  // `flag` and what its value is called: "--reason", "TEXT".
  virtual void Text(const std::string& flag, const std::string& value,
                    std::string* target, const std::string& help) = 0;
  virtual void Texts(const std::string& flag, const std::string& value,
                     std::vector<std::string>* target,
                     const std::string& help) = 0;
  virtual void Number(const std::string& flag, const std::string& value,
                      std::optional<int64_t>* target,
                      const std::string& help) = 0;
};

class Verb {
 public:
  virtual ~Verb() = default;
  virtual const VerbHelp& help() const = 0;
  virtual void Declare(Arguments& arguments) = 0;
  // An error is printed and becomes an exit code by ExitCodeOf(status).
  virtual absl::StatusOr<ExitCode> Run(Session& session) = 0;
};

// All of them, in the order in which `cairn --help` lists them.
std::vector<std::unique_ptr<Verb>> MakeVerbs();

std::unique_ptr<Verb> MakeInitVerb();
std::unique_ptr<Verb> MakeScanVerb();
std::unique_ptr<Verb> MakeCommitVerb();
std::unique_ptr<Verb> MakeAdoptVerb();
std::unique_ptr<Verb> MakeSaveVerb();
std::unique_ptr<Verb> MakeLsVerb();
std::unique_ptr<Verb> MakeShowVerb();
std::unique_ptr<Verb> MakeLatestVerb();
std::unique_ptr<Verb> MakeExportVerb();
std::unique_ptr<Verb> MakeRestoreVerb();
std::unique_ptr<Verb> MakeVerifyVerb();
std::unique_ptr<Verb> MakeReleaseVerb();
std::unique_ptr<Verb> MakeRemoveVerb();
std::unique_ptr<Verb> MakeSweepVerb();
std::unique_ptr<Verb> MakePinVerb();
std::unique_ptr<Verb> MakeUnpinVerb();
std::unique_ptr<Verb> MakeRebuildVerb();
std::unique_ptr<Verb> MakeStatusVerb();
std::unique_ptr<Verb> MakeDoctorVerb();

}  // namespace cairn
