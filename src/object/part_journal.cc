#include "object/part_journal.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <random>

#include "base/bytes.h"
#include "base/crc64.h"

namespace cairn {
namespace {

constexpr size_t kLineBytesMax = 128;  // Four numbers of 20 digits at the most.

// Takes a number and the space after it (if any) from the front of `text`.
template <typename T>
bool TakeNumber(std::string_view* text, int base, T* value) {
  const char* const end = text->data() + text->size();
  const auto [after, error] = std::from_chars(text->data(), end, *value, base);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(after - text->data()));
  if (!text->empty() && text->front() == ' ') text->remove_prefix(1);
  return true;
}

bool ParseLine(std::string_view line, int* number, JournalPart* part) {
  if (line.size() > kLineBytesMax) return false;
  const size_t space = line.rfind(' ');
  if (space == std::string_view::npos) return false;
  std::string_view check_text = line.substr(space + 1);
  std::string_view fields = line.substr(0, space);
  uint64_t check = 0;
  if (!TakeNumber(&check_text, 16, &check) || !check_text.empty()) return false;
  if (check != Crc64Nvme(AsBytes(fields))) return false;
  return TakeNumber(&fields, 10, number) &&
         TakeNumber(&fields, 10, &part->size_bytes) &&
         TakeNumber(&fields, 16, &part->crc64_nvme) &&
         TakeNumber(&fields, 16, &part->boot) && fields.empty() && *number > 0;
}

}  // namespace

std::string JournalLine(int number, const JournalPart& part) {
  const std::string fields =
      fmt::format("{} {} {:016x} {:016x}", number, part.size_bytes,
                  part.crc64_nvme, part.boot);
  return fmt::format("{} {:016x}\n", fields, Crc64Nvme(AsBytes(fields)));
}

std::map<int, JournalPart> ParseJournal(std::string_view text) {
  std::map<int, JournalPart> parts;
  while (true) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos)
      return parts;  // A last line without end is torn.
    int number = 0;
    JournalPart part;
    if (ParseLine(text.substr(0, end), &number, &part)) {
      if (part.size_bytes == 0) {
        parts.erase(number);
      } else {
        parts[number] = part;
      }
    }
    text.remove_prefix(end + 1);
  }
}

uint64_t BootName() {
  static const uint64_t name = [] {
    std::string text;
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    if (file && std::getline(file, text) && !text.empty()) {
      return Crc64Nvme(AsBytes(text));
    }
    std::random_device random;
    return uint64_t{random()} << 32 | random();
  }();
  return name;
}

}  // namespace cairn
