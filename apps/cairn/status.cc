// `cairn status`: how things stand.

#include <string>

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
    .name = "status",
    .group = "Everyday verbs",
    .summary = "show how things stand: space, backlog, failures",
    .description =
        "Shows both tiers, how many checkpoints are in which state, what\n"
        "waits to be exported and since when, what is pinned, damaged or\n"
        "lost, what on the accelerator tier is no checkpoint yet, and the\n"
        "latest failures of any command.",
    .examples =
        "cairn status\n"
        "cairn status --json | jq .unarchived",
    .exit_codes = "3: a checkpoint is damaged or lost",
};

class StatusVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& /*arguments*/) override {}

  absl::StatusOr<ExitCode> Run(Session& session) override {
    CAIRN_RETURN_IF_ERROR(session.Open());
    CAIRN_ASSIGN_OR_RETURN(const StatusReport report, session.store().Status());
    if (session.json()) {
      session.Print(JsonOf(report));
    } else {
      PrintTiers(session, report);
      PrintStates(session, report);
      PrintLists(session, report);
    }
    return ExitCodeOf(report);
  }

 private:
  static void PrintTiers(Session& session, const StatusReport& report) {
    session.Print(fmt::format("accelerator  {}\n             {} free of {}\n",
                              EscapeForDisplay(report.accelerator_path),
                              FormatBytesBoth(report.accelerator_free_bytes),
                              FormatBytesBoth(report.accelerator_total_bytes)));
    for (const std::string& url : report.core_urls) {
      session.Print(fmt::format("core         {}\n", EscapeForDisplay(url)));
    }
  }

  static void PrintStates(Session& session, const StatusReport& report) {
    Table table({"STATE", ">CHECKPOINTS", ">SIZE"});
    for (const auto& [state, count] : report.count_by_state) {
      const auto bytes = report.bytes_by_state.find(state);
      table.Add(
          {state, fmt::format("{}", count),
           FormatBytes(bytes == report.bytes_by_state.end() ? 0
                                                            : bytes->second)});
    }
    session.Print(table.empty() ? "\nno checkpoints yet\n"
                                : "\n" + table.Text());
    std::string since;
    if (report.oldest_unarchived_ns != 0) {
      since = fmt::format(", the oldest of {}",
                          LocalTime(report.oldest_unarchived_ns));
    }
    session.Print(fmt::format(
        "\nwaiting for export: {}, {}{}\n"
        "pinned: {}   damaged: {}   lost: {}   unfinished staging: {}\n",
        Count(report.unarchived, "checkpoint"),
        FormatBytesBoth(report.unarchived_bytes), since, report.pinned,
        report.damaged, report.lost, FormatBytes(report.staging_bytes)));
  }

  static void PrintLists(Session& session, const StatusReport& report) {
    if (!report.candidates.empty()) {
      Table table({"PATH", "VERDICT", "WHY"});
      for (const CandidateInfo& candidate : report.candidates) {
        table.Add({EscapeForDisplay(candidate.path), candidate.verdict,
                   candidate.reason});
      }
      session.Print(fmt::format("\nNot taken:\n{}", table.Text()));
    }
    if (!report.failures.empty()) {
      Table table({"TIME", "VERB", "PATH", "WHAT"});
      for (const FailureInfo& failure : report.failures) {
        table.Add({LocalTime(failure.time_ns), failure.operation,
                   EscapeForDisplay(failure.path), failure.message});
      }
      session.Print(fmt::format("\nLatest failures:\n{}", table.Text()));
    }
  }
};

}  // namespace

std::unique_ptr<Verb> MakeStatusVerb() {
  return std::make_unique<StatusVerb>();
}

}  // namespace cairn
