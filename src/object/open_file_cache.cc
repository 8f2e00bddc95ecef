#include "object/open_file_cache.h"

namespace cairn {

OpenObjectPtr OpenFileCache::Find(std::string_view key, uint64_t* ticket) {
  absl::MutexLock lock(&mutex_);
  *ticket = erased_;
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

void OpenFileCache::Insert(std::string_view key, OpenObjectPtr object,
                           uint64_t ticket) {
  OpenObjectPtr dropped;  // Closed after the lock is let go.
  absl::MutexLock lock(&mutex_);
  if (ticket != erased_ || by_key_.contains(key)) return;
  entries_.emplace_front(std::string(key), std::move(object));
  by_key_.emplace(entries_.front().first, entries_.begin());
  if (entries_.size() > files_max_) {
    by_key_.erase(entries_.back().first);
    dropped = std::move(entries_.back().second);
    entries_.pop_back();
  }
}

void OpenFileCache::Erase(std::string_view key) {
  OpenObjectPtr dropped;
  absl::MutexLock lock(&mutex_);
  ++erased_;
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  const auto entry = found->second;
  dropped = std::move(entry->second);
  by_key_.erase(found);
  entries_.erase(entry);
}

}  // namespace cairn
