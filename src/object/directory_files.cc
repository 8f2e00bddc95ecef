#include "object/directory_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>

#include "absl/time/clock.h"
#include "base/crc64.h"
#include "base/digest.h"
#include "base/escape.h"
#include "base/status_macros.h"
#include "object/directory_keys.h"
#include "object/part_journal.h"

namespace cairn {
namespace {

constexpr char kCrcAttribute[] = "user.cairn.crc64";
constexpr size_t kCrcDigits = 16;

// rw for all, less this process's umask. umask(2) can only be read by setting
// it, which other threads would feel.
mode_t FileMode() {
  constexpr mode_t kUsualMask = 022;
  std::ifstream status("/proc/self/status");
  std::string word;
  mode_t mask = kUsualMask;
  while (status >> word) {
    if (word != "Umask:") continue;
    status >> std::oct >> mask;
    break;
  }
  return 0666 & ~mask;
}

absl::Status WriteBuffered(const BlockFile& file, ByteView content) {
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t written =
        pwrite(file.fd.get(), content.data() + done, content.size() - done,
               static_cast<off_t>(done));
    if (written < 0) {
      if (errno == EINTR) continue;
      return PosixError(errno, "write", file.path);
    }
    done += static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

absl::Status ReadBuffered(const BlockFile& file, uint64_t offset,
                          MutableByteView out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        pread(file.fd.get(), out.data() + done, out.size() - done,
              static_cast<off_t>(offset + done));
    if (got < 0) {
      if (errno == EINTR) continue;
      return PosixError(errno, "read", file.path);
    }
    if (got == 0) {
      return absl::OutOfRangeError(fmt::format(
          "'{}' ends at byte {}, before byte {} that was asked for",
          EscapeName(file.path), offset + done, offset + out.size()));
    }
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

bool IsAligned(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory) % kDirectAlignment == 0;
}

std::string ParentOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? ""
                                                     : path.substr(0, slash));
}

absl::Status Taken(std::string_view key) {
  return absl::AlreadyExistsError(fmt::format(
      "object '{}' exists already; it was left alone", EscapeName(key)));
}

// What is in the way is neither file nor directory.
absl::Status NotAnObject(const std::string& full_path) {
  return absl::FailedPreconditionError(
      fmt::format("'{}' is neither a regular file nor a directory; a store's "
                  "directory holds nothing else, move it away",
                  EscapeName(full_path)));
}

}  // namespace

std::string RandomHex(size_t bytes) {
  std::string raw(bytes, '\0');
  if (getrandom(raw.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    std::random_device random;
    for (char& c : raw) c = static_cast<char>(random());
  }
  std::string hex;
  for (const char c : raw) {
    hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  }
  return hex;
}

TemporaryObject::~TemporaryObject() {
  if (root_ == nullptr) return;
  root_->RemoveFile(path_)
      .IgnoreError();  // Else it is a leftover, swept later.
}

DirectoryFiles::DirectoryFiles(Root root, IoEngine* engine)
    : root_(std::move(root)),
      engine_(engine),
      file_mode_(FileMode()),
      temporary_prefix_(
          fmt::format("{}/{}", kTemporaryDirectory, RandomHex(8))) {}

void DirectoryFiles::PrepareForWriting() {
  absl::call_once(prepared_, [this] { RemoveLeftovers(); });
}

// Errors are not looked at: leftovers harm nobody, and the next process tries
// again.
void DirectoryFiles::RemoveLeftovers() {
  const int64_t oldest_ns = absl::ToUnixNanos(absl::Now()) -
                            absl::ToInt64Nanoseconds(kLeftoverAgeMax);
  const auto temporaries = root_.List(kTemporaryDirectory);
  if (temporaries.ok()) {
    for (const DirectoryEntry& entry : *temporaries) {
      if (entry.stat.mtime_ns >= oldest_ns) continue;
      root_.RemoveFile(fmt::format("{}/{}", kTemporaryDirectory, entry.name))
          .IgnoreError();
    }
  }
  const auto uploads = root_.List(kUploadsDirectory);
  if (!uploads.ok()) return;
  for (const DirectoryEntry& entry : *uploads) {
    if (entry.stat.mtime_ns >= oldest_ns) continue;
    const std::string directory =
        fmt::format("{}/{}", kUploadsDirectory, entry.name);
    const auto has_info = root_.Exists(directory + "/info");
    if (has_info.ok() && !*has_info) root_.RemoveTree(directory).IgnoreError();
  }
}

absl::StatusOr<TemporaryObject> DirectoryFiles::CreateTemporary(
    uint64_t size_bytes) {
  PrepareForWriting();
  std::string path =
      fmt::format("{}-{}", temporary_prefix_, temporaries_.fetch_add(1) + 1);
  CAIRN_ASSIGN_OR_RETURN(
      BlockFile file,
      root_.CreateForWrite(path, /*direct=*/size_bytes >= kDirectBytesMin));
  return TemporaryObject(&root_, std::move(path), std::move(file));
}

absl::Status DirectoryFiles::WriteContent(const BlockFile& file,
                                          ByteView content, uint64_t crc) {
  if (!file.direct) return WriteBuffered(file, content);
  const Buffer bounce = bounces_.Get();
  for (size_t done = 0; done < content.size();) {
    const size_t step = std::min(kBounceBytes, content.size() - done);
    std::memcpy(bounce.bytes().data(), content.data() + done, step);
    CAIRN_RETURN_IF_ERROR(engine_->Write(file, done, step, bounce.bytes()));
    done += step;
  }
  CAIRN_RETURN_IF_ERROR(engine_->Finish(file, content.size(), /*sync=*/false));
  uint64_t stored = 0;
  for (size_t done = 0; done < content.size();) {
    const size_t step = std::min(kBounceBytes, content.size() - done);
    CAIRN_RETURN_IF_ERROR(engine_->Read(file, done, step, bounce.bytes()));
    stored = Crc64Nvme(bounce.bytes().first(step), stored);
    done += step;
  }
  if (stored == crc) return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "'{}' does not read back as it was written: CRC-64 {} instead "
      "of {}; check the disk",
      EscapeName(file.path), ToHex(stored), ToHex(crc)));
}

absl::Status DirectoryFiles::ReadContent(const BlockFile& file, uint64_t offset,
                                         MutableByteView out) {
  if (!file.direct) return ReadBuffered(file, offset, out);
  if (offset % kDirectAlignment == 0 && IsAligned(out.data())) {
    const size_t whole = out.size() / kDirectAlignment * kDirectAlignment;
    if (whole > 0) {
      CAIRN_RETURN_IF_ERROR(
          engine_->Read(file, offset, whole, out.first(whole)));
      offset += whole;
      out = out.subspan(whole);
    }
  }
  if (out.empty()) return absl::OkStatus();
  const Buffer bounce = bounces_.Get();
  while (!out.empty()) {
    const uint64_t start = offset / kDirectAlignment * kDirectAlignment;
    const size_t before = static_cast<size_t>(offset - start);
    const size_t step = std::min(kBounceBytes - before, out.size());
    CAIRN_RETURN_IF_ERROR(
        engine_->Read(file, start, before + step, bounce.bytes()));
    std::memcpy(out.data(), bounce.bytes().data() + before, step);
    offset += step;
    out = out.subspan(step);
  }
  return absl::OkStatus();
}

absl::Status DirectoryFiles::CheckStored(const BlockFile& file, uint64_t offset,
                                         uint64_t size_bytes, uint64_t crc) {
  const Buffer bounce = bounces_.Get();
  uint64_t stored = 0;
  for (uint64_t done = 0; done < size_bytes;) {
    const uint64_t step = std::min<uint64_t>(kBounceBytes, size_bytes - done);
    CAIRN_RETURN_IF_ERROR(
        engine_->Read(file, offset + done, step, bounce.bytes()));
    stored = Crc64Nvme(bounce.bytes().first(step), stored);
    done += step;
  }
  if (stored == crc) return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "bytes {} to {} of '{}' have CRC-64 {} and should have {}: the content "
      "changed on its way to the disk, or was not what its sender says",
      offset, offset + size_bytes, EscapeName(file.path), ToHex(stored),
      ToHex(crc)));
}

absl::Status DirectoryFiles::MarkContent(const BlockFile& file, uint64_t crc,
                                         bool durable) {
  if (fchmod(file.fd.get(), file_mode_) != 0) {
    return PosixError(errno, "set the mode of", file.path);
  }
  if (!keeps_attributes_.load(std::memory_order_relaxed)) {
    return absl::OkStatus();
  }
  std::string value = ToHex(crc);
  if (!durable) value += " " + ToHex(BootName());
  if (fsetxattr(file.fd.get(), kCrcAttribute, value.data(), value.size(), 0) ==
      0) {
    return absl::OkStatus();
  }
  if (errno != ENOTSUP && errno != EPERM) {
    return PosixError(errno, "set an extended attribute of", file.path);
  }
  keeps_attributes_.store(false, std::memory_order_relaxed);
  return absl::OkStatus();
}

std::optional<uint64_t> DirectoryFiles::CrcOf(const BlockFile& file) const {
  char value[2 * kCrcDigits + 2];
  const ssize_t size =
      fgetxattr(file.fd.get(), kCrcAttribute, value, sizeof(value));
  if (size < static_cast<ssize_t>(kCrcDigits)) return std::nullopt;
  const std::string_view text(value, static_cast<size_t>(size));
  if (text.size() > kCrcDigits &&
      text.substr(kCrcDigits) != " " + ToHex(BootName())) {
    return std::nullopt;
  }
  const auto crc = Crc64FromHex(text.substr(0, kCrcDigits));
  if (!crc.ok()) return std::nullopt;
  return *crc;
}

absl::Mutex* DirectoryFiles::LockOf(std::string_view key) {
  return &key_locks_[std::hash<std::string_view>()(key) % key_locks_.size()];
}

// A key may lie in one of two places, and no lock spans processes, so the order
// of looking decides: a publisher puts its file in one place and then looks at
// the other. Of two publishers of one key in different places the later one
// therefore sees the other's file; who sees one takes its own back and starts
// again. (Two places are possible only while a file or directory in the way
// comes or goes.) Within this process a lock keeps even that from being seen.
absl::StatusOr<std::string> DirectoryFiles::Publish(const std::string& path,
                                                    std::string_view key) {
  const std::string name(key);
  absl::MutexLock lock(LockOf(key));
  for (int attempt = 0; attempt < kPublishAttemptsMax; ++attempt) {
    absl::StatusOr<std::string> place = PublishOnce(path, name);
    if (!absl::IsAborted(place.status())) return place;
  }
  return absl::UnavailableError(fmt::format(
      "cannot give object '{}' its place: directories on the way to it keep "
      "coming and going; try again",
      EscapeName(key)));
}

// kAborted: start again.
absl::StatusOr<std::string> DirectoryFiles::PublishOnce(
    const std::string& path, const std::string& key) {
  const std::string aside = AsidePath(key);
  const bool natural = IsNaturalKey(key);
  if (natural) {
    CAIRN_ASSIGN_OR_RETURN(const bool taken, root_.Exists(aside));
    if (taken) return Taken(key);
    CAIRN_ASSIGN_OR_RETURN(const Placed placed, PlaceAt(path, key));
    if (placed == Placed::kTaken) return Taken(key);
    if (placed == Placed::kYes) {
      CAIRN_ASSIGN_OR_RETURN(const bool raced, root_.Exists(aside));
      if (!raced) return key;
      CAIRN_RETURN_IF_ERROR(root_.Rename(key, path, /*replace=*/false));
      return absl::AbortedError("lies aside");
    }
  }
  CAIRN_ASSIGN_OR_RETURN(const Placed placed, PlaceAt(path, aside));
  if (placed == Placed::kTaken) return Taken(key);
  if (placed == Placed::kClash) {
    return absl::FailedPreconditionError(fmt::format(
        "'{}' or a directory above it is not what this store makes; "
        "move it away",
        EscapeName(root_.FullPath(aside))));
  }
  if (natural) {
    const auto other = root_.Stat(key);
    if (!other.ok() && !absl::IsNotFound(other.status())) return other.status();
    if (other.ok() && other->type == NodeType::kFile) {
      CAIRN_RETURN_IF_ERROR(root_.Rename(aside, path, /*replace=*/false));
      return absl::AbortedError("lies in its natural place");
    }
  }
  return aside;
}

absl::StatusOr<DirectoryFiles::Placed> DirectoryFiles::PlaceAt(
    const std::string& path, const std::string& target) {
  const absl::Status moved = root_.Rename(path, target, /*replace=*/false);
  if (moved.ok()) return Placed::kYes;
  if (absl::IsNotFound(moved)) return PlaceWithoutParent(target, moved);
  if (!absl::IsAlreadyExists(moved)) return moved;

  const auto other = root_.Stat(target);
  if (absl::IsNotFound(other.status())) return absl::AbortedError("it is gone");
  if (!other.ok()) return other.status();
  if (other->type == NodeType::kFile) return Placed::kTaken;
  if (other->type == NodeType::kDirectory) return Placed::kClash;
  return NotAnObject(root_.FullPath(target));
}

// The directory of `target` is not there: makes it, or finds what is in the
// way.
absl::StatusOr<DirectoryFiles::Placed> DirectoryFiles::PlaceWithoutParent(
    const std::string& target, const absl::Status& why) {
  const std::string parent = ParentOf(target);
  if (parent.empty())
    return why;  // The root is there: it is the file that is gone.
  const absl::Status made = root_.MakeDirectories(parent);
  if (made.ok()) return absl::AbortedError("has a directory now");

  for (size_t end = target.find('/'); end != std::string::npos;
       end = target.find('/', end + 1)) {
    const std::string above = target.substr(0, end);
    const auto stat = root_.Stat(above);
    if (absl::IsNotFound(stat.status())) break;
    if (!stat.ok()) return stat.status();
    if (stat->type == NodeType::kFile) return Placed::kClash;
    if (stat->type != NodeType::kDirectory) {
      return NotAnObject(root_.FullPath(above));
    }
  }
  // Nothing is in the way any more: another process is removing or adding
  // names.
  if (absl::IsNotFound(made) || absl::IsAlreadyExists(made) ||
      absl::IsFailedPrecondition(made)) {
    return absl::AbortedError("lost a race for its directory");
  }
  return made;
}

absl::Status DirectoryFiles::RemoveObject(std::string_view key) {
  absl::MutexLock lock(LockOf(key));
  const std::string aside = AsidePath(key);
  // Looked at first: after the natural one is gone, what is aside may be new.
  CAIRN_ASSIGN_OR_RETURN(const bool lies_aside, root_.Exists(aside));
  if (IsNaturalKey(key)) {
    const auto stat = root_.Stat(key);
    if (!stat.ok() && !absl::IsNotFound(stat.status())) return stat.status();
    if (stat.ok() && stat->type == NodeType::kFile) {
      CAIRN_RETURN_IF_ERROR(root_.RemoveFile(key));
      root_.RemoveEmptyParents(key);
    } else if (stat.ok() && stat->type != NodeType::kDirectory) {
      return NotAnObject(root_.FullPath(key));
    }
  }
  if (lies_aside) {
    CAIRN_RETURN_IF_ERROR(root_.RemoveFile(aside));
    root_.RemoveEmptyParents(aside);
  }
  return absl::OkStatus();
}

absl::Status DirectoryFiles::SyncNames(std::string_view place) const {
  std::string directory(place);
  while (!directory.empty()) {
    directory = ParentOf(directory);
    CAIRN_RETURN_IF_ERROR(root_.SyncDirectory(directory));
  }
  return absl::OkStatus();
}

absl::StatusOr<BlockFile> DirectoryFiles::OpenObject(
    std::string_view key) const {
  if (IsNaturalKey(key)) {
    absl::StatusOr<BlockFile> file = root_.OpenForRead(key, /*direct=*/false);
    if (file.ok()) return file;
    if (!absl::IsNotFound(file.status())) {
      // A directory in the way means that the object lies aside, also if the
      // directory has gone since.
      const auto stat = root_.Stat(key);
      const bool may_lie_aside = stat.ok() ? stat->type == NodeType::kDirectory
                                           : absl::IsNotFound(stat.status());
      if (!may_lie_aside) return file.status();
    }
  }
  absl::StatusOr<BlockFile> file =
      root_.OpenForRead(AsidePath(key), /*direct=*/false);
  if (!absl::IsNotFound(file.status())) return file;
  return absl::NotFoundError(fmt::format(
      "no object '{}' in '{}'", EscapeName(key), EscapeName(root_.path())));
}

}  // namespace cairn
