// What the contract suites of ObjectStore ask of a back end's tests, and
// material for tests of stores: keys, memory.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer_pool.h"
#include "base/bytes.h"
#include "base/crc64.h"
#include "object/object_store.h"

namespace cairn {

struct ObjectStoreTraits {
  // Stat tells the CRC-64 of the content.
  bool keeps_crc = true;
  // Reads back an object's metadata; without it the store keeps none.
  std::function<ObjectMetadata(std::string_view key)> metadata_of;
  bool keeps_metadata() const { return metadata_of != nullptr; }
};

// A store of its own for one test, empty at first.
class ObjectStoreHarness {
 public:
  virtual ~ObjectStoreHarness() = default;
  virtual ObjectStore& store() = 0;
  virtual ObjectStoreTraits traits() = 0;
};

using ObjectStoreHarnessFactory = std::unique_ptr<ObjectStoreHarness> (*)();

// Memory as AddPart wants it.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size)
      : size_(size),
        pool_((size / kBufferAlignment + 1) * kBufferAlignment, 1),
        buffer_(pool_.Get()) {}
  explicit AlignedBytes(std::string_view content)
      : AlignedBytes(content.size()) {
    const ByteView from = AsBytes(content);
    std::copy(from.begin(), from.end(), bytes().begin());
  }
  MutableByteView bytes() const { return buffer_.bytes().first(size_); }

 private:
  const size_t size_;
  BufferPool pool_;
  Buffer buffer_;
};

inline uint64_t CrcOfText(std::string_view content) {
  return Crc64Nvme(AsBytes(content));
}

// Keys that a file system, a URL or a shell would stumble over. All may exist
// at the same time.
// tidy: allow(length) a list
inline std::vector<std::string> OddKeys() {
  std::string deep = "d";
  while (deep.size() + 2 <= kKeyBytesMax) deep += "/d";
  const std::string wide(250, 'w');
  return {
      "a",
      "a/b",
      "a/b/c",
      "run/x",
      "run",
      "both/x/y",
      "both/x",
      ".",
      "..",
      "../x",
      "../../etc/passwd",
      "a/../b",
      "a/./b",
      "a/..",
      "/",
      "//",
      "///",
      "/a",
      "a/",
      "a//b",
      "a/b/",
      "//a//",
      "100%",
      "%",
      "%2F",
      "a%2Fb",
      "%25",
      "%zz",
      " ",
      " a ",
      "a b",
      "line\nbreak",
      "tab\t",
      "\r",
      "\x01\x7f",
      "back\\slash",
      "quo'te",
      "dou\"ble",
      "*?[a-z]",
      "-rf",
      "~",
      "$HOME",
      "#",
      "?",
      "a?b=c&d",
      "a:b",
      "a+b",
      "a=b",
      "x+",
      "x=",
      "x+/y=",
      "+",
      "=",
      "A",
      "A/B",
      ".hidden",
      ".tmp-1",
      "con",
      "a.b",
      "a-b",
      "a!b",
      "caf\xc3\xa9",
      "cafe\xcc\x81",
      "\xf0\x9f\xaa\xa8",
      "\xff\xfe",
      "\xc3",
      ".cairn/tier.json",
      ".cairn",
      ".cairn-store",
      ".cairn-store/",
      ".cairn-store/aside/a=",
      ".cairn-store/tmp/1",
      ".cairn-store-not",
      std::string(255, 'n'),
      std::string(256, 'n'),
      std::string(255, '%'),
      std::string(kKeyBytesMax, 'k'),
      std::string(kKeyBytesMax, '\xfe'),
      deep,
      wide + "/" + wide + "/" + wide + "/" + wide + "/x",
      std::string(kKeyBytesMax, '/'),
  };
}

}  // namespace cairn
