// `cairn init`: makes the tiers cairn's own and writes cairn.toml.

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "apps/cairn/config_file.h"
#include "apps/cairn/json.h"
#include "apps/cairn/verb.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "cairn/store.h"
#include "fmt/format.h"

namespace cairn {

namespace {

namespace fs = std::filesystem;

constexpr char kDefaultConfig[] = "cairn.toml";
constexpr std::string_view kFileScheme = "file://";

constexpr VerbHelp kHelp = {
    .name = "init",
    .group = "Everyday verbs",
    .summary = "set up the two tiers and write cairn.toml",
    .description =
        "Gives both tiers an identity, makes the state directory with the\n"
        "catalog, and writes ./cairn.toml (or the file that --config names)\n"
        "with absolute paths. Directories are made where they are missing.\n"
        "Nothing that is there is changed: a tier that has an identity is\n"
        "joined, and a second run with the same tiers does no harm.\n"
        "\n"
        "If the accelerator disk was replaced or emptied, cairn refuses to\n"
        "work on it, as an empty directory might be a file system that is\n"
        "not mounted. --replace-accelerator says that it is the new one.",
    .examples =
        "cairn init --accelerator ./acc --core file://$PWD/core\n"
        "cairn init --accelerator /lustre/ckpt --core file:///archive \\\n"
        "    --state-dir /var/lib/cairn\n"
        "cairn init --replace-accelerator     # a new disk, the same tiers",
    .exit_codes = "1: another configuration is there already",
};

std::string Absolute(const std::string& path) {
  std::error_code error;
  std::string absolute = fs::absolute(path, error).lexically_normal().string();
  while (absolute.size() > 1 && absolute.ends_with('/')) absolute.pop_back();
  return error ? path : absolute;
}

bool IsSameDirectory(const std::string& a, const std::string& b) {
  std::error_code error;
  return a == b || fs::equivalent(a, b, error);
}

bool IsSameUrl(const std::string& a, const std::string& b) {
  if (a == b) return true;
  if (!a.starts_with(kFileScheme) || !b.starts_with(kFileScheme)) return false;
  return IsSameDirectory(Absolute(a.substr(kFileScheme.size())),
                         Absolute(b.substr(kFileScheme.size())));
}

absl::StatusOr<std::string> CheckedUrl(const std::string& url) {
  if (url.find("://") == std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("--core \"{0}\" is not a URL; for a directory write "
                    "--core file://{1}",
                    EscapeForDisplay(url), EscapeForDisplay(Absolute(url))));
  }
  if (!url.starts_with(kFileScheme)) return url;
  const std::string path = url.substr(kFileScheme.size());
  if (!path.starts_with('/')) {
    return absl::InvalidArgumentError(fmt::format(
        "--core \"{}\": the path must be absolute; write --core file://{}",
        EscapeForDisplay(url), EscapeForDisplay(Absolute(path))));
  }
  return fmt::format("{}{}", kFileScheme, Absolute(path));
}

class InitVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& arguments) override {
    arguments.Text("--accelerator", "DIR", &accelerator_,
                   "Where training writes: the accelerator tier");
    arguments.Text("--core", "URL", &core_,
                   "What keeps: the core tier, as file:///dir");
    arguments.Text("--state-dir", "DIR", &state_dir_,
                   "Where the catalog lies (default: ./cairn-state)");
    arguments.Flag("--replace-accelerator", &replace_accelerator_,
                   "The accelerator directory is a new one: take it");
    arguments.Flag("--force", &force_,
                   "Replace a cairn.toml that names other tiers");
  }

  absl::StatusOr<ExitCode> Run(Session& session) override {
    if (accelerator_.empty() && core_.empty()) return Again(session);
    if (accelerator_.empty() || core_.empty()) {
      return absl::InvalidArgumentError(
          "--accelerator DIR and --core URL go together");
    }
    accelerator_ = Absolute(accelerator_);
    if (!state_dir_.empty()) state_dir_ = Absolute(state_dir_);
    CAIRN_ASSIGN_OR_RETURN(core_, CheckedUrl(core_));
    FlagsOutrankEnvironment(session);

    config_ = Absolute(session.flags().config.empty() ? kDefaultConfig
                                                      : session.flags().config);
    std::error_code error;
    if (fs::exists(fs::symlink_status(config_, error))) {
      CAIRN_ASSIGN_OR_RETURN(const bool same, IsSameConfiguration());
      if (same) {
        CAIRN_ASSIGN_OR_RETURN(const Options options, LoadOptions(config_));
        return Finish(session, options);
      }
    }
    return Fresh(session);
  }

 private:
  // No tiers named: those of the configuration that is there.
  absl::StatusOr<ExitCode> Again(Session& session) {
    if (!state_dir_.empty() || force_) {
      return absl::InvalidArgumentError(
          "--accelerator DIR and --core URL are missing");
    }
    const absl::Status loaded = session.LoadConfiguration();
    if (absl::IsNotFound(loaded)) {
      return absl::InvalidArgumentError(
          "give --accelerator DIR and --core URL: there is no configuration "
          "yet");
    }
    CAIRN_RETURN_IF_ERROR(loaded);
    config_ = session.flags().config;
    return Finish(session, session.options());
  }

  absl::StatusOr<bool> IsSameConfiguration() const {
    const absl::StatusOr<Options> there = LoadOptions(config_);
    if (!there.ok()) {
      if (force_) return false;
      return Annotate(there.status(),
                      "there is a configuration that cannot be read (--force "
                      "replaces it)");
    }
    const bool same =
        IsSameDirectory(there->accelerator_path, accelerator_) &&
        there->core_urls.size() == 1 && IsSameUrl(there->core_urls[0], core_) &&
        (state_dir_.empty() || IsSameDirectory(there->state_dir, state_dir_));
    if (same || force_) return same;
    return absl::AlreadyExistsError(fmt::format(
        "{} is there already, for the accelerator tier {} and the core tier "
        "{}; edit it, work in another directory, or replace it with --force",
        EscapeForDisplay(config_), EscapeForDisplay(there->accelerator_path),
        EscapeForDisplay(
            fmt::format("{}", fmt::join(there->core_urls, ", ")))));
  }

  // A new configuration: it appears last, when all it speaks of is there.
  absl::StatusOr<ExitCode> Fresh(Session& session) {
    const std::string text = ConfigText({.accelerator_path = accelerator_,
                                         .core_url = core_,
                                         .state_dir = state_dir_});
    CAIRN_ASSIGN_OR_RETURN(NewConfigFile file,
                           NewConfigFile::Write(config_, text));
    const absl::StatusOr<Options> options = LoadOptions(file.temporary_path());
    if (!options.ok()) {
      std::string message = Message(options.status());
      const std::string name = EscapeForDisplay(file.temporary_path()) + ": ";
      if (message.starts_with(name)) message.erase(0, name.size());
      return absl::Status(options.status().code(), message);
    }
    new_file_.emplace(std::move(file));
    return Finish(session, *options);
  }

  absl::StatusOr<ExitCode> Finish(Session& session, const Options& options) {
    // A directory that a configuration names and that is gone may be a file
    // system that is not mounted: it is made only on the user's word.
    if (new_file_ || replace_accelerator_) {
      CAIRN_RETURN_IF_ERROR(MakeDirectories(options.accelerator_path));
    }
    InitOptions init;
    init.options = options;
    init.replace_accelerator = replace_accelerator_;
    CAIRN_RETURN_IF_ERROR(Store::Init(init, session.observer()));
    const bool is_new = new_file_.has_value();
    if (is_new) CAIRN_RETURN_IF_ERROR(new_file_->Publish(force_));
    if (session.json()) {
      session.Print(JsonOfInit(config_, is_new, options));
      return ExitCode::kDone;
    }
    session.Account(fmt::format(
        "accelerator tier  {}{}\n"
        "core tier         {}\n"
        "configuration     {}{}\n"
        "catalog in        {}\n\n"
        "Next: `cairn scan` shows what is there and commits what is complete,\n"
        "`cairn export --all` copies it to the core tier.\n",
        EscapeForDisplay(options.accelerator_path),
        made_accelerator_ ? " (made)" : "",
        EscapeForDisplay(fmt::format("{}", fmt::join(options.core_urls, ", "))),
        config_.empty() ? "as found" : EscapeForDisplay(config_),
        is_new ? " (written)" : " (was there, and is as asked for)",
        EscapeForDisplay(options.state_dir)));
    return ExitCode::kDone;
  }

  absl::Status MakeDirectories(const std::string& path) {
    std::error_code error;
    made_accelerator_ = fs::create_directories(path, error);
    if (!error) return absl::OkStatus();
    return PosixError(error.value(), "make the accelerator directory", path);
  }

  static void FlagsOutrankEnvironment(Session& session) {
    for (const char* name :
         {"CAIRN_ACCELERATOR", "CAIRN_CORE", "CAIRN_STATE_DIR"}) {
      if (std::getenv(name) == nullptr) continue;
      session.Note(fmt::format(
          "{} is set: init goes by its flags, but all other verbs will go by "
          "the variable; unset it unless that is meant",
          name));
      unsetenv(name);
    }
  }

  std::string accelerator_;
  std::string core_;
  std::string state_dir_;
  bool replace_accelerator_ = false;
  bool force_ = false;

  std::string config_;
  std::optional<NewConfigFile> new_file_;
  bool made_accelerator_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeInitVerb() { return std::make_unique<InitVerb>(); }

}  // namespace cairn
