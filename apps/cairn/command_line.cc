#include "apps/cairn/command_line.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "apps/cairn/exit_code.h"
#include "apps/cairn/session.h"
#include "apps/cairn/verb.h"
#include "base/posix.h"
#include "cairn/store.h"
#include "engine/nearest.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr std::string_view kAbout =
    "The tiered checkpoint store for AI training: checkpoints are written\n"
    "at the speed of the fastest disk (the accelerator tier), kept as long\n"
    "as the cheapest storage (the core tier), checked at every step\n"
    "between, and back in the trainer's hands in one call after a failure.";

constexpr std::string_view kFirstSteps =
    "An everyday session:\n"
    "  cairn init --accelerator ./acc --core file://$PWD/core\n"
    "  cairn scan            # what is there, complete or not, and why\n"
    "  cairn export --all    # copy to the core tier what is not there yet\n"
    "  cairn latest modelA   # the path of the newest good checkpoint\n"
    "  cairn restore modelA/checkpoint-1000\n"
    "  cairn verify modelA/checkpoint-1000 --tier core\n";

constexpr std::string_view kNames =
    "Checkpoints are named RUN/NAME, as their directories below the\n"
    "accelerator tier; paths of files on it are understood too. Bytes that\n"
    "cannot be printed are shown, and may be written, as %XX.\n";

constexpr std::string_view kConfiguration =
    "The configuration is the file given by --config, else ./cairn.toml,\n"
    "else $CAIRN_CONFIG, else /etc/cairn/cairn.toml. CAIRN_ACCELERATOR,\n"
    "CAIRN_CORE, CAIRN_STATE_DIR, CAIRN_EXPORT_MAX_RATE and CAIRN_THREADS\n"
    "outrank it.\n";

constexpr std::string_view kExitCodes =
    "Exit codes:\n"
    "  0 done   1 failed   2 wrong usage or configuration\n"
    "  3 data damaged or lost\n"
    "  4 nothing to do where something was asked for\n"
    "  5 partly done\n";

constexpr int kHelpColumn = 30;

std::string Indented(std::string_view text) {
  std::string out = "  ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

// CLI11 ends each group with an empty line and begins it with one.
std::string Tight(std::string text) {
  while (true) {
    const size_t gap = text.find("\n\n\n");
    if (gap == std::string::npos) return text;
    text.erase(gap, 1);
  }
}

// The pages of --help.
class HelpFormatter final : public CLI::Formatter {
 public:
  explicit HelpFormatter(const std::vector<std::unique_ptr<Verb>>& verbs) {
    column_width(kHelpColumn);
    label("Positionals", "Arguments");
    for (const auto& verb : verbs) helps_.push_back(&verb->help());
  }

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    for (const VerbHelp* help : helps_) {
      if (app->get_name() == help->name) return VerbPage(*app, *help, mode);
    }
    return MainPage(*app, std::move(name), mode);
  }

 private:
  std::string MainPage(const CLI::App& app, std::string name,
                       CLI::AppFormatMode mode) const {
    std::string page = fmt::format("cairn {}\n{}\n\nUsage: {} VERB [OPTIONS]\n",
                                   CAIRN_VERSION, kAbout, name);
    std::string_view group;
    for (const VerbHelp* help : helps_) {
      if (help->group != group) page += fmt::format("\n{}:\n", help->group);
      group = help->group;
      page += fmt::format("  {:<10}{}\n", help->name, help->summary);
    }
    page += fmt::format("{}\n{}\n{}\n{}\n{}\n", make_groups(&app, mode),
                        kFirstSteps, kNames, kConfiguration, kExitCodes);
    page += "`cairn VERB --help` says more about each.\n";
    return page;
  }

  std::string VerbPage(const CLI::App& app, const VerbHelp& help,
                       CLI::AppFormatMode mode) const {
    std::string page = fmt::format("cairn {}: {}\n\nUsage: cairn {} [OPTIONS]",
                                   help.name, help.summary, help.name);
    for (const CLI::Option* option : app.get_options(
             [](const CLI::Option* one) { return one->get_positional(); })) {
      page += fmt::format(" {}{}{}{}", option->get_required() ? "" : "[",
                          option->get_name(true),
                          option->get_items_expected_max() > 1 ? "..." : "",
                          option->get_required() ? "" : "]");
    }
    page += fmt::format("\n\n{}\n", help.description);
    page += make_positionals(&app);
    page += Tight(make_groups(&app, mode));
    page += fmt::format("\nExamples:\n{}\n\n", Indented(help.examples));
    page += kExitCodes;
    if (!help.exit_codes.empty()) {
      page += fmt::format("For this verb:\n{}\n", Indented(help.exit_codes));
    }
    return page;
  }

  std::vector<const VerbHelp*> helps_;
};

// Arguments on a CLI11 subcommand.
class AppArguments final : public Arguments {
 public:
  explicit AppArguments(CLI::App* app) : app_(app) {}

  void Positional(const std::string& name, std::string* target, bool required,
                  const std::string& help) override {
    app_->add_option(name, *target, help)->required(required)->type_name("");
  }
  void Positionals(const std::string& name, std::vector<std::string>* target,
                   const std::string& help) override {
    app_->add_option(name, *target, help)->type_name("");
  }
  void Flag(const std::string& flag, bool* target,
            const std::string& help) override {
    app_->add_flag(flag, *target, help);
  }
  void Text(const std::string& flag, const std::string& value,
            std::string* target, const std::string& help) override {
    app_->add_option(flag, *target, help)->type_name(value);
  }
  void Texts(const std::string& flag, const std::string& value,
             std::vector<std::string>* target,
             const std::string& help) override {
    // One value each time: what follows may be a path.
    app_->add_option_function<std::string>(
            flag,
            [target](const std::string& text) { target->push_back(text); },
            help)
        ->type_name(value)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->trigger_on_parse();
  }
  void Number(const std::string& flag, const std::string& value,
              std::optional<int64_t>* target,
              const std::string& help) override {
    app_->add_option_function<int64_t>(
            flag, [target](const int64_t& number) { *target = number; }, help)
        ->type_name(value);
  }

 private:
  CLI::App* const app_;
};

void AddGlobalFlags(CLI::App* app, GlobalFlags* flags) {
  constexpr char kGroup[] = "Global options";
  app->set_help_flag("-h,--help", "Show this page")->group(kGroup);
  app->add_option("--config", flags->config, "Use this configuration file")
      ->type_name("FILE")
      ->group(kGroup);
  app->add_flag("--json", flags->json, "Answer in JSON (docs/cli.md)")
      ->group(kGroup);
  app->add_flag("-q,--quiet", flags->quiet,
                "Only the answer and what went wrong")
      ->group(kGroup);
  app->add_flag("--no-progress", flags->no_progress, "Show no progress")
      ->group(kGroup);
}

// CLI11 takes "[a,b]" for a list of values. It is a fine name for a checkpoint,
// and "./[a,b]" is the same one.
void ProtectBrackets(const CLI::App& app, std::vector<std::string>* arguments) {
  const CLI::App* verb = nullptr;
  for (size_t i = 0; i < arguments->size(); ++i) {
    std::string& argument = (*arguments)[i];
    if (verb == nullptr) {
      const auto verbs = app.get_subcommands(
          [&](const CLI::App* one) { return one->get_name() == argument; });
      if (!verbs.empty()) verb = verbs.front();
      continue;
    }
    if (!argument.starts_with('[') || !argument.ends_with(']')) continue;
    const std::string& before = (*arguments)[i - 1];
    const CLI::Option* const option =
        before.starts_with('-') ? verb->get_option_no_throw(before) : nullptr;
    if (option == nullptr || option->get_items_expected_max() == 0) {
      argument.insert(0, "./");
    }
  }
}

int Complain(std::string_view where, std::string_view what) {
  const std::string command =
      where.empty() ? "cairn" : fmt::format("cairn {}", where);
  WriteToStandardError(
      fmt::format("{}: {}\nTry `{} --help`.\n", command, what, command));
  return static_cast<int>(ExitCode::kUsage);
}

// Not by fmt::print, which throws when nobody reads.
void PrintAnswer(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

// The first argument that is no option; "" if there is none.
std::string VerbArgument(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--config") {
      ++i;
    } else if (!arguments[i].starts_with('-')) {
      return arguments[i];
    }
  }
  return "";
}

ExitCode RunVerb(Verb& verb, const GlobalFlags& flags) {
  Session session(verb.help().name, flags);
  const absl::StatusOr<ExitCode> code = verb.Run(session);
  if (code.ok()) return *code;
  session.Problem(Message(code.status()));
  return ExitCodeOf(code.status());
}

// Parses, and either runs the verb or says why not.
int Run(std::vector<std::string> arguments) {
  const std::vector<std::unique_ptr<Verb>> verbs = MakeVerbs();
  GlobalFlags flags;
  CLI::App app("", "cairn");
  app.formatter(std::make_shared<HelpFormatter>(verbs));
  app.require_subcommand(1);
  app.set_version_flag("--version", "cairn " CAIRN_VERSION, "Show the version")
      ->group("Global options");
  AddGlobalFlags(&app, &flags);
  std::map<const CLI::App*, Verb*> verb_of;
  std::vector<std::string_view> names = {"help"};
  for (const auto& verb : verbs) {
    CLI::App* const sub = app.add_subcommand(std::string(verb->help().name));
    AppArguments declared(sub);
    verb->Declare(declared);
    AddGlobalFlags(sub, &flags);
    verb_of[sub] = verb.get();
    names.push_back(verb->help().name);
  }

  // `cairn help VERB`
  if (!arguments.empty() && arguments[0] == "help") {
    arguments.erase(arguments.begin());
    arguments.resize(std::min<size_t>(arguments.size(), 1));
    arguments.emplace_back("--help");
  }
  const std::string wanted = VerbArgument(arguments);
  if (!wanted.empty() &&
      std::find(names.begin(), names.end(), wanted) == names.end()) {
    const std::string_view nearest = NearestName(wanted, names);
    return Complain(
        "",
        fmt::format(
            "there is no verb \"{}\"{}", EscapeForDisplay(wanted),
            nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
  }
  if (arguments.empty()) {
    WriteToStandardError(app.help());
    return static_cast<int>(ExitCode::kUsage);
  }
  ProtectBrackets(app, &arguments);
  std::reverse(arguments.begin(), arguments.end());  // As CLI11 wants them.
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    PrintAnswer(app.help());
    return 0;
  } catch (const CLI::CallForVersion&) {
    PrintAnswer("cairn " CAIRN_VERSION "\n");
    return 0;
  } catch (const CLI::ParseError& error) {
    return Complain(wanted, error.what());
  }
  const CLI::App* const chosen = app.get_subcommands().front();
  return static_cast<int>(RunVerb(*verb_of[chosen], flags));
}

}  // namespace

int RunCommandLine(int argc, char** argv) {
  try {
    return Run(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  } catch (const std::exception& error) {
    // Out of memory, or a mistake of ours.
    WriteToStandardError(fmt::format(
        "cairn: stopped by an unexpected error: {}\n", error.what()));
    return static_cast<int>(ExitCode::kFailed);
  }
}

}  // namespace cairn
