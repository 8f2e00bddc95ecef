// `cairn verify`: compare copies with their digests.

#include <string>
#include <utility>
#include <vector>

#include "apps/cairn/json.h"
#include "apps/cairn/parse.h"
#include "apps/cairn/text.h"
#include "apps/cairn/verb.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "cairn/store.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr VerbHelp kHelp = {
    .name = "verify",
    .group = "Everyday verbs",
    .summary = "read checkpoints and compare every byte with its digests",
    .description =
        "Reads the copies of checkpoints on both tiers (or one) and compares\n"
        "them with the digests of their manifests. Damage is reported with\n"
        "file, offset and kind (corrupt, truncated, missing, zero-filled)\n"
        "and is never repaired: `latest` and `restore` pass damaged copies\n"
        "over from then on. --quick compares presence and sizes alone and\n"
        "says \"content not read\".",
    .examples =
        "cairn verify modelA/checkpoint-1000\n"
        "cairn verify modelA/checkpoint-1000 --tier core\n"
        "cairn verify --all --quick\n"
        "cairn verify --all --json | jq '.outcomes[] | select(.good|not)'",
    .exit_codes = "3: damage was found   5: some could not be read",
};

class VerifyVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& arguments) override {
    arguments.Positionals("PATH", &paths_, "Checkpoints, runs or prefixes");
    arguments.Flag("--all", &options_.all, "Every checkpoint");
    arguments.Text("--tier", "TIER", &tier_,
                   "accelerator, core or both (default)");
    arguments.Flag("--quick", &options_.quick,
                   "Presence and sizes only, without reading content");
  }

  absl::StatusOr<ExitCode> Run(Session& session) override {
    CAIRN_ASSIGN_OR_RETURN(const Asked asked, AskedFor(paths_, options_.all));
    CAIRN_ASSIGN_OR_RETURN(options_.tier, ParseTier(tier_));
    CAIRN_RETURN_IF_ERROR(session.Open());
    CAIRN_ASSIGN_OR_RETURN(
        const VerifyReport report,
        session.store().Verify(session.Paths(paths_), options_));
    const ExitCode code = ExitCodeOf(report, asked);
    if (session.json()) {
      session.Print(JsonOf(report));
      return code;
    }
    if (code == ExitCode::kNothing) {
      session.Problem("there is no copy to verify under that name");
      return code;
    }
    PrintOutcomes(session, report, options_.quick);
    return code;
  }

 private:
  // At most so many bad spots of one copy: a zero-filled file has thousands.
  static constexpr size_t kDamagesShownMax = 20;

  static void PrintOutcomes(Session& session, const VerifyReport& report,
                            bool quick) {
    Table table({"PATH", "TIER", "RESULT", ">SIZE", "REMARK"});
    uint64_t good = 0;
    uint64_t bytes_read = 0;
    for (const VerifyOutcome& outcome : report.outcomes) {
      good += outcome.good ? 1 : 0;
      if (outcome.content_read) bytes_read += outcome.bytes;
      std::string remark = outcome.message;
      if (outcome.good && !outcome.content_read && remark.empty()) {
        remark = "content not read";
      }
      const std::string result = outcome.good              ? "good"
                                 : outcome.damages.empty() ? "failed"
                                                           : "damaged";
      table.Add({EscapeForDisplay(outcome.path), outcome.tier, result,
                 FormatBytes(outcome.bytes), std::move(remark)});
    }
    if (!table.empty()) session.Account(table.Text());
    for (const VerifyOutcome& outcome : report.outcomes) {
      if (!outcome.good) PrintTrouble(session, outcome);
    }
    const size_t copies = report.outcomes.size();
    std::string read = "content not read";
    if (!quick) {
      read = fmt::format("{} read in {}, {}", FormatBytesBoth(bytes_read),
                         cairn::FormatDuration(session.elapsed()),
                         FormatRate(bytes_read, session.elapsed()));
    }
    session.Account(fmt::format("{} of {} {} good; {}\n", good, copies,
                                copies == 1 ? "copy" : "copies", read));
  }

  static void PrintTrouble(Session& session, const VerifyOutcome& outcome) {
    const std::string path = EscapeForDisplay(outcome.path);
    if (outcome.damages.empty()) {
      session.Problem(fmt::format("{} on the {} tier: {}", path, outcome.tier,
                                  outcome.message));
    }
    size_t shown = 0;
    for (const Damage& damage : outcome.damages) {
      if (shown++ == kDamagesShownMax) {
        session.Problem(
            fmt::format("{}: {} more bad spots (--json lists them all)", path,
                        outcome.damages.size() - kDamagesShownMax));
        break;
      }
      session.Problem(fmt::format(
          "{} on the {} tier: {} is {} at offset {}{}{}", path, damage.tier,
          EscapeForDisplay(damage.file), damage.kind, damage.offset,
          damage.message.empty() ? "" : ": ", damage.message));
    }
  }

  std::vector<std::string> paths_;
  std::string tier_ = "both";
  VerifyOptions options_;
};

}  // namespace

std::unique_ptr<Verb> MakeVerifyVerb() {
  return std::make_unique<VerifyVerb>();
}

}  // namespace cairn
