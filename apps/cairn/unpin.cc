// `cairn unpin`: let a checkpoint be released again.

#include <string>

#include "apps/cairn/json.h"
#include "apps/cairn/verb.h"
#include "base/status_macros.h"
#include "cairn/store.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr VerbHelp kHelp = {
    .name = "unpin",
    .group = "Verbs on one checkpoint",
    .summary = "let a pinned or held checkpoint be released again",
    .description =
        "Takes pins and holds off a checkpoint. The next `cairn release`\n"
        "takes it if the other guards let it go.",
    .examples = "cairn unpin modelA/checkpoint-1000",
    .exit_codes = "",
};

class UnpinVerb final : public Verb {
 public:
  const VerbHelp& help() const override { return kHelp; }

  void Declare(Arguments& arguments) override {
    arguments.Positional("PATH", &path_, true, "The checkpoint, RUN/NAME");
  }

  absl::StatusOr<ExitCode> Run(Session& session) override {
    CAIRN_RETURN_IF_ERROR(session.Open());
    const std::string path = session.Path(path_);
    CAIRN_RETURN_IF_ERROR(session.store().Unpin(path));
    if (session.json()) {
      session.Print(JsonOfPin(path, false));
    } else {
      session.Account(fmt::format("unpinned {}\n", EscapeForDisplay(path)));
    }
    return ExitCode::kDone;
  }

 private:
  std::string path_;
};

}  // namespace

std::unique_ptr<Verb> MakeUnpinVerb() { return std::make_unique<UnpinVerb>(); }

}  // namespace cairn
