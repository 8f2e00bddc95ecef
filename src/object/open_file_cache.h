// The objects that are being read, kept open: a large object is read in many
// ranges, and opening it for each would cost more than a small read.

#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "io/io_engine.h"

namespace cairn {

struct OpenObject {
  BlockFile file;
  uint64_t size_bytes = 0;
};

// shared_ptr: a reader goes on with a file that was dropped from the cache.
using OpenObjectPtr = std::shared_ptr<const OpenObject>;

// Keeps the `files_max` most recently used. Thread-safe; does no I/O but
// closing.
class OpenFileCache {
 public:
  explicit OpenFileCache(size_t files_max) : files_max_(files_max) {}

  // nullptr if it is not there. `*ticket` is for Insert.
  OpenObjectPtr Find(std::string_view key, uint64_t* ticket);

  // Does nothing if Erase was called since `ticket` was given: what was opened
  // before a Remove must not be found after it.
  void Insert(std::string_view key, OpenObjectPtr object, uint64_t ticket);

  void Erase(std::string_view key);

 private:
  using Entry = std::pair<std::string, OpenObjectPtr>;

  const size_t files_max_;
  absl::Mutex mutex_;
  uint64_t erased_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // Most recent first.
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_
      ABSL_GUARDED_BY(mutex_);  // Views of entries_' keys.
};

}  // namespace cairn
