#include "format/judge.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/escape.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "fmt/format.h"
#include "format/name_pattern.h"
#include "nlohmann/json.hpp"

namespace cairn {
namespace {

// Names that a save gives to files it has not finished.
bool IsTemporaryName(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with(".tmp") || HasSuffix(name, ".tmp") ||
         HasSuffix(name, ".part") || name.starts_with("tmp-") ||
         name.starts_with("tmp_") || HasSuffix(name, ".dirty.pt") ||
         HasSuffix(name, ".incomplete");
}

// As protoc prints a string in the text form.
std::string QuoteForProto(std::string_view name) {
  std::string quoted;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      quoted += fmt::format("\\{:03o}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted;
}

// A pointer that needs a number which is not known cannot be written.
std::vector<PointerFile> MakePointers(
    const std::vector<PointerTemplate>& templates, const Finding& finding) {
  const auto number = [](const std::optional<int64_t>& value) {
    return value ? std::to_string(*value) : std::string();
  };
  std::vector<PointerFile> pointers;
  for (const PointerTemplate& pointer : templates) {
    if ((pointer.content.find("{step}") != std::string::npos &&
         !finding.step) ||
        (pointer.content.find("{epoch}") != std::string::npos &&
         !finding.epoch)) {
      continue;
    }
    pointers.push_back(
        {pointer.path,
         Expand(pointer.content,
                {{"{name}", finding.name},
                 {"{quoted_name}", QuoteForProto(finding.name)},
                 {"{step}", number(finding.step)},
                 {"{epoch}", number(finding.epoch)},
                 {"{step_or_name}",
                  finding.step ? number(finding.step) : finding.name}})});
  }
  return pointers;
}

constexpr char kHowToDecide[] =
    "if it is whole, take it over with `cairn adopt`, which verifies it first, "
    "or "
    "mark it with `cairn commit`, a file DONE or a [[framework]] rule";

}  // namespace

std::string Expand(
    std::string_view text,
    const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string expanded;
  while (!text.empty()) {
    const auto found = std::find_if(
        values.begin(), values.end(),
        [&](const auto& value) { return text.starts_with(value.first); });
    if (found == values.end()) {
      expanded += text.front();
      text.remove_prefix(1);
    } else {
      expanded += found->second;
      text.remove_prefix(found->first.size());
    }
  }
  return expanded;
}

// What a rule's markers are in one checkpoint.
struct Judge::Markers {
  std::string missing;   // The first that is required and absent.
  std::string at_once;   // The one that is there.
  std::string marker;    // For the finding.
  int64_t mtime_ns = 0;  // Of the newest of them.
  bool any = false;
};

absl::Duration Judge::Age(int64_t mtime_ns) const {
  return now_ - absl::FromUnixNanos(mtime_ns);
}

bool Judge::ChangedWithin(int64_t mtime_ns, absl::Duration duration) const {
  const absl::Duration age = Age(mtime_ns);
  return age < duration && age > -duration;  // A clock that is hours off: no.
}

Judge::Markers Judge::FindMarkers(const Completion& completion,
                                  const CheckpointContent& content,
                                  const std::string& key) const {
  Markers markers;
  const auto take = [&](const std::string& path, int64_t mtime_ns) {
    markers.any = true;
    markers.mtime_ns = std::max(markers.mtime_ns, mtime_ns);
    if (markers.marker.empty()) markers.marker = path;
  };
  for (const std::string& name : completion.at_once) {
    if (const ContentFile* file = content.Find(name)) {
      markers.at_once = name;
      take(name, file->mtime_ns);
      return markers;
    }
  }
  for (const std::string& required : completion.complete) {
    bool found = false;
    std::string_view rest = required;
    while (!found && !rest.empty()) {
      const size_t bar = rest.find('|');
      const std::string one = Expand(rest.substr(0, bar), {{"{key}", key}});
      rest.remove_prefix(bar == std::string_view::npos ? rest.size() : bar + 1);
      if (const ContentFile* file = content.Find(one)) {
        found = true;
        take(one, file->mtime_ns);
      }
      if (found || !IsGlob(one)) continue;
      std::vector<const TreeEntry*> matching;
      for (const TreeEntry& entry : content.directories().front().entries) {
        if (entry.type == FileType::kFile && GlobMatches(one, entry.name)) {
          matching.push_back(&entry);
        }
      }
      found = !matching.empty();
      // One of many files is not what commits them all.
      if (matching.size() == 1 && completion.proof == Proof::kMarker) {
        take(matching[0]->name, matching[0]->mtime_ns);
      }
    }
    if (!found && markers.missing.empty()) {
      markers.missing = Expand(required, {{"{key}", key}, {"|", " or "}});
    }
    markers.any = markers.any || found;
  }
  return markers;
}

absl::StatusOr<std::optional<Problem>> Judge::FindProblem(
    const Completion& completion, const CheckpointContent& content,
    const Markers& markers, CheckContext& context) const {
  if (content.files().empty()) {
    return Problem{ProblemKind::kUncommitted, "it holds no file yet"};
  }
  for (const std::string& glob : completion.in_progress) {
    for (const ContentDirectory& directory : content.directories()) {
      for (const TreeEntry& entry : directory.entries) {
        const std::string path = JoinPath(directory.path, entry.name);
        if (GlobMatches(glob, entry.name) || GlobMatches(glob, path)) {
          return Problem{ProblemKind::kInProgress,
                         fmt::format("{} is there: the save has not ended",
                                     EscapeName(path))};
        }
      }
    }
  }
  if (!markers.missing.empty()) {
    for (const std::string& name : completion.unfinished) {
      if (content.Find(name) != nullptr) {
        return Problem{
            ProblemKind::kInProgress,
            fmt::format("{} is there, and {} is not: the save has "
                        "not ended",
                        EscapeName(name), EscapeName(markers.missing))};
      }
    }
    return Problem{completion.renamed_into_place ? ProblemKind::kUndecided
                                                 : ProblemKind::kUncommitted,
                   fmt::format("no commit record: {} is not there",
                               EscapeName(markers.missing))};
  }
  for (const Check check : completion.checks) {
    CAIRN_ASSIGN_OR_RETURN(auto problem, RunCheck(check, context));
    if (problem) return problem;
  }
  return std::nullopt;
}

void Judge::Weigh(const Problem& problem, Proof proof,
                  const CheckpointContent& content, Finding& finding) const {
  const int64_t newest = content.newest_mtime_ns();
  const bool recent = ChangedWithin(newest, kAbandonedAfter);
  std::string more;
  switch (problem.kind) {
    case ProblemKind::kInProgress:
      finding.verdict = Verdict::kWriting;
      if (!recent) {
        more = fmt::format("nothing has changed for {}, the save may be dead",
                           cairn::FormatDuration(Age(newest)));
      }
      break;
    case ProblemKind::kUncommitted:
      finding.verdict = recent ? Verdict::kWriting : Verdict::kUnknown;
      if (!recent) {
        more = fmt::format("nothing has changed for {}; {}",
                           cairn::FormatDuration(Age(newest)), kHowToDecide);
      }
      break;
    case ProblemKind::kUndecided:
      finding.verdict = Verdict::kUnknown;
      more = kHowToDecide;
      break;
    case ProblemKind::kLate:
      finding.verdict = recent ? Verdict::kWriting : Verdict::kDamaged;
      break;
    case ProblemKind::kBroken: {
      const int64_t changed = problem.mtime_ns != 0 ? problem.mtime_ns : newest;
      const bool writing =
          proof != Proof::kMarker && ChangedWithin(changed, kFreshFor);
      finding.verdict = writing ? Verdict::kWriting : Verdict::kDamaged;
      if (writing) more = "it changed a moment ago and may still be written";
      break;
    }
    case ProblemKind::kUnreadable:
      finding.verdict = Verdict::kUnknown;
      break;
  }
  finding.reason =
      more.empty() ? problem.text : fmt::format("{}; {}", problem.text, more);
}

void Judge::WeighQuiet(std::optional<absl::Duration> quiet,
                       const CheckpointContent& content,
                       Finding& finding) const {
  const absl::Duration age = Age(content.newest_mtime_ns());
  if (!quiet) {
    finding.verdict = Verdict::kUnknown;
    finding.reason = fmt::format(
        "no commit record, and of no framework's convention; {}", kHowToDecide);
  } else if (age < *quiet) {
    finding.verdict = Verdict::kWriting;
    finding.reason = fmt::format(
        "it changed {} ago, and counts as complete when unchanged for {}",
        cairn::FormatDuration(std::max(age, absl::ZeroDuration())),
        cairn::FormatDuration(*quiet));
  } else {
    finding.verdict = Verdict::kComplete;
    finding.reason =
        fmt::format("nothing has changed for {}", cairn::FormatDuration(age));
  }
}

void Judge::WeighSound(const Completion& completion, Proof proof,
                       const CheckpointContent& content,
                       const CheckContext& context, Finding& finding) const {
  if (proof != Proof::kMarker) {
    for (const ContentFile& file : content.files()) {
      if (IsTemporaryName(file.path) &&
          ChangedWithin(file.mtime_ns, kFreshFor)) {
        finding.verdict = Verdict::kWriting;
        finding.reason = fmt::format("{} has a temporary name and is new",
                                     EscapeName(file.path));
        return;
      }
    }
  }
  // A file that no check knows may be cut anywhere.
  const bool opaque = finding.layout == Layout::kFiles &&
                      proof == Proof::kStructure && context.files_checked == 0;
  if (proof == Proof::kQuiet || opaque) {
    WeighQuiet(completion.quiet ? completion.quiet : generic_quiet_, content,
               finding);
    return;
  }
  finding.verdict = Verdict::kComplete;
  const std::string checked =
      fmt::format("{} of {} files looked into, and whole",
                  context.files_checked, content.files().size());
  finding.reason =
      proof == Proof::kMarker && !finding.marker.empty()
          ? fmt::format("{} is there; {}", EscapeName(finding.marker), checked)
          : checked;
}

absl::Status Judge::Decide(const Completion& completion,
                           const CheckpointContent& content,
                           Finding& finding) const {
  const Markers markers = FindMarkers(completion, content, finding.name);
  const Proof proof =
      markers.at_once.empty() ? completion.proof : Proof::kMarker;
  finding.marker = markers.marker;
  finding.marker_mtime_ns =
      markers.mtime_ns != 0 ? markers.mtime_ns : content.newest_mtime_ns();
  CheckContext context{.tree = tree_,
                       .content = content,
                       .run = finding.run,
                       .name = finding.name,
                       .step = finding.step,
                       .epoch = finding.epoch,
                       .now = now_,
                       .marked = proof == Proof::kMarker && markers.any};
  CAIRN_ASSIGN_OR_RETURN(const auto problem,
                         FindProblem(completion, content, markers, context));
  finding.step = context.step;
  finding.epoch = context.epoch;
  if (context.lightning && finding.layout == Layout::kFiles &&
      HasSuffix(finding.name, ".ckpt")) {
    finding.framework = "lightning";  // Its names are the user's templates.
  }
  if (problem) {
    Weigh(*problem, proof, content, finding);
  } else {
    WeighSound(completion, proof, content, context, finding);
  }
  finding.pointers = MakePointers(completion.pointers, finding);
  return absl::OkStatus();
}

void Judge::Staging(const std::vector<TreeEntry>& entries,
                    Finding& finding) const {
  int64_t newest = 0;
  for (const TreeEntry& entry : entries) {
    newest = std::max(newest, entry.mtime_ns);
  }
  finding.layout = Layout::kDirectory;
  finding.verdict = Verdict::kWriting;
  finding.marker_mtime_ns = newest;
  const absl::Duration age = Age(newest);
  finding.reason =
      fmt::format("stale staging? a save uses this name until it has ended{}",
                  entries.empty() || age < absl::ZeroDuration()
                      ? std::string()
                      : fmt::format("; the newest entry changed {} ago",
                                    cairn::FormatDuration(age)));
}

absl::StatusOr<bool> Judge::NamesShardedBackend(std::string_view path) const {
  const auto text = ReadSmallFile(tree_, path, kJsonBytesMax);
  if (absl::IsNotFound(text.status()) || absl::IsDataLoss(text.status()) ||
      absl::IsOutOfRange(text.status()) ||
      absl::IsPermissionDenied(text.status())) {
    return false;
  }
  if (!text.ok()) return text.status();
  const auto json = ParsePythonJson(*text);
  return json.is_object() && json.contains("sharded_backend");
}

absl::StatusOr<bool> Judge::BeginsAsTorch(std::string_view path) const {
  constexpr std::string_view kZip("PK\x03\x04", 4);
  // Protocol 2, then the magic number 0x1950a86a20f9469cfc6c as a LONG1.
  constexpr std::string_view kLegacy(
      "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);
  auto source = tree_.Open(path);
  if (absl::IsNotFound(source.status()) ||
      absl::IsPermissionDenied(source.status())) {
    return false;
  }
  if (!source.ok()) return source.status();
  std::array<std::byte, kLegacy.size()> head = {};
  if ((*source)->SizeBytes() < head.size()) return false;
  const absl::Status status = (*source)->ReadAt(0, MutableByteView(head));
  if (absl::IsOutOfRange(status)) return false;
  CAIRN_RETURN_IF_ERROR(status);
  const std::string_view text = AsText(ByteView(head));
  return text.starts_with(kZip) || text == kLegacy;
}

}  // namespace cairn
