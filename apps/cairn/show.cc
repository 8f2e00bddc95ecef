// `cairn show`: everything about one checkpoint.

#include <optional>
#include <string>

#include "apps/cairn/answer.h"
#include "apps/cairn/json.h"
#include "apps/cairn/text.h"
#include "apps/cairn/verb.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "cairn/store.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr VerbHelp kHelp = {
    .name = "show",
    .group = "Verbs on one checkpoint",
    .summary = "show everything about one checkpoint",
    .description =
        "Shows a checkpoint's state and copies, its framework, labels and\n"
        "pointer files, when each copy was last verified, whether it may be\n"
        "released (and if not, why not), its generations, and its files with\n"
        "sizes and object keys.",
    .examples =
        "cairn show modelA/checkpoint-1000\n"
        "cairn show modelA/checkpoint-1000 --files\n"
        "cairn show modelA/checkpoint-1000 --json | jq -r '.files[].key'",
    .exit_codes = "",
};

class ShowVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& arguments) override {
    arguments.Positional("PATH", &path_, true, "The checkpoint, RUN/NAME");
    arguments.Flag("--files", &files_, "List all files, not only the first 20");
  }

  absl::StatusOr<ExitCode> Run(Session& session) override {
    CAIRN_RETURN_IF_ERROR(session.Open());
    CAIRN_ASSIGN_OR_RETURN(const ShowReport report,
                           session.store().Show(session.Path(path_)));
    if (session.json()) {
      session.Print(JsonOf(report));
      return ExitCode::kDone;
    }
    session.Print(Facts(report));
    if (report.generations.size() > 1) {
      Table table({"GENERATION", "STATE", ">SIZE", "CREATED", "FLAGS"});
      for (const CheckpointInfo& generation : report.generations) {
        table.Add({generation.generation, StateName(generation.state),
                   FormatBytes(generation.bytes),
                   LocalTime(generation.created_ns), Flags(generation)});
      }
      session.Print("\n" + table.Text());
    }
    PrintFiles(session, report);
    return ExitCode::kDone;
  }

 private:
  static constexpr size_t kFilesShownMax = 20;  // Without --files.

  static std::string Facts(const ShowReport& report) {
    const CheckpointInfo& checkpoint = report.checkpoint;
    std::string text;
    const auto line = [&text](std::string_view what, std::string_view value) {
      if (!value.empty()) text += fmt::format("{:<13}{}\n", what, value);
    };
    const auto number = [](std::optional<int64_t> value) {
      return value ? fmt::format("{}", *value) : "";
    };
    const auto verified = [](int64_t time_ns) {
      return time_ns == 0 ? "never" : LocalTime(time_ns);
    };
    line("checkpoint", EscapeForDisplay(checkpoint.path));
    line("state", StateName(checkpoint.state));
    line("copies", Copies(checkpoint));
    line("flags", Flags(checkpoint));
    line("damage", checkpoint.damage);
    line("framework", EscapeForDisplay(checkpoint.framework));
    line("step", number(checkpoint.step));
    line("epoch", number(checkpoint.epoch));
    line("size", fmt::format("{} in {}", FormatBytesBoth(checkpoint.bytes),
                             Count(checkpoint.files, "file")));
    line("created", fmt::format("{} by {}", LocalTime(checkpoint.created_ns),
                                checkpoint.origin));
    line("generation", checkpoint.generation);
    line("sequence", fmt::format("{}", checkpoint.sequence));
    if (checkpoint.hold_until_ns) {
      line("held until", LocalTime(*checkpoint.hold_until_ns));
    }
    for (const auto& [key, value] : checkpoint.labels) {
      line("label", EscapeForDisplay(fmt::format("{}={}", key, value)));
    }
    line("marker", EscapeForDisplay(report.marker));
    for (const auto& [path, content] : report.pointers) {
      line("pointer", EscapeForDisplay(path));
    }
    line("verified", fmt::format("accelerator {}, core {}",
                                 verified(report.verified_accelerator_ns),
                                 verified(report.verified_core_ns)));
    line("release", report.release);
    return text;
  }

  void PrintFiles(Session& session, const ShowReport& report) const {
    Table table({">SIZE", "TYPE", ">MODE", "FILE", "KEY"});
    size_t shown = 0;
    for (const FileInfo& file : report.files) {
      if (shown == kFilesShownMax && !files_) break;
      ++shown;
      const std::string target =
          file.target.empty() ? "" : " -> " + EscapeForDisplay(file.target);
      table.Add({FormatBytes(file.size_bytes), file.type,
                 fmt::format("{:04o}", file.mode & 07777),
                 EscapeForDisplay(file.path) + target,
                 file.key.empty() ? "-" : EscapeForDisplay(file.key)});
    }
    if (!table.empty()) session.Print("\n" + table.Text());
    if (shown < report.files.size()) {
      session.Print(fmt::format("... and {} more (--files lists them all)\n",
                                report.files.size() - shown));
    }
  }

  std::string path_;
  bool files_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeShowVerb() { return std::make_unique<ShowVerb>(); }

}  // namespace cairn
