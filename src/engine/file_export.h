// One file's way to the core tier: read, digested, stored, verified.
//
// A file of at most one digest block goes in one Put. A larger one goes as an
// upload whose parts are its digest blocks, in parallel; after a crash the same
// upload is found again and only parts that the store does not hold, or holds
// otherwise, are sent. An object that is already there under the wanted key is
// taken if its content is read back equal; otherwise the next key is tried:
// natural, of this generation, or by content (docs/format.md, "Keys").

#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/rate_limiter.h"
#include "catalog/manifest.h"
#include "engine/context.h"
#include "engine/workers.h"

namespace cairn {

// What an export moved. Counters are summed by several threads.
struct ExportCounters {
  std::atomic<uint64_t> bytes_sent{0};
  std::atomic<uint64_t> bytes_skipped{0};  // Already safely there.
  std::atomic<uint64_t> files{0};
};

// Everything must outlive the tasks submitted. Thread-safe.
class FileExport {
 public:
  // `natural_keys` false: something else owns the checkpoint's place in the
  // core tier's name space (a key `run` against a key `run/x`).
  FileExport(Context* context, const Manifest* manifest, bool natural_keys,
             RateLimiter* limiter, ExportCounters* counters)
      : context_(*context),
        manifest_(*manifest),
        natural_keys_(natural_keys),
        limiter_(*limiter),
        counters_(*counters) {}

  // Submits what it takes to store the content of `node` (kFile); when
  // workers.Wait() returns OK, node->blocks and node->key are filled and the
  // object is stored and verified (durable with the store's next barrier).
  // kUnavailable: the file is not what the manifest says: it changed meanwhile.
  absl::Status Submit(Workers& workers, ManifestNode* node);

 private:
  class LargeFile;

  absl::Status StoreSmall(ManifestNode* node);
  absl::Status SubmitLarge(Workers& workers, ManifestNode* node);
  // The keys to try, in order.
  std::vector<std::string> Keys(const ManifestNode& node) const;
  // kAlreadyExists: the key holds something else.
  absl::Status PutOrTake(const std::string& key, const ManifestNode& node,
                         ByteView content);
  // OK if the object under `key` has exactly the node's content.
  absl::Status TakeIfEqual(const std::string& key, const ManifestNode& node);
  void SetKey(ManifestNode* node, const std::string& key) const;

  Context& context_;
  const Manifest& manifest_;
  const bool natural_keys_;
  RateLimiter& limiter_;
  ExportCounters& counters_;
};

// The AMLFS metadata keys (facts in docs/format.md, "Object metadata").
ObjectMetadata MetadataOf(const ManifestNode& node);

}  // namespace cairn
