// Small makers of well-formed and ill-formed files, for tests.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

inline std::string Little(uint64_t value, size_t width) {
  std::string bytes;
  for (; width > 0; --width, value >>= 8) bytes += static_cast<char>(value);
  return bytes;
}

// Writes a zip archive of stored entries, with what a test wants wrong in it.
// CRCs are 0 (as torch writes when told to compute none).
class ZipMaker {
 public:
  struct Entry {
    std::string name;
    std::string content;
    uint16_t method = 0;
    bool zip64 = false;             // Sizes and offset in an extra field...
    bool omit_zip64_extra = false;  // ...which is missing.
    std::optional<uint64_t> claimed_bytes;   // In the directory.
    std::optional<uint64_t> claimed_offset;  // In the directory.
  };

  void Add(std::string name, std::string content) {
    Entry entry;
    entry.name = std::move(name);
    entry.content = std::move(content);
    entries_.push_back(std::move(entry));
  }
  std::vector<Entry>& entries() { return entries_; }
  void set_zip64_end(bool zip64_end) { zip64_end_ = zip64_end; }
  void set_comment(std::string comment) { comment_ = std::move(comment); }
  void set_count_error(int difference) { count_error_ = difference; }

  std::string Finish() const {
    std::string bytes;
    std::string directory;
    for (const Entry& entry : entries_) {
      const uint64_t offset = entry.claimed_offset.value_or(bytes.size());
      AppendLocal(entry, &bytes);
      AppendCentral(entry, offset, &directory);
    }
    const uint64_t begin = bytes.size();
    bytes += directory;
    AppendEnd(begin, directory.size(), &bytes);
    return bytes;
  }

 private:
  static void AppendLocal(const Entry& entry, std::string* bytes) {
    const uint64_t size = entry.content.size();
    *bytes += "PK\x03\x04" + Little(20, 2) + Little(0, 2) +
              Little(entry.method, 2) + Little(0, 8) +
              Little(entry.zip64 ? 0xffffffff : size, 4) +
              Little(entry.zip64 ? 0xffffffff : size, 4) +
              Little(entry.name.size(), 2) + Little(entry.zip64 ? 20 : 0, 2) +
              entry.name;
    if (entry.zip64) {
      *bytes +=
          Little(1, 2) + Little(16, 2) + Little(size, 8) + Little(size, 8);
    }
    *bytes += entry.content;
  }

  static void AppendCentral(const Entry& entry, uint64_t offset,
                            std::string* directory) {
    const uint64_t size = entry.claimed_bytes.value_or(entry.content.size());
    const uint64_t narrow = entry.zip64 ? 0xffffffff : size;
    // Another field first, as torch's padding is.
    std::string extra = "FB" + Little(2, 2) + "ZZ";
    if (entry.zip64 && !entry.omit_zip64_extra) {
      extra += Little(1, 2) + Little(24, 2) + Little(size, 8) +
               Little(size, 8) + Little(offset, 8);
    }
    *directory += "PK\x01\x02" + Little(0, 2) + Little(20, 2) + Little(0, 2) +
                  Little(entry.method, 2) + Little(0, 8) + Little(narrow, 4) +
                  Little(narrow, 4) + Little(entry.name.size(), 2) +
                  Little(extra.size(), 2) + Little(0, 10) +
                  Little(entry.zip64 ? 0xffffffff : offset, 4) + entry.name +
                  extra;
  }

  void AppendEnd(uint64_t begin, uint64_t size, std::string* bytes) const {
    const auto count = static_cast<uint64_t>(
        static_cast<int64_t>(entries_.size()) + count_error_);
    if (zip64_end_) {
      const uint64_t end64 = bytes->size();
      *bytes += "PK\x06\x06" + Little(44, 8) + Little(45, 2) + Little(45, 2) +
                Little(0, 8) + Little(count, 8) + Little(count, 8) +
                Little(size, 8) + Little(begin, 8);
      *bytes += "PK\x06\x07" + Little(0, 4) + Little(end64, 8) + Little(1, 4);
    }
    const uint64_t narrow = count > 0xffff ? 0xffff : count;
    *bytes += "PK\x05\x06" + Little(0, 4) + Little(narrow, 2) +
              Little(narrow, 2) + Little(size, 4) + Little(begin, 4) +
              Little(comment_.size(), 2) + comment_;
  }

  std::vector<Entry> entries_;
  bool zip64_end_ = false;
  std::string comment_;
  int count_error_ = 0;
};

inline std::string Safetensors(std::string_view header, std::string_view data) {
  return Little(header.size(), 8) + std::string(header) + std::string(data);
}

inline std::string PickleText(std::string_view text) {
  return "X" + Little(text.size(), 4) + std::string(text);
}

struct DcpItem {
  std::string path;
  int64_t offset = 0;
  int64_t length = 0;
};

// The pickle of a DCP Metadata with nothing but storage_data in it.
inline std::string DcpPickle(const std::vector<DcpItem>& items) {
  const auto number = [](int64_t value) {
    return "\x8a\x08" + Little(static_cast<uint64_t>(value), 8);
  };
  const std::string instance = ")\x81}(";
  std::string bytes = "\x80\x02";
  bytes += "ctorch.distributed.checkpoint.metadata\nMetadata\n" + instance +
           PickleText("storage_data") + "}(";
  for (const DcpItem& item : items) {
    bytes += "ctorch.distributed.checkpoint.metadata\nMetadataIndex\n" +
             instance + PickleText("fqn") + PickleText("weight") + "ub";
    bytes += "ctorch.distributed.checkpoint.filesystem\n_StorageInfo\n" +
             instance + PickleText("relative_path") + PickleText(item.path) +
             PickleText("offset") + number(item.offset) + PickleText("length") +
             number(item.length) + "ub";
  }
  return bytes + "uub.";
}

}  // namespace cairn
