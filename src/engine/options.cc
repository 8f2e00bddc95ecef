// LoadOptions: cairn.toml by toml++, then the environment.
//
// What a key is called, what it takes and where it goes is one line in a table
// of fields (ReadDocument), so that reading, the check for unknown keys and the
// suggestions of near ones cannot come apart. Everything is checked here, but
// for the regular expressions of [[framework]] rules, which the recogniser
// checks when the store is opened. One thread at a time, as getenv() is.

#include "cairn/options.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "engine/nearest.h"
#include "fmt/format.h"
#include "toml++/toml.h"

namespace cairn {

namespace {

constexpr char kDefaultFile[] = "cairn.toml";
constexpr char kSystemFile[] = "/etc/cairn/cairn.toml";
constexpr char kFileScheme[] = "file://";

// A configuration is some kilobytes; what is larger is another file.
constexpr size_t kConfigBytesMax = 1 << 20;
constexpr size_t kListEntriesMax = 1000;  // Of any list in it.
constexpr int64_t kThreadsMax = 256;
constexpr int64_t kKeepMax = 1'000'000'000;  // Checkpoints or steps.

// --- Values
// -------------------------------------------------------------------

// Puts a node's value where it belongs, or says what is wrong with it.
using ReadNode = std::function<absl::Status(const toml::node&)>;

struct Field {
  std::string_view key;
  ReadNode read;
  bool required = false;
};

absl::Status Wrong(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

std::string_view TypeName(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

absl::Status WrongType(std::string_view wanted, const toml::node& node) {
  return Wrong(fmt::format("must be {}, not {}", wanted, TypeName(node)));
}

absl::StatusOr<std::string> AsString(const toml::node& node,
                                     std::string_view wanted) {
  const auto* const value = node.as_string();
  if (value == nullptr) return WrongType(wanted, node);
  if (value->get().find('\0') != std::string::npos) {
    return Wrong("must not hold a NUL character");
  }
  return value->get();
}

ReadNode Text(std::string* out) {
  return [out](const toml::node& node) -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(*out, AsString(node, "a string"));
    return out->empty() ? Wrong("must not be empty") : absl::OkStatus();
  };
}

ReadNode Bool(bool* out) {
  return [out](const toml::node& node) -> absl::Status {
    if (!node.is_boolean()) {
      return WrongType("true or false (without quotes)", node);
    }
    *out = node.as_boolean()->get();
    return absl::OkStatus();
  };
}

absl::StatusOr<int64_t> AsInteger(const toml::node& node, int64_t least,
                                  int64_t most) {
  const auto* const value = node.as_integer();
  if (value == nullptr) {
    return WrongType("a whole number (without quotes)", node);
  }
  if (value->get() < least || value->get() > most) {
    return Wrong(fmt::format("must be from {} to {}, not {}", least, most,
                             value->get()));
  }
  return value->get();
}

absl::StatusOr<std::vector<std::string>> AsStrings(const toml::node& node) {
  const auto* const list = node.as_array();
  if (list == nullptr) return WrongType("a list of strings", node);
  if (list->size() > kListEntriesMax) {
    return Wrong(
        fmt::format("must not have more than {} entries", kListEntriesMax));
  }
  std::vector<std::string> strings;
  for (const toml::node& entry : *list) {
    CAIRN_ASSIGN_OR_RETURN(std::string text,
                           AsString(entry, "a list of strings"));
    strings.push_back(std::move(text));
  }
  return strings;
}

ReadNode Names(std::vector<std::string>* out) {
  return [out](const toml::node& node) -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(*out, AsStrings(node));
    for (const std::string& name : *out) {
      if (name.empty()) return Wrong("must not hold an empty string");
    }
    return absl::OkStatus();
  };
}

// Prefixes of runs, in the escaped form like every name; what is no escaped
// name stands for itself.
ReadNode Prefixes(std::vector<std::string>* out) {
  return [out](const toml::node& node) -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(*out, AsStrings(node));
    for (std::string& prefix : *out) {
      if (prefix.starts_with('/')) {
        return Wrong(
            fmt::format("\"{}\" must be relative to the accelerator "
                        "tier, as in \"modelA\"",
                        EscapeName(prefix)));
      }
      const absl::StatusOr<std::string> raw = UnescapeName(prefix);
      if (raw.ok()) prefix = *raw;
    }
    return absl::OkStatus();
  };
}

absl::StatusOr<absl::Duration> AsDuration(const toml::node& node) {
  CAIRN_ASSIGN_OR_RETURN(
      const std::string text,
      AsString(node, "a duration in quotes, such as \"10 min\""));
  return ParseDuration(text);
}

ReadNode Duration(absl::Duration* out) {
  return [out](const toml::node& node) -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(*out, AsDuration(node));
    return absl::OkStatus();
  };
}

ReadNode PositiveDuration(std::optional<absl::Duration>* out) {
  return [out](const toml::node& node) -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(*out, AsDuration(node));
    return **out > absl::ZeroDuration() ? absl::OkStatus()
                                        : Wrong("must be more than zero");
  };
}

absl::StatusOr<uint64_t> PositiveRate(std::string_view text) {
  CAIRN_ASSIGN_OR_RETURN(const uint64_t rate, ParseBytesPerSecond(text));
  if (rate == 0) {
    return Wrong("must be more than zero; leave it out for no limit");
  }
  return rate;
}

ReadNode Rate(uint64_t* out) {
  return [out](const toml::node& node) -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(
        const std::string text,
        AsString(node, "a rate in quotes, such as \"7.5GB/s\""));
    CAIRN_ASSIGN_OR_RETURN(*out, PositiveRate(text));
    return absl::OkStatus();
  };
}

ReadNode Integer(std::optional<int64_t>* out, int64_t least, int64_t most) {
  return [=](const toml::node& node) -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(*out, AsInteger(node, least, most));
    return absl::OkStatus();
  };
}

// "1000 steps", "1 epoch".
absl::Status CheckKeepEvery(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit = text.substr(end - text.data());
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  const bool known =
      unit == "step" || unit == "steps" || unit == "epoch" || unit == "epochs";
  if (error != std::errc() || !known || number < 1 || number > kKeepMax) {
    return Wrong(
        fmt::format("\"{}\" must be a number of steps or epochs, such "
                    "as \"1000 steps\" or \"1 epoch\"",
                    EscapeName(text)));
  }
  return absl::OkStatus();
}

// --- The document
// -------------------------------------------------------------

// One file being read: every error gets its name and the line.
class Document {
 public:
  explicit Document(std::string file) : file_(std::move(file)) {}

  absl::Status At(const toml::source_region& where,
                  const std::string& what) const {
    return Wrong(
        fmt::format("{}:{}: {}", EscapeName(file_), where.begin.line, what));
  }

  // `name` is how messages call the table: "[export]", "" for the document.
  absl::Status ReadTable(const toml::table& table, std::string_view name,
                         std::span<const Field> fields) const {
    for (auto&& [key, node] : table) {
      const auto field = std::find_if(
          fields.begin(), fields.end(),
          [&key = key](const Field& known) { return known.key == key.str(); });
      if (field == fields.end()) return Unknown(key, name, fields);
      const absl::Status status = field->read(node);
      if (status.ok()) continue;
      // From a table inside, and complete already?
      if (IsPlaced(status)) return status;
      return At(node.source(), fmt::format("{}{}: {}", Prefix(name), field->key,
                                           Message(status)));
    }
    for (const Field& field : fields) {
      if (field.required && !table.contains(field.key)) {
        return At(table.source(),
                  fmt::format("{}{} is missing", Prefix(name), field.key));
      }
    }
    return absl::OkStatus();
  }

  using ReadOneTable = std::function<absl::Status(const toml::table&)>;

  // [name]
  ReadNode Table(std::string_view name, const ReadOneTable& read) const {
    return [=](const toml::node& node) -> absl::Status {
      if (!node.is_table()) {
        return WrongType(fmt::format("a table, [{}]", name), node);
      }
      return read(*node.as_table());
    };
  }

  // [[name]], any number of times
  ReadNode Tables(std::string_view name, const ReadOneTable& read) const {
    return [=](const toml::node& node) -> absl::Status {
      const auto* const list = node.as_array();
      if (list == nullptr ||
          (!list->empty() && !list->is_homogeneous(toml::node_type::table))) {
        return Wrong(
            fmt::format("write [[{}]], in two pairs of brackets: "
                        "there may be several",
                        name));
      }
      if (list->size() > kListEntriesMax) {
        return Wrong(fmt::format("at most {} are possible", kListEntriesMax));
      }
      for (const toml::node& entry : *list) {
        CAIRN_RETURN_IF_ERROR(read(*entry.as_table()));
      }
      return absl::OkStatus();
    };
  }

 private:
  static std::string Prefix(std::string_view name) {
    return name.empty() ? "" : fmt::format("{} ", name);
  }

  bool IsPlaced(const absl::Status& status) const {
    return Message(status).starts_with(EscapeName(file_) + ":");
  }

  absl::Status Unknown(const toml::key& key, std::string_view name,
                       std::span<const Field> fields) const {
    std::vector<std::string_view> known;
    for (const Field& field : fields) known.push_back(field.key);
    const std::string_view nearest = NearestName(key.str(), known);
    const std::string advice =
        nearest.empty()
            ? fmt::format("known here are {}", fmt::join(known, ", "))
            : fmt::format("did you mean {}?", nearest);
    return At(key.source(),
              fmt::format("{}{} is not a known key; {}", Prefix(name),
                          EscapeName(key.str()), advice));
  }

  const std::string file_;
};

absl::Status ReadCore(const Document& document, const toml::table& table,
                      Options* options) {
  std::string url;
  const Field fields[] = {{"url", Text(&url), true}};
  CAIRN_RETURN_IF_ERROR(document.ReadTable(table, "[[core]]", fields));
  for (const std::string& known : options->core_urls) {
    if (known == url) {
      return document.At(
          table.source(),
          fmt::format("[[core]] url: {} stands here twice", EscapeName(url)));
    }
  }
  options->core_urls.push_back(std::move(url));
  return absl::OkStatus();
}

absl::Status ReadRetention(const Document& document, const toml::table& table,
                           Options* options) {
  RetentionRule rule;
  rule.match = "*";
  const Field fields[] = {
      {"tier",
       [&rule](const toml::node& node) -> absl::Status {
         CAIRN_RETURN_IF_ERROR(Text(&rule.tier)(node));
         if (rule.tier == "accelerator" || rule.tier == "core") {
           return absl::OkStatus();
         }
         return Wrong(
             fmt::format("must be \"accelerator\" or \"core\", not \"{}\"",
                         EscapeName(rule.tier)));
       },
       true},
      {"match", Text(&rule.match)},
      {"keep_last", Integer(&rule.keep_last, 1, kKeepMax)},
      {"keep_every",
       [&rule](const toml::node& node) -> absl::Status {
         CAIRN_RETURN_IF_ERROR(Text(&rule.keep_every)(node));
         return CheckKeepEvery(rule.keep_every);
       }},
      {"max_age", PositiveDuration(&rule.max_age)},
  };
  CAIRN_RETURN_IF_ERROR(document.ReadTable(table, "[[retention]]", fields));
  if (!rule.keep_last && rule.keep_every.empty() && !rule.max_age) {
    return document.At(
        table.source(),
        "[[retention]] says nothing; add keep_last, keep_every or max_age");
  }
  options->retention.push_back(std::move(rule));
  return absl::OkStatus();
}

absl::Status ReadFramework(const Document& document, const toml::table& table,
                           Options* options) {
  FrameworkRule rule;
  const Field fields[] = {
      {"name", Text(&rule.name), true},
      {"directory", Text(&rule.directory), true},
      {"complete", Names(&rule.complete)},
      {"in_progress", Names(&rule.in_progress)},
      {"quiet", PositiveDuration(&rule.quiet)},
      {"pointer", Text(&rule.pointer)},
      {"pointer_content", Text(&rule.pointer_content)},
  };
  CAIRN_RETURN_IF_ERROR(document.ReadTable(table, "[[framework]]", fields));
  const auto wrong = [&](std::string_view what) {
    return document.At(
        table.source(),
        fmt::format("[[framework]] {}: {}", EscapeName(rule.name), what));
  };
  if (rule.complete.empty() && !rule.quiet) {
    return wrong(
        "add complete = [\"DONE\"], the files that show that it is whole, or "
        "quiet = \"10 min\"");
  }
  if (rule.pointer.empty() != rule.pointer_content.empty()) {
    return wrong("pointer and pointer_content go together");
  }
  for (const FrameworkRule& known : options->frameworks) {
    if (known.name == rule.name) return wrong("this name is taken");
  }
  options->frameworks.push_back(std::move(rule));
  return absl::OkStatus();
}

absl::Status ReadDocument(const Document& document, const toml::table& root,
                          Options* options) {
  const auto table = [&](std::string_view name, std::vector<Field> fields) {
    return document.Table(name, [&document, name, fields = std::move(fields)](
                                    const toml::table& table) {
      return document.ReadTable(table, fmt::format("[{}]", name), fields);
    });
  };
  const auto tables = [&](std::string_view name, auto read) {
    return document.Tables(name,
                           [&document, options, read](const toml::table& one) {
                             return read(document, one, options);
                           });
  };
  const ReadNode threads = [options](const toml::node& node) -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(const int64_t count,
                           AsInteger(node, 1, kThreadsMax));
    options->threads = static_cast<int>(count);
    return absl::OkStatus();
  };
  const Field fields[] = {
      {"state_dir", Text(&options->state_dir)},
      {"accelerator",
       table("accelerator",
             {{"path", Text(&options->accelerator_path), true}})},
      {"core", tables("core", ReadCore)},
      {"export",
       table("export",
             {{"enabled", Bool(&options->export_enabled)},
              {"prefixes", Prefixes(&options->export_prefixes)},
              {"max_rate", Rate(&options->export_bytes_per_second_max)}})},
      {"retention", tables("retention", ReadRetention)},
      {"framework", tables("framework", ReadFramework)},
      {"scan", table("scan", {{"generic_quiet",
                               PositiveDuration(&options->generic_quiet)}})},
      {"release",
       table("release", {{"grace", Duration(&options->release_grace)}})},
      {"engine", table("engine", {{"threads", threads}})},
  };
  return document.ReadTable(root, "", fields);
}

// --- Files and environment
// ----------------------------------------------------

absl::StatusOr<std::string> ReadConfigFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return PosixError(errno, "open", path);
  std::string text(kConfigBytesMax + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return PosixError(errno, "read", path);
    if (got == 0) break;
    size += got;
  }
  if (size > kConfigBytesMax) {
    return Wrong(fmt::format("{} is larger than {}: not a configuration",
                             EscapeName(path), FormatBytes(kConfigBytesMax)));
  }
  text.resize(size);
  return text;
}

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool Exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0 || errno != ENOENT;
}

absl::StatusOr<std::string> FindConfig(const std::string& given) {
  if (!given.empty()) {
    if (Exists(given)) return given;
    return absl::NotFoundError(fmt::format(
        "there is no configuration file {}; name another with --config, or "
        "make one with `cairn init`",
        EscapeName(given)));
  }
  if (Exists(kDefaultFile)) return kDefaultFile;
  const std::string from_environment = Environment("CAIRN_CONFIG");
  if (!from_environment.empty()) {
    if (Exists(from_environment)) return from_environment;
    return absl::NotFoundError(fmt::format(
        "there is no configuration: neither ./{} nor {}, which CAIRN_CONFIG "
        "names, is there; make one with `cairn init --accelerator DIR --core "
        "URL`",
        kDefaultFile, EscapeName(from_environment)));
  }
  if (Exists(kSystemFile)) return kSystemFile;
  return absl::NotFoundError(fmt::format(
      "there is no configuration: looked for ./{}, CAIRN_CONFIG (not set) and "
      "{}; make one with `cairn init --accelerator DIR --core URL`",
      kDefaultFile, kSystemFile));
}

// Taken from `directory` where it is relative; "." and ".." resolved by text.
std::string Absolute(const std::filesystem::path& directory,
                     const std::string& path) {
  std::string absolute = (directory / path).lexically_normal().string();
  while (absolute.size() > 1 && absolute.ends_with('/')) absolute.pop_back();
  return absolute;
}

absl::StatusOr<std::filesystem::path> WorkingDirectory() {
  std::error_code error;
  std::filesystem::path directory = std::filesystem::current_path(error);
  if (error) return PosixError(error.value(), "find the directory", ".");
  return directory;
}

absl::Status ApplyEnvironment(const std::filesystem::path& working_directory,
                              Options* options) {
  if (const std::string path = Environment("CAIRN_ACCELERATOR");
      !path.empty()) {
    options->accelerator_path = Absolute(working_directory, path);
  }
  if (const std::string path = Environment("CAIRN_STATE_DIR"); !path.empty()) {
    options->state_dir = Absolute(working_directory, path);
  }
  if (const std::string urls = Environment("CAIRN_CORE"); !urls.empty()) {
    options->core_urls.clear();
    std::string_view rest = urls;
    while (true) {
      const size_t comma = rest.find(',');
      const std::string_view url = rest.substr(0, comma);
      if (url.empty()) return Wrong("CAIRN_CORE: there is an empty URL in it");
      options->core_urls.emplace_back(url);
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  if (const std::string rate = Environment("CAIRN_EXPORT_MAX_RATE");
      !rate.empty()) {
    const absl::StatusOr<uint64_t> parsed = PositiveRate(rate);
    if (!parsed.ok()) return Annotate(parsed.status(), "CAIRN_EXPORT_MAX_RATE");
    options->export_bytes_per_second_max = *parsed;
  }
  if (const std::string threads = Environment("CAIRN_THREADS");
      !threads.empty()) {
    int64_t count = 0;
    const char* const end = threads.data() + threads.size();
    const auto parsed = std::from_chars(threads.data(), end, count);
    if (parsed.ec != std::errc() || parsed.ptr != end || count < 1 ||
        count > kThreadsMax) {
      return Wrong(fmt::format("CAIRN_THREADS: \"{}\" must be from 1 to {}",
                               EscapeName(threads), kThreadsMax));
    }
    options->threads = static_cast<int>(count);
  }
  return absl::OkStatus();
}

bool IsSameOrInside(std::string_view path, std::string_view directory) {
  return path == directory ||
         (path.starts_with(directory) &&
          (directory.ends_with('/') ||
           path.substr(directory.size()).starts_with('/')));
}

// What no single value shows.
absl::Status CheckWhole(const std::string& file, const Options& options) {
  const auto wrong = [&file](const std::string& what) {
    return Wrong(fmt::format("{}: {}", EscapeName(file), what));
  };
  if (options.accelerator_path.empty()) {
    return wrong(
        "the accelerator tier is missing; add [accelerator] with path "
        "= \"...\", or set CAIRN_ACCELERATOR");
  }
  if (options.core_urls.empty()) {
    return wrong(
        "the core tier is missing; add [[core]] with url = \"...\", "
        "or set CAIRN_CORE");
  }
  for (const std::string& url : options.core_urls) {
    if (url.find("://") == std::string::npos) {
      return wrong(
          fmt::format("the core tier \"{}\" is not a URL; a directory "
                      "is written file:///absolute/path",
                      EscapeName(url)));
    }
    if (!url.starts_with(kFileScheme)) continue;
    const std::string core =
        Absolute("/", url.substr(std::string_view(kFileScheme).size()));
    if (IsSameOrInside(core, options.accelerator_path) ||
        IsSameOrInside(options.accelerator_path, core)) {
      return wrong(fmt::format(
          "one tier lies inside the other: accelerator {}, core {}; give them "
          "directories beside each other",
          EscapeName(options.accelerator_path), EscapeName(core)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Options> LoadOptions(const std::string& config_path) {
  CAIRN_ASSIGN_OR_RETURN(const std::string file, FindConfig(config_path));
  CAIRN_ASSIGN_OR_RETURN(const std::filesystem::path working_directory,
                         WorkingDirectory());
  CAIRN_ASSIGN_OR_RETURN(const std::string text, ReadConfigFile(file));
  const Document document(file);
  Options options;
  try {
    const toml::table root = toml::parse(text, file);
    CAIRN_RETURN_IF_ERROR(ReadDocument(document, root, &options));
  } catch (const toml::parse_error& error) {
    return document.At(error.source(),
                       EscapeName(std::string(error.description())));
  }
  const std::filesystem::path directory =
      std::filesystem::path(Absolute(working_directory, file)).parent_path();
  if (!options.accelerator_path.empty()) {
    options.accelerator_path = Absolute(directory, options.accelerator_path);
  }
  options.state_dir = Absolute(
      directory, options.state_dir.empty() ? "cairn-state" : options.state_dir);
  CAIRN_RETURN_IF_ERROR(ApplyEnvironment(working_directory, &options));
  CAIRN_RETURN_IF_ERROR(CheckWhole(file, options));
  return options;
}

}  // namespace cairn
