// Core tier -> accelerator tier: every byte is compared with the manifest's
// digests before the checkpoint appears at its place.
//
// Files are made in staging (staging.h), in parallel, with holes where the
// original had them; what an interrupted restore of the same generation left
// there is read back, and only blocks that do not have their digest are
// fetched.

#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cairn/store.h"
#include "catalog/manifest.h"
#include "engine/context.h"
#include "engine/staging.h"

namespace cairn {

// Where the content of files comes from. Thread-safe.
class ContentSource {
 public:
  virtual ~ContentSource() = default;
  // Fills `out` (from context.buffers) with the file's bytes from `offset` on.
  virtual absl::Status Read(const ManifestNode& node, uint64_t offset,
                            MutableByteView out) = 0;
  // For messages: "the archived copy of run/x/file (object k)".
  virtual std::string Describe(const ManifestNode& node) const = 0;
};

// Fills `staging`'s tree with the manifest's files from `source`, with their
// attributes, and makes them durable. kDataLoss: content does not match its
// digests; names the file and the offset.
class TreeRestore {
 public:
  TreeRestore(Context* context, const Manifest* manifest,
              const Staging* staging, ContentSource* source)
      : context_(*context),
        manifest_(*manifest),
        staging_(*staging),
        source_(*source) {}

  absl::Status Run();

  uint64_t bytes_fetched() const { return bytes_fetched_; }
  uint64_t bytes_skipped() const { return bytes_skipped_; }
  bool owner_refused() const { return owner_refused_; }

 private:
  class OneFile;

  absl::Status MakeNodes();
  absl::Status FillFiles();
  absl::Status SetAttributes();

  Context& context_;
  const Manifest& manifest_;
  const Staging& staging_;
  ContentSource& source_;
  std::atomic<uint64_t> bytes_fetched_{0};
  std::atomic<uint64_t> bytes_skipped_{0};
  bool owner_refused_ = false;
};

// `cairn restore`. One checkpoint; falls back to older generations only if the
// newest one's core copy is damaged and none was named.
absl::StatusOr<RestoreReport> RestoreCheckpoint(Context& context,
                                                std::string_view path,
                                                const RestoreOptions& options);

// Takes back the release mark of a generation that is on the accelerator tier
// again, if it has one.
absl::Status MarkPresent(Context& context, const Manifest& manifest);

// Writes the framework's pointer files so that they name this checkpoint.
absl::Status WritePointers(Context& context, const Manifest& manifest);

}  // namespace cairn
