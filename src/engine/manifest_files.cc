// Manifests and marks on the tiers (checkpoint_files.h).

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "base/escape.h"
#include "base/kill_point.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "engine/checkpoint_files.h"

namespace cairn {
namespace {

// 10^8 blocks at 80 hex digits each, compressed at worst by half.
constexpr uint64_t kManifestBytesMax = uint64_t{4} << 30;
constexpr uint64_t kMarkBytesMax = 64 << 10;

std::string ManifestPathOf(const CheckpointRecord& record) {
  return ManifestDirectory(JoinPath(record.run, record.name)) + "/" +
         ManifestFileName(record.sequence, record.generation);
}

absl::StatusOr<std::string> ReadObject(ObjectStore& store, std::string_view key,
                                       uint64_t size_max) {
  CAIRN_ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(key));
  if (info.size_bytes > size_max) {
    return absl::DataLossError(
        fmt::format("object {} has {} bytes, more than any of its kind",
                    EscapeName(key), info.size_bytes));
  }
  std::string content(info.size_bytes, '\0');
  CAIRN_RETURN_IF_ERROR(store.ReadAt(
      key, 0,
      std::as_writable_bytes(std::span(content.data(), content.size()))));
  return content;
}

// A manifest's content must also be the one that its name says.
absl::StatusOr<Manifest> Decode(const std::string& content,
                                const CheckpointRecord& record,
                                std::string_view tier) {
  absl::StatusOr<Manifest> manifest = DecodeManifest(AsBytes(content));
  const std::string what = fmt::format(
      "manifest of {} on the {} tier",
      JoinPath(EscapeName(record.run), EscapeName(record.name)), tier);
  if (!manifest.ok()) return Annotate(manifest.status(), what);
  if (manifest->head.generation != record.generation ||
      manifest->head.sequence != record.sequence ||
      manifest->head.run != record.run || manifest->head.name != record.name) {
    return absl::DataLossError(what + " belongs to another checkpoint");
  }
  return manifest;
}

uint32_t Nonce() {
  static std::atomic<uint32_t> next{std::random_device{}()};
  return next.fetch_add(1);
}

std::string UserName() {
  char buffer[4096];
  passwd entry;
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, buffer, sizeof(buffer), &found) == 0 &&
      found != nullptr) {
    return entry.pw_name;
  }
  return fmt::format("uid {}", geteuid());
}

}  // namespace

absl::StatusOr<Manifest> ReadAcceleratorManifest(
    Context& context, const CheckpointRecord& record) {
  absl::StatusOr<std::string> content = context.accelerator->ReadSmallFile(
      ManifestPathOf(record), kManifestBytesMax);
  CAIRN_RETURN_IF_ERROR(content.status());
  return Decode(*content, record, "accelerator");
}

absl::StatusOr<Manifest> ReadCoreManifest(Context& context,
                                          const CheckpointRecord& record) {
  absl::StatusOr<std::string> content =
      ReadObject(*context.core, ManifestPathOf(record), kManifestBytesMax);
  CAIRN_RETURN_IF_ERROR(content.status());
  return Decode(*content, record, "core");
}

absl::StatusOr<Manifest> ReadBestManifest(Context& context,
                                          const CheckpointRecord& record) {
  absl::Status core_error;
  if (record.core.manifest) {
    absl::StatusOr<Manifest> manifest = ReadCoreManifest(context, record);
    if (manifest.ok()) return manifest;
    core_error = manifest.status();
  }
  absl::StatusOr<Manifest> manifest = ReadAcceleratorManifest(context, record);
  if (!manifest.ok() && !core_error.ok()) return core_error;
  return manifest;
}

absl::Status WriteAcceleratorManifest(Context& context,
                                      const Manifest& manifest, bool replace) {
  CAIRN_ASSIGN_OR_RETURN(const std::string content, EncodeManifest(manifest));
  return context.accelerator->WriteFileDurably(ManifestPath(manifest.head),
                                               AsBytes(content), replace);
}

absl::Status RemoveAcceleratorManifest(Context& context,
                                       const CheckpointRecord& record) {
  const std::string path = ManifestPathOf(record);
  CAIRN_RETURN_IF_ERROR(context.accelerator->RemoveFile(path));
  const std::string directory =
      ManifestDirectory(JoinPath(record.run, record.name));
  absl::Status synced = context.accelerator->SyncDirectory(directory);
  if (!synced.ok() && !absl::IsNotFound(synced)) return synced;
  context.accelerator->RemoveEmptyParents(path);
  return absl::OkStatus();
}

absl::Status WriteMark(Context& context, std::string_view checkpoint_path,
                       Mark mark) {
  if (mark.time_us == 0) {
    mark.time_us =
        static_cast<uint64_t>(absl::ToUnixMicros(context.clock->Now()));
  }
  // A later mark overrides an earlier one, also after the clock was set back.
  CAIRN_ASSIGN_OR_RETURN(const std::vector<Mark> marks,
                         ReadMarks(context, checkpoint_path));
  for (const Mark& earlier : marks) {
    mark.time_us = std::max(mark.time_us, earlier.time_us + 1);
  }
  if (mark.user.empty()) mark.user = UserName();
  const std::string path = MarkPath(checkpoint_path, mark, Nonce());
  const std::string content = EncodeMark(mark);
  CAIRN_RETURN_IF_ERROR(context.core->Put(
      path, AsBytes(content),
      {.metadata = {}, .crc64_nvme = std::nullopt, .barrier = true}));
  CAIRN_KILL_POINT("mark.between_tiers");
  return context.accelerator->WriteFileDurably(path, AsBytes(content), false);
}

absl::StatusOr<std::vector<Mark>> ReadMarks(Context& context,
                                            std::string_view checkpoint_path) {
  const std::string directory = MarkDirectory(checkpoint_path);
  std::set<std::string> names;
  // A mark that one tier has in good order is known, whatever the other has.
  std::map<std::string, absl::Status> unreadable;
  std::vector<Mark> marks;
  const auto take = [&](const std::string& name, const std::string& content,
                        std::string_view tier) {
    if (names.contains(name)) return;
    absl::StatusOr<Mark> mark = DecodeMark(AsBytes(content));
    if (!mark.ok()) {
      unreadable[name] = Annotate(
          mark.status(),
          fmt::format("mark {} on the {} tier", EscapeName(name), tier));
      return;
    }
    names.insert(name);
    unreadable.erase(name);
    marks.push_back(*std::move(mark));
  };
  absl::StatusOr<std::vector<DirectoryEntry>> entries =
      context.accelerator->List(directory);
  if (!entries.ok() && !absl::IsNotFound(entries.status())) {
    return entries.status();
  }
  if (entries.ok()) {
    for (const DirectoryEntry& entry : *entries) {
      if (entry.stat.type != NodeType::kFile ||
          !entry.name.ends_with(".json")) {
        continue;
      }
      CAIRN_ASSIGN_OR_RETURN(const std::string content,
                             context.accelerator->ReadSmallFile(
                                 directory + "/" + entry.name, kMarkBytesMax));
      take(entry.name, content, "accelerator");
    }
  }
  const std::string prefix = directory + "/";
  std::vector<std::string> keys;
  CAIRN_RETURN_IF_ERROR(
      context.core->List(prefix, [&](const ObjectInfo& object) {
        if (object.key.find('/', prefix.size()) == std::string::npos) {
          keys.push_back(object.key);
        }
        return absl::OkStatus();
      }));
  for (const std::string& key : keys) {
    const std::string name = key.substr(prefix.size());
    if (names.contains(name)) continue;
    CAIRN_ASSIGN_OR_RETURN(const std::string content,
                           ReadObject(*context.core, key, kMarkBytesMax));
    take(name, content, "core");
  }
  if (!unreadable.empty()) return unreadable.begin()->second;
  return marks;
}

absl::StatusOr<CheckpointRecord> WithMarks(Context& context,
                                           CheckpointRecord record) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<Mark> marks,
                         ReadMarks(context, JoinPath(record.run, record.name)));
  const MarkState state = SummariseMarks(marks, record.generation);
  record.pinned = state.pinned;
  record.hold_until_ns = state.hold_until_ns;
  record.released = state.released;
  return record;
}

}  // namespace cairn
