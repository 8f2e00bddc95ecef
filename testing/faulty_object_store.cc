#include "testing/faulty_object_store.h"

#include <cstdlib>
#include <map>
#include <utility>

#include "base/crc64.h"

namespace cairn {

using Fault = FaultyObjectStore::Fault;
using Script = FaultyObjectStore::Script;
using Verb = FaultyObjectStore::Verb;

namespace {

constexpr size_t kAlignment = 4096;

absl::Status Failure(const Script& script) {
  return absl::Status(script.code, script.fault == Fault::kApplyThenLoseReply
                                       ? "scripted: the reply was lost"
                                       : "scripted fault");
}

bool Refuses(const std::optional<Script>& script) {
  return script.has_value() && script->fault == Fault::kRefuse;
}

bool Flips(const std::optional<Script>& script) {
  return script.has_value() && script->fault == Fault::kFlipByte;
}

bool LosesReply(const std::optional<Script>& script) {
  return script.has_value() && script->fault == Fault::kApplyThenLoseReply;
}

void FlipMiddle(MutableByteView content) {
  if (!content.empty()) content[content.size() / 2] ^= std::byte{1};
}

// A flipped copy in memory as AddPart wants it.
class FlippedCopy {
 public:
  explicit FlippedCopy(ByteView content)
      : size_(content.size()),
        data_(static_cast<std::byte*>(std::aligned_alloc(
            kAlignment, (size_ / kAlignment + 1) * kAlignment))) {
    std::copy(content.begin(), content.end(), data_);
    FlipMiddle(bytes());
  }
  FlippedCopy(const FlippedCopy&) = delete;
  FlippedCopy& operator=(const FlippedCopy&) = delete;
  ~FlippedCopy() { std::free(data_); }
  MutableByteView bytes() const { return {data_, size_}; }

 private:
  const size_t size_;
  std::byte* const data_;
};

}  // namespace

// Keeps the CRCs of what was sent and of what was stored, so that a flipped
// part stays undiscovered at Commit, as damage after it would. Thread-safe.
class FaultyObjectStore::FaultyUpload final : public Upload {
 public:
  FaultyUpload(FaultyObjectStore* store, std::string key,
               std::unique_ptr<Upload> base)
      : store_(store), key_(std::move(key)), base_(std::move(base)) {}

  absl::Status AddPart(int number, MutableByteView content,
                       uint64_t crc64_nvme) override {
    const auto script = store_->Enter(Verb::kAddPart, key_, content.size());
    if (Refuses(script)) return Failure(*script);
    Part part = {crc64_nvme, crc64_nvme, content.size()};
    absl::Status status;
    if (Flips(script)) {
      const FlippedCopy copy(content);
      part.stored_crc = Crc64Nvme(copy.bytes());
      status = base_->AddPart(number, copy.bytes(), part.stored_crc);
    } else {
      status = base_->AddPart(number, content, crc64_nvme);
    }
    if (status.ok()) {
      absl::MutexLock lock(&mutex_);
      parts_[number] = part;
    }
    if (LosesReply(script)) return Failure(*script);
    return status;
  }

  absl::Status Commit(uint64_t crc64_nvme) override {
    const auto script = store_->Enter(Verb::kCommit, key_, 0);
    if (Refuses(script)) return Failure(*script);
    const absl::Status status = base_->Commit(StoredCrc(crc64_nvme));
    if (LosesReply(script)) return Failure(*script);
    return status;
  }

  std::string Token() const override { return base_->Token(); }
  void Detach() override { base_->Detach(); }

  absl::StatusOr<std::vector<PartInfo>> Parts() override {
    const auto script = store_->Enter(Verb::kParts, key_, 0);
    if (script.has_value()) return Failure(*script);
    auto parts = base_->Parts();
    if (!parts.ok()) return parts;
    absl::MutexLock lock(&mutex_);
    for (PartInfo& part : *parts) {
      const auto sent = parts_.find(part.number);
      if (sent == parts_.end() || !part.crc64_nvme.has_value()) continue;
      part.crc64_nvme = sent->second.sent_crc;
    }
    return parts;
  }

 private:
  struct Part {
    uint64_t sent_crc = 0;
    uint64_t stored_crc = 0;
    uint64_t size_bytes = 0;
  };

  // What the stored parts have together, if the sent ones have `crc64_nvme`.
  uint64_t StoredCrc(uint64_t crc64_nvme) {
    absl::MutexLock lock(&mutex_);
    uint64_t sent = 0;
    uint64_t stored = 0;
    for (const auto& [number, part] : parts_) {
      sent = Crc64NvmeCombine(sent, part.sent_crc, part.size_bytes);
      stored = Crc64NvmeCombine(stored, part.stored_crc, part.size_bytes);
    }
    return sent == crc64_nvme ? stored : crc64_nvme;
  }

  FaultyObjectStore* const store_;
  const std::string key_;
  const std::unique_ptr<Upload> base_;
  absl::Mutex mutex_;
  std::map<int, Part> parts_ ABSL_GUARDED_BY(mutex_);
};

void FaultyObjectStore::Fail(Verb verb, Script script) {
  absl::MutexLock lock(&mutex_);
  channels_[static_cast<size_t>(verb)].scripts.push_back(script);
}

void FaultyObjectStore::ClearScripts() {
  absl::MutexLock lock(&mutex_);
  for (Channel& channel : channels_) channel.scripts.clear();
}

void FaultyObjectStore::SetGate(Gate gate) {
  absl::MutexLock lock(&mutex_);
  gate_ = std::move(gate);
}

int FaultyObjectStore::calls(Verb verb) {
  absl::MutexLock lock(&mutex_);
  return channels_[static_cast<size_t>(verb)].calls;
}

uint64_t FaultyObjectStore::bytes(Verb verb) {
  absl::MutexLock lock(&mutex_);
  return channels_[static_cast<size_t>(verb)].bytes;
}

std::optional<Script> FaultyObjectStore::Enter(Verb verb, std::string_view key,
                                               uint64_t bytes) {
  Gate gate;
  std::optional<Script> script;
  {
    absl::MutexLock lock(&mutex_);
    Channel& channel = channels_[static_cast<size_t>(verb)];
    ++channel.calls;
    channel.bytes += bytes;
    gate = gate_;
    if (!channel.scripts.empty()) {
      Script& next = channel.scripts.front();
      if (next.skip > 0) {
        --next.skip;
      } else {
        script = next;
        if (--next.times <= 0) channel.scripts.pop_front();
      }
    }
  }
  if (gate) gate(verb, key);
  return script;
}

absl::Status FaultyObjectStore::Put(std::string_view key, ByteView content,
                                    const PutOptions& options) {
  const auto script = Enter(Verb::kPut, key, content.size());
  if (Refuses(script)) return Failure(*script);
  absl::Status status;
  if (Flips(script)) {
    const FlippedCopy copy(content);
    PutOptions unchecked = options;
    unchecked.crc64_nvme.reset();
    status = base_->Put(key, copy.bytes(), unchecked);
  } else {
    status = base_->Put(key, content, options);
  }
  if (LosesReply(script)) return Failure(*script);
  return status;
}

absl::Status FaultyObjectStore::ReadAt(std::string_view key, uint64_t offset,
                                       MutableByteView out) {
  const auto script = Enter(Verb::kReadAt, key, out.size());
  if (Refuses(script)) return Failure(*script);
  const absl::Status status = base_->ReadAt(key, offset, out);
  if (LosesReply(script)) return Failure(*script);
  if (status.ok() && Flips(script)) FlipMiddle(out);
  return status;
}

absl::StatusOr<ObjectInfo> FaultyObjectStore::Stat(std::string_view key) {
  const auto script = Enter(Verb::kStat, key, 0);
  if (script.has_value()) return Failure(*script);
  return base_->Stat(key);
}

absl::Status FaultyObjectStore::List(std::string_view prefix, Visitor visit) {
  const auto script = Enter(Verb::kList, prefix, 0);
  if (Refuses(script)) return Failure(*script);
  if (script.has_value() && script->fault == Fault::kStopHalfway) {
    return ListHalf(prefix, visit, script->code);
  }
  const absl::Status status = base_->List(prefix, visit);
  if (LosesReply(script)) return Failure(*script);
  return status;
}

absl::Status FaultyObjectStore::ListHalf(std::string_view prefix, Visitor visit,
                                         absl::StatusCode code) {
  size_t total = 0;
  const absl::Status counted = base_->List(prefix, [&](const ObjectInfo&) {
    ++total;
    return absl::OkStatus();
  });
  if (!counted.ok()) return counted;
  size_t left = total / 2;
  const absl::Status stop(code, "scripted: the listing stopped halfway");
  if (left == 0) return stop;
  const absl::Status status =
      base_->List(prefix, [&](const ObjectInfo& info) -> absl::Status {
        if (left == 0) return stop;
        --left;
        return visit(info);
      });
  return status.ok() ? stop : status;
}

absl::Status FaultyObjectStore::Remove(std::string_view key) {
  const auto script = Enter(Verb::kRemove, key, 0);
  if (Refuses(script)) return Failure(*script);
  const absl::Status status = base_->Remove(key);
  if (LosesReply(script)) return Failure(*script);
  return status;
}

absl::StatusOr<std::unique_ptr<Upload>> FaultyObjectStore::BeginUpload(
    std::string_view key, const UploadOptions& options) {
  const auto script = Enter(Verb::kBeginUpload, key, 0);
  if (Refuses(script)) return Failure(*script);
  auto upload = base_->BeginUpload(key, options);
  if (!upload.ok()) return upload;
  if (LosesReply(script)) {
    (*upload)->Detach();  // It is there, and nobody knows its token.
    return Failure(*script);
  }
  return std::make_unique<FaultyUpload>(this, std::string(key),
                                        *std::move(upload));
}

absl::StatusOr<std::unique_ptr<Upload>> FaultyObjectStore::ResumeUpload(
    std::string_view key, std::string_view token,
    const UploadOptions& options) {
  const auto script = Enter(Verb::kResumeUpload, key, 0);
  if (script.has_value()) return Failure(*script);
  auto upload = base_->ResumeUpload(key, token, options);
  if (!upload.ok()) return upload;
  return std::make_unique<FaultyUpload>(this, std::string(key),
                                        *std::move(upload));
}

absl::StatusOr<std::vector<UploadInfo>> FaultyObjectStore::ListUploads(
    std::string_view prefix) {
  const auto script = Enter(Verb::kListUploads, prefix, 0);
  if (script.has_value()) return Failure(*script);
  return base_->ListUploads(prefix);
}

}  // namespace cairn
