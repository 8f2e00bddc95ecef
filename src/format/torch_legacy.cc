#include "format/torch_legacy.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/posix.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "format/pickle.h"
#include "format/torch_zip.h"
#include "format/wire.h"

namespace cairn {
namespace {

// Most files need the first of these reads only.
constexpr uint64_t kFirstReadBytes = uint64_t{1} << 20;
constexpr uint64_t kReadGrowth = 8;
// Each of these costs a small read; behind so many, lengths are only computed.
constexpr size_t kStorageHeadersMax = 4096;

constexpr int kObjectPickle = 3;
constexpr int kKeysPickle = 4;

// The pickle number `index` (from 0) in `content`. Errors as of Pickle::Parse.
struct Located {
  Pickle pickle;
  uint64_t offset = 0;  // In `content`.
};
absl::StatusOr<Located> ParseNth(std::string_view content, int index) {
  uint64_t at = 0;
  for (int i = 0;; ++i) {
    CAIRN_ASSIGN_OR_RETURN(Pickle pickle, Pickle::Parse(content.substr(at)));
    if (i == index) return Located{std::move(pickle), at};
    at += pickle.consumed_bytes();
  }
}

// The start of the file, at least as far as the end of pickle `index`, and that
// pickle (which points into `content`).
struct Head {
  std::string content;
  std::optional<Located> located;
};
absl::Status ReadHead(ByteSource& file, int index, Head* head) {
  const uint64_t size = file.SizeBytes();
  for (uint64_t reach = kFirstReadBytes;; reach *= kReadGrowth) {
    const uint64_t count = std::min({reach, size, kLegacyPickleBytesMax});
    CAIRN_ASSIGN_OR_RETURN(head->content, ReadPiece(file, 0, count));
    auto located = ParseNth(head->content, index);
    if (located.ok()) {
      head->located.emplace(*std::move(located));
      return absl::OkStatus();
    }
    if (!absl::IsOutOfRange(located.status()) || count == size) {
      return located.status();
    }
    if (count == kLegacyPickleBytesMax) {
      return absl::ResourceExhaustedError(fmt::format(
          "pickles of more than {} bytes are not read", kLegacyPickleBytesMax));
    }
  }
}

// Follows the storages from `at`, in the order of `keys`, to the file's end.
absl::Status CheckStorageChain(ByteSource& file, uint64_t at,
                               const std::vector<std::string_view>& keys,
                               const StorageSizes& storages) {
  const uint64_t size = file.SizeBytes();
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto found = storages.find(keys[i]);
    // A class of elements that is not known: no telling where the next one is.
    if (found == storages.end() || found->second.element_bytes == 0) {
      return absl::OkStatus();
    }
    const auto [numel, element_bytes] = found->second;
    if (size - at < 8 || numel > (size - at - 8) / element_bytes) {
      return Flaw(at,
                  fmt::format("storage {} needs {} elements of {} bytes, "
                              "but the file ends at {}",
                              ShownName(keys[i]), numel, element_bytes, size));
    }
    if (i < kStorageHeadersMax) {
      CAIRN_ASSIGN_OR_RETURN(const std::string header, ReadPiece(file, at, 8));
      if (LoadLittle(header, 8) != numel) {
        return Flaw(at, fmt::format("storage {} does not begin with its number "
                                    "of elements",
                                    ShownName(keys[i])));
      }
    }
    at += 8 + numel * element_bytes;
  }
  // Bytes behind the last one are another torch.save into the same file.
  return absl::OkStatus();
}

// What cannot be parsed is a flaw, unless it is only beyond this parser.
absl::Status AsVerdict(const absl::Status& parsed) {
  if (absl::IsOutOfRange(parsed) || absl::IsDataLoss(parsed)) {
    return absl::DataLossError(Message(parsed));
  }
  return absl::IsUnimplemented(parsed) ? absl::OkStatus() : parsed;
}

}  // namespace

bool IsLegacyTorchHead(std::string_view head) {
  // Protocol 2, LONG1 of ten bytes: 0x1950a86a20f9469cfc6c, STOP.
  static constexpr std::string_view kMagic =
      "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  static_assert(kMagic.size() == kLegacyMagicBytes);
  return head == kMagic;
}

absl::Status CheckLegacyTorch(ByteSource& file) {
  Head head;
  const absl::Status read = ReadHead(file, kKeysPickle, &head);
  if (!read.ok()) return AsVerdict(read);
  const Pickle& keys_pickle = head.located->pickle;
  std::vector<std::string_view> keys;
  keys_pickle.ForEachItem(keys_pickle.root(), [&](Pickle::Ref item) {
    keys.push_back(keys_pickle.AsString(item).value_or(std::string_view()));
    return true;
  });
  CAIRN_ASSIGN_OR_RETURN(const Located object,
                         ParseNth(head.content, kObjectPickle));
  return CheckStorageChain(file,
                           head.located->offset + keys_pickle.consumed_bytes(),
                           keys, CollectStorages(object.pickle));
}

absl::StatusOr<std::string> ReadLegacyTorchPickle(ByteSource& file) {
  Head head;
  const absl::Status read = ReadHead(file, kObjectPickle, &head);
  if (absl::IsOutOfRange(read)) return absl::DataLossError(Message(read));
  CAIRN_RETURN_IF_ERROR(read);
  return head.content.substr(head.located->offset);
}

}  // namespace cairn
