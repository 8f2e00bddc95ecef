// Where a key lies in a DirectoryStore. Pure; tested by itself.
//
// A natural key is its own path: `a/b/c` is the file <root>/a/b/c. Every other
// key, and a natural one whose path is in use by another key's file or
// directory, lies aside:
//
//   <root>/.cairn-store/aside/<chunk>+/<chunk>+/<rest>=
//
// The key's bytes outside [A-Za-z0-9._-] are written %XX (so `/` is %2F), the
// result is cut in chunks of kAsideChunkBytes, and each name ends in a mark
// that says directory (+) or object (=). No escaped byte is a mark, so the
// paths of two keys never clash, none is "." or "..", and each decodes to one
// key.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cairn {

// The store's own; keys that begin with it lie aside. (`.cairn/` is cairn's,
// and natural.)
inline constexpr std::string_view kStoreDirectory = ".cairn-store";
inline constexpr std::string_view kAsideDirectory = ".cairn-store/aside";
inline constexpr std::string_view kTemporaryDirectory = ".cairn-store/tmp";
inline constexpr std::string_view kUploadsDirectory = ".cairn-store/uploads";

inline constexpr size_t kAsideChunkBytes =
    200;  // + 1 mark: below NAME_MAX, 255.
inline constexpr size_t kComponentBytesMax = 255;

// kInvalidArgument: empty, longer than kKeyBytesMax, or with a NUL byte.
absl::Status CheckKey(std::string_view key);

// True if the key can be a path: no component is empty, "." or "..", or longer
// than kComponentBytesMax, and the first is not kStoreDirectory.
bool IsNaturalKey(std::string_view key);

// The path of `key` aside, relative to the root.
std::string AsidePath(std::string_view key);

// The key of a path below kAsideDirectory (relative to it).
// kFailedPrecondition: not a path that AsidePath makes.
absl::StatusOr<std::string> KeyOfAsidePath(std::string_view path);

}  // namespace cairn
