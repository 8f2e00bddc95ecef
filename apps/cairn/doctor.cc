// `cairn doctor`: look at the machine and the tiers.

#include <algorithm>
#include <string>

#include "apps/cairn/json.h"
#include "apps/cairn/text.h"
#include "apps/cairn/verb.h"
#include "base/status_macros.h"
#include "cairn/store.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr VerbHelp kHelp = {
    .name = "doctor",
    .group = "Everyday verbs",
    .summary = "check the machine, the tiers and the configuration",
    .description =
        "Looks at what cairn depends on: the file systems of both tiers and\n"
        "what they can do, io_uring and O_DIRECT, limits of memory and open\n"
        "files, free space, and the identities of the tiers. Says what is\n"
        "missing, what follows from it and what to do. Works also when no\n"
        "other verb does.",
    .examples =
        "cairn doctor\n"
        "cairn doctor --json | jq '.items[] | select(.level==\"bad\")'",
    .exit_codes = "1: something is bad",
};

class DoctorVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& /*arguments*/) override {}

  absl::StatusOr<ExitCode> Run(Session& session) override {
    CAIRN_RETURN_IF_ERROR(session.LoadConfiguration());
    const DoctorReport report = Store::Doctor(session.options());
    if (session.json()) {
      session.Print(JsonOf(report));
      return ExitCodeOf(report);
    }
    size_t width = 0;
    for (const DoctorItem& item : report.items) {
      width = std::max(width, DisplayWidth(item.subject));
    }
    for (const DoctorItem& item : report.items) {
      const std::string fill(width - DisplayWidth(item.subject), ' ');
      session.Print(fmt::format("{}  {}{}  {}\n", LevelName(item.level),
                                item.subject, fill, item.finding));
      if (!item.advice.empty()) {
        session.Print(fmt::format("      {}  -> {}\n", std::string(width, ' '),
                                  item.advice));
      }
    }
    return ExitCodeOf(report);
  }

 private:
  static std::string_view LevelName(DoctorItem::Level level) {
    switch (level) {
      case DoctorItem::Level::kGood:
        return "good";
      case DoctorItem::Level::kNote:
        return "note";
      case DoctorItem::Level::kBad:
        return "BAD ";
    }
    return "BAD ";
  }
};

}  // namespace

std::unique_ptr<Verb> MakeDoctorVerb() {
  return std::make_unique<DoctorVerb>();
}

}  // namespace cairn
