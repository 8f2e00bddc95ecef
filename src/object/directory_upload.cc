#include "object/directory_upload.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "base/crc64.h"
#include "base/digest.h"
#include "base/escape.h"
#include "base/kill_point.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "object/directory_keys.h"

namespace cairn {
namespace {

constexpr int kInfoVersion = 1;
constexpr uint64_t kInfoBytesMax = 64
                                   << 10;  // A key is 3 * 1,024 bytes at most.
constexpr size_t kTokenBytes = 16;

struct Info {
  std::string key;
  uint64_t size_bytes = 0;
  uint64_t part_bytes = 0;
};

std::string DirectoryOf(std::string_view token) {
  return fmt::format("{}/{}", kUploadsDirectory, token);
}

bool IsToken(std::string_view token) {
  return token.size() == 2 * kTokenBytes &&
         token.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string InfoText(const Info& info) {
  const nlohmann::json json = {{"version", kInfoVersion},
                               {"key", EscapeName(info.key)},
                               {"size_bytes", info.size_bytes},
                               {"part_bytes", info.part_bytes}};
  return json.dump() + "\n";
}

// nullopt: not what InfoText writes.
std::optional<Info> ParseInfo(const std::string& text) {
  const nlohmann::json json =
      nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto number = [&json](const char* name) -> std::optional<uint64_t> {
    const auto field = json.find(name);
    if (field == json.end() || !field->is_number_unsigned()) {
      return std::nullopt;
    }
    return field->get<uint64_t>();
  };
  const auto version = number("version");
  const auto size_bytes = number("size_bytes");
  const auto part_bytes = number("part_bytes");
  const auto key = json.find("key");
  if (!version || *version != kInfoVersion || !size_bytes || !part_bytes ||
      key == json.end() || !key->is_string()) {
    return std::nullopt;
  }
  auto name = UnescapeName(key->get_ref<const std::string&>());
  if (!name.ok()) return std::nullopt;
  return Info{*std::move(name), *size_bytes, *part_bytes};
}

absl::Status NoUpload(std::string_view key, std::string_view token) {
  return absl::NotFoundError(fmt::format(
      "no upload '{}' of object '{}' with these sizes; it was committed, "
      "aborted or removed",
      EscapeName(token), EscapeName(key)));
}

// The sizes that the upload was begun with.
absl::StatusOr<UploadOptions> SizesOf(const Root& root, std::string_view key,
                                      std::string_view token) {
  const auto text =
      root.ReadSmallFile(DirectoryOf(token) + "/info", kInfoBytesMax);
  if (absl::IsNotFound(text.status())) return NoUpload(key, token);
  if (!text.ok()) return text.status();
  const std::optional<Info> info = ParseInfo(*text);
  if (!info) return NoUpload(key, token);
  return UploadOptions{.size_bytes = info->size_bytes,
                       .part_bytes = info->part_bytes};
}

bool IsAllZeros(ByteView content) {
  return content.empty() || (content[0] == std::byte{0} &&
                             std::memcmp(content.data(), content.data() + 1,
                                         content.size() - 1) == 0);
}

absl::Status WriteAll(const BlockFile& file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file.fd.get(), text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return PosixError(errno, "write", file.path);
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

DirectoryUpload::DirectoryUpload(DirectoryFiles* files, std::string_view key,
                                 std::string_view token,
                                 const UploadOptions& options)
    : files_(files),
      key_(key),
      token_(token),
      directory_(DirectoryOf(token)),
      size_bytes_(options.size_bytes),
      part_bytes_(options.part_bytes) {}

DirectoryUpload::~DirectoryUpload() {
  absl::MutexLock lock(&mutex_);
  if (state_ == State::kGone || detached_) return;
  files_->root().RemoveTree(directory_).IgnoreError();  // Else a later sweep.
}

absl::Status DirectoryUpload::CheckOptions(std::string_view key,
                                           const UploadOptions& options) {
  CAIRN_RETURN_IF_ERROR(CheckKey(key));
  if (options.size_bytes == 0 || options.part_bytes == 0 ||
      options.part_bytes % kMiB != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "an upload of {} bytes in parts of {}: neither may be 0, and parts are "
        "a multiple of 1 MiB",
        options.size_bytes, options.part_bytes));
  }
  if ((options.size_bytes - 1) / options.part_bytes >= kPartsMax) {
    return absl::InvalidArgumentError(
        fmt::format("an upload of {} bytes in parts of {} has more than {} "
                    "parts; make them larger",
                    options.size_bytes, options.part_bytes, kPartsMax));
  }
  return absl::OkStatus();
}

int DirectoryUpload::PartCount() const {
  return static_cast<int>((size_bytes_ - 1) / part_bytes_) + 1;
}

uint64_t DirectoryUpload::PartOffset(int number) const {
  return (static_cast<uint64_t>(number) - 1) * part_bytes_;
}

uint64_t DirectoryUpload::PartSize(int number) const {
  return std::min(part_bytes_, size_bytes_ - PartOffset(number));
}

absl::StatusOr<std::unique_ptr<Upload>> DirectoryUpload::Begin(
    DirectoryFiles* files, std::string_view key, const UploadOptions& options) {
  CAIRN_RETURN_IF_ERROR(CheckOptions(key, options));
  std::unique_ptr<DirectoryUpload> upload(
      new DirectoryUpload(files, key, RandomHex(kTokenBytes), options));
  CAIRN_RETURN_IF_ERROR(upload->Create());
  return upload;
}

absl::Status DirectoryUpload::Create() {
  files_->PrepareForWriting();
  const Root& root = files_->root();
  CAIRN_ASSIGN_OR_RETURN(data_, root.CreateForWrite(directory_ + "/data"));
  CAIRN_RETURN_IF_ERROR(
      files_->engine().Finish(data_, size_bytes_, /*sync=*/false));
  CAIRN_ASSIGN_OR_RETURN(
      journal_, root.CreateForWrite(directory_ + "/parts", /*direct=*/false));
  const std::string info = InfoText({key_, size_bytes_, part_bytes_});
  return root.WriteFileDurably(directory_ + "/info", AsBytes(info),
                               /*replace=*/false);
}

absl::StatusOr<std::unique_ptr<Upload>> DirectoryUpload::Resume(
    DirectoryFiles* files, std::string_view key, std::string_view token,
    const UploadOptions& options) {
  UploadOptions sizes = options;
  const bool as_begun = options.size_bytes == 0 && options.part_bytes == 0;
  if (as_begun && IsToken(token)) {
    CAIRN_ASSIGN_OR_RETURN(sizes, SizesOf(files->root(), key, token));
  }
  CAIRN_RETURN_IF_ERROR(CheckOptions(key, sizes));
  if (!IsToken(token)) return NoUpload(key, token);
  std::unique_ptr<DirectoryUpload> upload(
      new DirectoryUpload(files, key, token, sizes));
  upload->Detach();  // What cannot be resumed is not removed either.
  CAIRN_RETURN_IF_ERROR(upload->Reopen());
  CAIRN_RETURN_IF_ERROR(upload->BelievePartsOfEarlierBoots());
  absl::MutexLock lock(&upload->mutex_);
  upload->detached_ = false;
  return upload;
}

absl::Status DirectoryUpload::Reopen() {
  const Root& root = files_->root();
  const auto info_text =
      root.ReadSmallFile(directory_ + "/info", kInfoBytesMax);
  if (absl::IsNotFound(info_text.status())) return NoUpload(key_, token_);
  if (!info_text.ok()) return info_text.status();
  const std::optional<Info> info = ParseInfo(*info_text);
  if (!info || info->key != key_ || info->size_bytes != size_bytes_ ||
      info->part_bytes != part_bytes_) {
    return NoUpload(key_, token_);
  }

  auto data = root.OpenForUpdate(directory_ + "/data");
  if (absl::IsNotFound(data.status())) return NoUpload(key_, token_);
  if (!data.ok()) return data.status();
  data_ = *std::move(data);
  // A direct write of the last part may have gone beyond the end; a crash of
  // the machine may have taken the size back.
  CAIRN_RETURN_IF_ERROR(
      files_->engine().Finish(data_, size_bytes_, /*sync=*/false));

  std::string text;
  auto journal_text =
      root.ReadSmallFile(directory_ + "/parts", kJournalBytesMax);
  if (journal_text.ok()) {
    text = *std::move(journal_text);
    CAIRN_ASSIGN_OR_RETURN(
        journal_, root.OpenForUpdate(directory_ + "/parts", /*direct=*/false));
  } else if (absl::IsNotFound(journal_text.status())) {
    CAIRN_ASSIGN_OR_RETURN(
        journal_, root.CreateForWrite(directory_ + "/parts", /*direct=*/false));
  } else {
    return journal_text.status();
  }

  absl::MutexLock lock(&mutex_);
  all_touched_ = true;
  for (const auto& [number, part] : ParseJournal(text)) {
    if (number > PartCount() || part.size_bytes != PartSize(number)) continue;
    parts_.emplace(number, part);
  }
  // After a torn line ours would be torn too.
  return text.empty() || text.back() == '\n' ? absl::OkStatus()
                                             : AppendToJournal("\n");
}

absl::Status DirectoryUpload::BelievePartsOfEarlierBoots() {
  std::vector<std::pair<int, JournalPart>> doubtful;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [number, part] : parts_) {
      if (part.boot != BootName()) doubtful.emplace_back(number, part);
    }
  }
  for (auto& [number, part] : doubtful) {
    const absl::Status stored = files_->CheckStored(
        data_, PartOffset(number), part.size_bytes, part.crc64_nvme);
    absl::MutexLock lock(&mutex_);
    if (absl::IsDataLoss(stored)) {
      parts_.erase(number);
      CAIRN_RETURN_IF_ERROR(AppendToJournal(JournalLine(number, {})));
      continue;
    }
    CAIRN_RETURN_IF_ERROR(stored);
    part.boot = BootName();
    CAIRN_RETURN_IF_ERROR(AppendToJournal(JournalLine(number, part)));
    parts_[number] = part;
  }
  return absl::OkStatus();
}

absl::Status DirectoryUpload::AppendToJournal(std::string_view line) {
  if (lseek(journal_.fd.get(), 0, SEEK_END) < 0) {
    return PosixError(errno, "find the end of", journal_.path);
  }
  return WriteAll(journal_, line);
}

absl::Status DirectoryUpload::AddPart(int number, MutableByteView content,
                                      uint64_t crc64_nvme) {
  if (number < 1 || number > PartCount() ||
      content.size() != PartSize(number)) {
    return absl::InvalidArgumentError(
        fmt::format("part {} of {} bytes does not fit an upload of {} bytes in "
                    "parts of {}",
                    number, content.size(), size_bytes_, part_bytes_));
  }
  if (reinterpret_cast<uintptr_t>(content.data()) % kDirectAlignment != 0) {
    return absl::InvalidArgumentError(
        fmt::format("the memory of part {} is not aligned to {}", number,
                    kDirectAlignment));
  }
  bool untouched = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto free = [this, number]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !busy_.contains(number);
    };
    mutex_.Await(absl::Condition(&free));
    if (state_ != State::kOpen) {
      return absl::FailedPreconditionError("the upload is committed or gone");
    }
    // The journal must never vouch for what is about to be overwritten.
    if (parts_.contains(number)) {
      CAIRN_RETURN_IF_ERROR(AppendToJournal(JournalLine(number, {})));
      parts_.erase(number);
    }
    busy_.insert(number);
    untouched = touched_.insert(number).second && !all_touched_;
  }
  absl::Status status = StorePart(number, content, crc64_nvme, untouched);
  absl::MutexLock lock(&mutex_);
  busy_.erase(number);
  CAIRN_RETURN_IF_ERROR(status);
  const JournalPart part = {content.size(), crc64_nvme, BootName()};
  CAIRN_RETURN_IF_ERROR(AppendToJournal(JournalLine(number, part)));
  CAIRN_KILL_POINT("store.part.after_journal");
  parts_[number] = part;
  return absl::OkStatus();
}

absl::Status DirectoryUpload::StorePart(int number, MutableByteView content,
                                        uint64_t crc64_nvme, bool untouched) {
  const bool hole = untouched &&
                    crc64_nvme == Crc64NvmeOfZeros(content.size()) &&
                    IsAllZeros(content);
  if (hole) return absl::OkStatus();
  // The contract of AddPart: the memory goes on to the next aligned address.
  const MutableByteView padded(content.data(), RoundUpToDirect(content.size()));
  CAIRN_RETURN_IF_ERROR(files_->engine().Write(data_, PartOffset(number),
                                               content.size(), padded));
  CAIRN_KILL_POINT("store.part.after_data");
  return files_->CheckStored(data_, PartOffset(number), content.size(),
                             crc64_nvme);
}

absl::Status DirectoryUpload::CheckWhole(uint64_t crc64_nvme) {
  uint64_t whole = 0;
  int expected = 0;
  for (const auto& [number, part] : parts_) {
    if (number != ++expected) break;
    whole = Crc64NvmeCombine(whole, part.crc64_nvme, part.size_bytes);
  }
  if (parts_.size() != static_cast<size_t>(PartCount())) {
    return absl::FailedPreconditionError(fmt::format(
        "the upload of object '{}' has {} of {} parts; send the missing ones",
        EscapeName(key_), parts_.size(), PartCount()));
  }
  if (whole == crc64_nvme) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("the parts of object '{}' have CRC-64 {} together and should "
                  "have {}",
                  EscapeName(key_), ToHex(whole), ToHex(crc64_nvme)));
}

absl::Status DirectoryUpload::Commit(uint64_t crc64_nvme) {
  {
    absl::MutexLock lock(&mutex_);
    const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return busy_.empty();
    };
    mutex_.Await(absl::Condition(&idle));
    if (state_ != State::kOpen) {
      return absl::FailedPreconditionError("the upload is committed or gone");
    }
    CAIRN_RETURN_IF_ERROR(CheckWhole(crc64_nvme));
    state_ = State::kCommitting;
  }
  const absl::Status status = Finish(crc64_nvme);
  const bool gone = status.ok() || absl::IsAlreadyExists(status);
  if (gone) {
    // If this fails, what is left means "committed" and is swept.
    files_->root().RemoveTree(directory_).IgnoreError();
  }
  absl::MutexLock lock(&mutex_);
  state_ = gone ? State::kGone : State::kOpen;
  return status;
}

absl::Status DirectoryUpload::Finish(uint64_t crc64_nvme) {
  CAIRN_RETURN_IF_ERROR(
      files_->MarkContent(data_, crc64_nvme, /*durable=*/true));
  CAIRN_RETURN_IF_ERROR(
      files_->engine().Finish(data_, size_bytes_, /*sync=*/true));
  CAIRN_KILL_POINT("store.upload.before_publish");
  CAIRN_RETURN_IF_ERROR(files_->Publish(directory_ + "/data", key_).status());
  CAIRN_KILL_POINT("store.upload.after_publish");
  return absl::OkStatus();
}

void DirectoryUpload::Detach() {
  absl::MutexLock lock(&mutex_);
  detached_ = true;
}

absl::StatusOr<std::vector<PartInfo>> DirectoryUpload::Parts() {
  absl::MutexLock lock(&mutex_);
  if (state_ == State::kGone) {
    return absl::FailedPreconditionError("the upload is committed or gone");
  }
  std::vector<PartInfo> parts;
  for (const auto& [number, part] : parts_) {
    parts.push_back({number, part.size_bytes, part.crc64_nvme});
  }
  return parts;
}

absl::StatusOr<std::vector<UploadInfo>> DirectoryUpload::List(
    DirectoryFiles* files, std::string_view prefix) {
  const Root& root = files->root();
  std::vector<UploadInfo> uploads;
  const auto entries = root.List(kUploadsDirectory);
  if (absl::IsNotFound(entries.status())) return uploads;
  if (!entries.ok()) return entries.status();
  for (const DirectoryEntry& entry : *entries) {
    if (!IsToken(entry.name)) continue;
    const std::string directory = DirectoryOf(entry.name);
    const auto text = root.ReadSmallFile(directory + "/info", kInfoBytesMax);
    // Being begun, or gone since the listing.
    if (absl::IsNotFound(text.status())) continue;
    if (!text.ok()) return text.status();
    std::optional<Info> info = ParseInfo(*text);
    if (!info || !info->key.starts_with(prefix)) continue;
    CAIRN_ASSIGN_OR_RETURN(const bool staged, root.Exists(directory + "/data"));
    if (!staged) {
      root.RemoveTree(directory).IgnoreError();
      continue;
    }
    uploads.push_back({std::move(info->key), entry.name});
  }
  std::sort(uploads.begin(), uploads.end(),
            [](const UploadInfo& a, const UploadInfo& b) {
              return std::tie(a.key, a.token) < std::tie(b.key, b.token);
            });
  return uploads;
}

}  // namespace cairn
