// `cairn pin`: never release a checkpoint.

#include <string>

#include "apps/cairn/json.h"
#include "apps/cairn/verb.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "cairn/store.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr VerbHelp kHelp = {
    .name = "pin",
    .group = "Verbs on one checkpoint",
    .summary = "keep a checkpoint on the accelerator tier",
    .description =
        "A pinned checkpoint is never released. With --for it is a hold that\n"
        "ends by itself. Pins are kept on the tiers, so they outlive the\n"
        "catalog.",
    .examples =
        "cairn pin modelA/checkpoint-1000 --reason \"baseline of the paper\"\n"
        "cairn pin modelA/checkpoint-2000 --for 7d",
    .exit_codes = "",
};

class PinVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& arguments) override {
    arguments.Positional("PATH", &path_, true, "The checkpoint, RUN/NAME");
    arguments.Text("--for", "DURATION", &hold_for_,
                   "Only so long, as in 12h or 7d (default: without end)");
    arguments.Text("--reason", "TEXT", &options_.reason,
                   "Why, for those who wonder later");
  }

  absl::StatusOr<ExitCode> Run(Session& session) override {
    if (!hold_for_.empty()) {
      const absl::StatusOr<absl::Duration> hold = ParseDuration(hold_for_);
      if (!hold.ok()) return Annotate(hold.status(), "--for");
      if (*hold <= absl::ZeroDuration()) {
        return absl::InvalidArgumentError("--for: must be more than zero");
      }
      options_.hold_for = *hold;
    }
    CAIRN_RETURN_IF_ERROR(session.Open());
    const std::string path = session.Path(path_);
    CAIRN_RETURN_IF_ERROR(session.store().Pin(path, options_));
    std::string how_long;
    if (options_.hold_for) {
      how_long =
          fmt::format(" for {}", cairn::FormatDuration(*options_.hold_for));
    }
    if (session.json()) {
      session.Print(JsonOfPin(path, true));
    } else {
      session.Account(
          fmt::format("pinned {}{}\n", EscapeForDisplay(path), how_long));
    }
    return ExitCode::kDone;
  }

 private:
  std::string path_;
  std::string hold_for_;
  PinOptions options_;
};

}  // namespace

std::unique_ptr<Verb> MakePinVerb() { return std::make_unique<PinVerb>(); }

}  // namespace cairn
