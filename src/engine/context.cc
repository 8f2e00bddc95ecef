#include "engine/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/digest.h"
#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "object/open_store.h"

namespace cairn {
namespace {

constexpr uint64_t kTierFileBytesMax = 64 << 10;

class SilentObserver final : public Observer {
 public:
  void OnStart(std::string_view, uint64_t, uint64_t) override {}
  void OnProgress(uint64_t, uint64_t) override {}
  void OnFinish() override {}
  void OnNotice(std::string_view) override {}
};

Observer* Silent() {
  static SilentObserver silent;
  return &silent;
}

// Large files are moved in blocks by this many threads at once; small ones wait
// for the disk far longer than for a CPU, so a few more threads than CPUs pay.
int ThreadCount(const Options& options) {
  if (options.threads > 0) return options.threads;
  const int cpus = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(2 * cpus, 4, 12);
}

RecogniserOptions ToRecogniserOptions(const Options& options) {
  RecogniserOptions result;
  result.generic_quiet = options.generic_quiet;
  for (const FrameworkRule& rule : options.frameworks) {
    result.user_rules.push_back({.name = rule.name,
                                 .directory = rule.directory,
                                 .complete = rule.complete,
                                 .in_progress = rule.in_progress,
                                 .quiet = rule.quiet,
                                 .pointer = rule.pointer,
                                 .pointer_content = rule.pointer_content});
  }
  return result;
}

absl::Status WrongTier(std::string_view kind, const std::string& where,
                       const std::string& found, const std::string& known) {
  return absl::FailedPreconditionError(fmt::format(
      "{} is another {} tier than this catalog knows (its id is {}, expected "
      "{}); nothing was concluded from what it holds. Mount the right one; or, "
      "if "
      "it replaces the old one for good, run `cairn init {}`",
      where, kind, found, known,
      kind == "accelerator" ? "--replace-accelerator"
                            : "with a new state_dir"));
}

absl::Status NoIdentity(std::string_view kind, const std::string& where) {
  return absl::FailedPreconditionError(
      fmt::format("{} has no .cairn/tier.json: the {} tier is not mounted, not "
                  "initialised, or "
                  "was wiped; nothing was concluded from its emptiness. Mount "
                  "it; or run `cairn "
                  "init` (with --replace-accelerator for a new, empty disk)",
                  where, kind));
}

}  // namespace

int64_t Context::NowNs() const { return absl::ToUnixNanos(clock->Now()); }

std::string CatalogConnection(const Options& options) {
  return "sqlite3://" + options.state_dir + "/catalog.db";
}

absl::StatusOr<std::unique_ptr<Context>> OpenTiers(const Options& options,
                                                   Observer* observer,
                                                   bool create) {
  auto context = std::make_unique<Context>();
  context->options = options;
  context->observer = observer != nullptr ? observer : Silent();
  context->clock = Clock::Real();
  context->threads = ThreadCount(options);
  context->io = IoEngine::Create({});
  CAIRN_ASSIGN_OR_RETURN(Root root, Root::Open(options.accelerator_path));
  context->accelerator = std::make_unique<Root>(std::move(root));
  if (options.core_urls.size() != 1) {
    return absl::InvalidArgumentError(fmt::format(
        "{} [[core]] tables are configured; this version takes exactly one",
        options.core_urls.size()));
  }
  CAIRN_ASSIGN_OR_RETURN(context->core, OpenStore(options.core_urls.front(),
                                                  context->io.get(), create));
  CAIRN_ASSIGN_OR_RETURN(Recogniser recogniser,
                         Recogniser::Create(ToRecogniserOptions(options)));
  context->recogniser = std::make_unique<Recogniser>(std::move(recogniser));
  // Each thread holds one block while it reads, digests and sends it, and a
  // second one where it compares; never more, so nobody waits for ever.
  context->buffers = std::make_unique<BufferPool>(
      kDigestBlockBytes, 2 * static_cast<size_t>(context->threads) + 2);
  return context;
}

absl::StatusOr<TierId> ReadAcceleratorId(const Root& root) {
  CAIRN_ASSIGN_OR_RETURN(const std::string text,
                         root.ReadSmallFile(kTierFile, kTierFileBytesMax));
  absl::StatusOr<TierId> id = DecodeTierId(AsBytes(text));
  if (!id.ok()) {
    return Annotate(id.status(), EscapeName(root.FullPath(kTierFile)));
  }
  return id;
}

absl::StatusOr<TierId> ReadCoreId(ObjectStore& store) {
  CAIRN_ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(kTierFile));
  if (info.size_bytes > kTierFileBytesMax) {
    return absl::DataLossError("the core tier's .cairn/tier.json is too large");
  }
  std::string text(info.size_bytes, '\0');
  CAIRN_RETURN_IF_ERROR(store.ReadAt(
      kTierFile, 0,
      std::as_writable_bytes(std::span(text.data(), text.size()))));
  absl::StatusOr<TierId> id = DecodeTierId(AsBytes(text));
  if (!id.ok()) {
    return Annotate(id.status(), fmt::format("{} on the core tier", kTierFile));
  }
  return id;
}

absl::Status CheckTierIds(Context& context, Catalog& catalog) {
  CAIRN_ASSIGN_OR_RETURN(const std::string known_accelerator,
                         catalog.GetSetting(kAcceleratorIdSetting));
  CAIRN_ASSIGN_OR_RETURN(const std::string known_core,
                         catalog.GetSetting(kCoreIdSetting));
  const std::string& path = context.options.accelerator_path;
  const std::string& url = context.options.core_urls.front();

  absl::StatusOr<TierId> accelerator = ReadAcceleratorId(*context.accelerator);
  if (absl::IsNotFound(accelerator.status())) {
    return NoIdentity("accelerator", EscapeName(path));
  }
  CAIRN_RETURN_IF_ERROR(accelerator.status());
  absl::StatusOr<TierId> core = ReadCoreId(*context.core);
  if (absl::IsNotFound(core.status())) {
    return NoIdentity("core", EscapeName(url));
  }
  CAIRN_RETURN_IF_ERROR(core.status());

  context.accelerator_id = accelerator->id;
  context.core_id = core->id;
  if (!known_accelerator.empty() && accelerator->id != known_accelerator) {
    return WrongTier("accelerator", EscapeName(path), accelerator->id,
                     known_accelerator);
  }
  if (!known_core.empty() && core->id != known_core) {
    return WrongTier("core", EscapeName(url), core->id, known_core);
  }
  return absl::OkStatus();
}

}  // namespace cairn
