// A plain directory as the core tier: the embedded default. People, cp, rsync
// and azcopy can read it, and `cp -a` of it is a copy of it.
//
// Places. The object `a/b/c` is the file <root>/a/b/c wherever that is
// possible; everything else lies aside, below <root>/.cairn-store/
// (directory_keys.h). A key is aside because of its form (an empty, "." or ".."
// component, a long one) or because it clashes: the object `run` while there is
// a directory `run`, `run/x` while `run` is an object. Where a clashing object
// goes is decided when it is stored, and it stays there. A key has one place at
// most: Put looks at both, and of two racing Puts of a key exactly one wins,
// across processes too. (Only in the moment when, in two processes, two Puts of
// one key meet while a clash with it comes or goes, may a reader see the
// loser's whole content before it is taken back.) Readers look at the natural
// place first.
//
// Files that others put below <root> are objects like ours, unless their path
// is longer than a key. Symlinks, FIFOs and devices never are: they are not
// followed, not listed, and kFailedPrecondition when named.
//
// Durability. A Put without `barrier` may lose its content in a crash of the
// machine and still leave its name; a committed upload has its content on
// stable storage, but maybe not yet its name. Both are durable after the next
// barrier.
//
// CRCs are kept as an extended attribute, where the file system has them, and
// told by Stat without reading the content; List tells none. Stat tells none
// either for an object of a plain Put after the machine has started anew: it
// may be one of those that lost their content, so read it. Metadata is not
// kept: the manifests have it.

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "io/io_engine.h"
#include "io/root.h"
#include "object/directory_files.h"
#include "object/object_store.h"
#include "object/open_file_cache.h"

namespace cairn {

// Thread-safe. It must outlive its uploads.
class DirectoryStore final : public ObjectStore {
 public:
  static constexpr size_t kOpenFilesMax = 64;
  // Keys aside are few; a listing holds them in memory (1 KiB each at most).
  static constexpr size_t kAsideKeysMax = 100'000;

  // `engine` must outlive the store. kNotFound: no such directory; it is made,
  // its parents too, if `create`. Nothing is written to it before the first Put
  // or upload, so a read-only directory can be read.
  static absl::StatusOr<std::unique_ptr<DirectoryStore>> Open(
      const std::string& path, IoEngine* engine, bool create);

  absl::Status Put(std::string_view key, ByteView content,
                   const PutOptions& options) override;
  absl::Status ReadAt(std::string_view key, uint64_t offset,
                      MutableByteView out) override;
  absl::StatusOr<ObjectInfo> Stat(std::string_view key) override;
  // kUnavailable: a directory vanished meanwhile; list again.
  // kResourceExhausted: more than kAsideKeysMax keys aside.
  absl::Status List(std::string_view prefix, Visitor visit) override;
  absl::Status Remove(std::string_view key) override;
  absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(
      std::string_view key, const UploadOptions& options) override;
  absl::StatusOr<std::unique_ptr<Upload>> ResumeUpload(
      std::string_view key, std::string_view token,
      const UploadOptions& options) override;
  absl::StatusOr<std::vector<UploadInfo>> ListUploads(
      std::string_view prefix) override;

 private:
  DirectoryStore(Root root, IoEngine* engine)
      : files_(std::move(root), engine) {}

  absl::StatusOr<OpenObjectPtr> OpenCached(std::string_view key);
  absl::StatusOr<std::vector<ObjectInfo>> ListAside(std::string_view prefix);
  absl::Status ListNatural(std::string_view prefix, Visitor visit);

  DirectoryFiles files_;
  OpenFileCache open_files_{kOpenFilesMax};
};

}  // namespace cairn
