// Which check applies to a file, and the checks that are few lines.

#include "format/structure.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "base/posix.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "format/pickle.h"
#include "format/torch_legacy.h"
#include "format/torch_zip.h"
#include "format/wire.h"
#include "format/zip.h"

namespace cairn {
namespace {

constexpr std::string_view kZipHead("PK\x03\x04", 4);
constexpr uint64_t kEdgeBytes = 64;  // Looked at on either end of a text.
// A bare pickle is read whole to find its end; a longer one is taken as it is.
constexpr uint64_t kBarePickleBytesMax = uint64_t{16} << 20;

absl::StatusOr<std::string> ReadHead(ByteSource& file, uint64_t count) {
  return ReadPiece(file, 0, std::min(file.SizeBytes(), count));
}

bool AllZeros(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

std::string_view BaseName(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool HasSuffix(std::string_view name,
               std::initializer_list<std::string_view> suffixes) {
  return std::any_of(
      suffixes.begin(), suffixes.end(),
      [name](std::string_view suffix) { return name.ends_with(suffix); });
}

// Files that only torch.save writes, so that anything else in them is damage.
// The suffix .bin alone says nothing.
bool IsTorchName(std::string_view name) {
  if (HasSuffix(name, {".pt", ".pth"})) return true;
  return name.ends_with(".bin") &&
         (name.starts_with("pytorch_model") ||
          name.starts_with("diffusion_pytorch_model") ||
          name.starts_with("adapter_model") || name == "optimizer.bin" ||
          name == "scheduler.bin" || name == "training_args.bin");
}

// `.metadata`, or `__<rank>.metadata` of a save without collectives.
bool IsDcpMetadataName(std::string_view name) {
  if (!name.ends_with(".metadata")) return false;
  name.remove_suffix(std::string_view(".metadata").size());
  if (name.empty()) return true;
  return name.size() > 2 && name.starts_with("__") &&
         name.find_first_not_of("0123456789", 2) == std::string_view::npos;
}

// One pickle or several, or text: it must at least begin in a way that can end.
absl::Status CheckBarePickle(ByteSource& file) {
  if (file.SizeBytes() > kBarePickleBytesMax) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(const std::string content,
                         ReadPiece(file, 0, file.SizeBytes()));
  const absl::Status parsed = Pickle::Parse(content).status();
  if (absl::IsOutOfRange(parsed) || absl::IsDataLoss(parsed)) {
    return absl::DataLossError(Message(parsed));
  }
  return absl::OkStatus();
}

// Without reading it all (and Python's JSON has NaN in it): it begins and ends
// as one value, not with the zeros or in the middle as after a crash.
absl::Status CheckJsonEdges(ByteSource& file) {
  constexpr std::string_view kSpace = " \t\r\n";
  const uint64_t size = file.SizeBytes();
  CAIRN_ASSIGN_OR_RETURN(const std::string head, ReadHead(file, kEdgeBytes));
  const uint64_t tail_bytes = std::min(size, kEdgeBytes);
  CAIRN_ASSIGN_OR_RETURN(const std::string tail,
                         ReadPiece(file, size - tail_bytes, tail_bytes));
  const size_t first = head.find_first_not_of(kSpace);
  const size_t last = tail.find_last_not_of(kSpace);
  if (first == std::string::npos || last == std::string::npos) {
    return Flaw(0, "an empty file, not JSON");
  }
  const char open = head[first];
  const char close = tail[last];
  if (open == '\0' || close == '\0') {
    return Flaw(open == '\0' ? 0 : size - tail_bytes + last,
                "zeros instead of JSON");
  }
  if ((open == '{' && close != '}') || (open == '[' && close != ']')) {
    return Flaw(size, "the JSON text is cut off");
  }
  return absl::OkStatus();
}

absl::Status NoTorchHead(std::string_view head) {
  if (head.empty()) return Flaw(0, "an empty file, not torch.save's");
  if (AllZeros(head)) return Flaw(0, "zeros instead of what torch.save writes");
  return Flaw(0, "neither a zip archive nor torch's older format");
}

// The check for a file that may or must be torch's.
StructureReport CheckTorchLike(std::string_view name, std::string_view head,
                               ByteSource& file) {
  if (head.starts_with(kZipHead)) return {"torch", CheckTorchZip(file)};
  if (IsLegacyTorchHead(head)) return {"torch_legacy", CheckLegacyTorch(file)};
  if (AllZeros(head) && (IsTorchName(name) || head.empty())) {
    return {"torch", NoTorchHead(head)};
  }
  // Protocol 2 or later begins with its number.
  if (head.starts_with('\x80')) return {"pickle", CheckBarePickle(file)};
  return {"opaque", absl::OkStatus()};
}

}  // namespace

absl::Status CheckTorchFile(ByteSource& file) {
  CAIRN_ASSIGN_OR_RETURN(const std::string head,
                         ReadHead(file, kLegacyMagicBytes));
  if (head.starts_with(kZipHead)) return CheckTorchZip(file);
  if (IsLegacyTorchHead(head)) return CheckLegacyTorch(file);
  return NoTorchHead(head);
}

absl::StatusOr<PickleInts> ReadTopLevelInts(
    ByteSource& torch_file, const std::vector<std::string>& keys) {
  CAIRN_ASSIGN_OR_RETURN(const std::string head,
                         ReadHead(torch_file, kLegacyMagicBytes));
  if (!head.starts_with(kZipHead) && !IsLegacyTorchHead(head)) {
    return NoTorchHead(head);
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string content,
                         head.starts_with(kZipHead)
                             ? ReadTorchZipPickle(torch_file)
                             : ReadLegacyTorchPickle(torch_file));
  const auto pickle = Pickle::Parse(content);
  if (absl::IsOutOfRange(pickle.status())) {
    return absl::DataLossError(Message(pickle.status()));
  }
  if (!pickle.ok()) return pickle.status();
  PickleInts ints;
  for (const std::string& wanted : keys) {
    std::optional<int64_t> found;
    pickle->ForEachPair(pickle->root(),
                        [&](Pickle::Ref key, Pickle::Ref value) {
                          if (pickle->AsString(key) == wanted)
                            found = pickle->AsInt(value);
                          return true;
                        });
    if (found.has_value()) ints.values.emplace_back(wanted, *found);
  }
  return ints;
}

absl::Status CheckZipFile(ByteSource& file) { return CheckZip(file); }

absl::StatusOr<StructureReport> CheckFile(std::string_view name,
                                          ByteSource& file) {
  const std::string_view base = BaseName(name);
  CAIRN_ASSIGN_OR_RETURN(const std::string head,
                         ReadHead(file, kLegacyMagicBytes));
  StructureReport report{"opaque", absl::OkStatus()};
  if (base.ends_with(".safetensors")) {
    report = {"safetensors", CheckSafetensorsFile(file)};
  } else if (IsDcpMetadataName(base)) {
    report = {"dcp_metadata", ReadDcpMetadata(file).status()};
  } else if (HasSuffix(base, {".safetensors.index.json", ".bin.index.json"})) {
    report = {"shard_index", ReadShardIndex(file).status()};
  } else if (base.ends_with(".json")) {
    report = {"json", CheckJsonEdges(file)};
  } else if (HasSuffix(base, {".npz", ".keras", ".zip"})) {
    report = {"zip", CheckZip(file)};
  } else if (IsTorchName(base) ||
             HasSuffix(base, {".ckpt", ".pkl", ".pickle"})) {
    report = CheckTorchLike(base, head, file);
  } else if (base.ends_with(".bin") && head.starts_with(kZipHead)) {
    report = {"zip", CheckZip(file)};
  } else if (base.ends_with(".bin") && IsLegacyTorchHead(head)) {
    report = {"torch_legacy", CheckLegacyTorch(file)};
  }
  // What is wrong with the content is the report; anything else is an error.
  // Content beyond a parser's limits counts as content.
  if (!report.status.ok() && !absl::IsDataLoss(report.status) &&
      !absl::IsResourceExhausted(report.status)) {
    return report.status;
  }
  return report;
}

}  // namespace cairn
