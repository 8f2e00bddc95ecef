#include "object/directory_keys.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/escape.h"
#include "object/object_store.h"

namespace cairn {
namespace {

constexpr char kDirectoryMark = '+';
constexpr char kObjectMark = '=';

bool StandsForItself(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string EncodeKey(std::string_view key) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : key) {
    if (StandsForItself(c)) {
      encoded += c;
    } else {
      const auto byte = static_cast<uint8_t>(c);
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

absl::Status NotOurPath(std::string_view path) {
  return absl::FailedPreconditionError(
      fmt::format("'{}/{}' is not a name that this store writes; move it away",
                  kAsideDirectory, EscapeName(path)));
}

bool DecodeKey(std::string_view encoded, std::string* key) {
  for (size_t i = 0; i < encoded.size(); ++i) {
    if (encoded[i] != '%') {
      key->push_back(encoded[i]);
      continue;
    }
    if (encoded.size() - i < 3) return false;
    const int high = HexValue(encoded[i + 1]);
    const int low = HexValue(encoded[i + 2]);
    if (high < 0 || low < 0) return false;
    key->push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return true;
}

}  // namespace

absl::Status CheckKey(std::string_view key) {
  if (key.empty()) return absl::InvalidArgumentError("an object key is empty");
  if (key.size() > kKeyBytesMax) {
    return absl::InvalidArgumentError(
        fmt::format("object key '{}...' has {} bytes; at most {} are allowed",
                    EscapeName(key.substr(0, 64)), key.size(), kKeyBytesMax));
  }
  if (key.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError(
        fmt::format("object key '{}' has a NUL byte", EscapeName(key)));
  }
  return absl::OkStatus();
}

bool IsNaturalKey(std::string_view key) {
  bool first = true;
  while (true) {
    const size_t slash = key.find('/');
    const std::string_view component = key.substr(0, slash);
    if (component.empty() || component == "." || component == ".." ||
        component.size() > kComponentBytesMax) {
      return false;
    }
    if (first && component == kStoreDirectory) return false;
    if (slash == std::string_view::npos) return true;
    key.remove_prefix(slash + 1);
    first = false;
  }
}

std::string AsidePath(std::string_view key) {
  const std::string encoded = EncodeKey(key);
  std::string path(kAsideDirectory);
  std::string_view rest = encoded;
  while (rest.size() > kAsideChunkBytes) {
    path += '/';
    path += rest.substr(0, kAsideChunkBytes);
    path += kDirectoryMark;
    rest.remove_prefix(kAsideChunkBytes);
  }
  path += '/';
  path += rest;
  path += kObjectMark;
  return path;
}

absl::StatusOr<std::string> KeyOfAsidePath(std::string_view path) {
  std::string encoded;
  std::string_view rest = path;
  while (true) {
    const size_t slash = rest.find('/');
    const bool last = slash == std::string_view::npos;
    std::string_view name = rest.substr(0, slash);
    if (name.empty() || name.back() != (last ? kObjectMark : kDirectoryMark)) {
      return NotOurPath(path);
    }
    name.remove_suffix(1);
    encoded += name;
    if (last) break;
    rest.remove_prefix(slash + 1);
  }
  std::string key;
  if (!DecodeKey(encoded, &key) || !CheckKey(key).ok()) return NotOurPath(path);
  // A key has one path only: other cuts and needless escapes are not ours.
  if (std::string_view(AsidePath(key)).substr(kAsideDirectory.size() + 1) !=
      path) {
    return NotOurPath(path);
  }
  return key;
}

}  // namespace cairn
