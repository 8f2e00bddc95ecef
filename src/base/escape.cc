#include "base/escape.h"

#include <cstddef>
#include <cstdint>

#include "fmt/format.h"

namespace cairn {

namespace {

// One decoded code point; `length` is 0 where the bytes are ill-formed.
struct CodePoint {
  char32_t value = 0;
  size_t length = 0;
};

constexpr bool IsContinuation(unsigned char byte) {
  return (byte & 0xC0) == 0x80;
}

// Well-formed as in table 3-7 of the Unicode standard: no overlong form, no
// surrogate, nothing above U+10FFFF.
constexpr CodePoint Decode(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  size_t length = 0;
  char32_t value = 0;
  char32_t smallest = 0;
  if ((lead & 0xE0) == 0xC0) {
    length = 2, value = lead & 0x1F, smallest = 0x80;
  } else if ((lead & 0xF0) == 0xE0) {
    length = 3, value = lead & 0x0F, smallest = 0x800;
  } else if ((lead & 0xF8) == 0xF0) {
    length = 4, value = lead & 0x07, smallest = 0x10000;
  } else {
    return {};
  }
  if (text.size() < length) return {};
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (!IsContinuation(byte)) return {};
    value = value << 6 | (byte & 0x3F);
  }
  const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < smallest || is_surrogate || value > 0x10FFFF) return {};
  return {value, length};
}

// Part of the form of names on the tiers: a change here changes names that are
// already written.
constexpr bool StandsForItself(char32_t value) {
  if (value == '%') return false;
  if (value < 0x20 || (value >= 0x7F && value <= 0x9F)) return false;
  switch (value) {
    case 0x061C:  // Arabic letter mark
    case 0x200E:  // Left-to-right mark
    case 0x200F:  // Right-to-left mark
    case 0x2028:  // Line separator
    case 0x2029:  // Paragraph separator
    case 0xFEFF:  // Byte order mark
      return false;
    default:
      break;
  }
  const bool is_embedding = value >= 0x202A && value <= 0x202E;
  const bool is_isolate = value >= 0x2066 && value <= 0x2069;
  return !is_embedding && !is_isolate;
}

void AppendEscaped(std::string_view bytes, std::string* out) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    *out += '%';
    *out += kDigits[byte >> 4];
    *out += kDigits[byte & 0x0F];
  }
}

// -1 for anything but an upper-case hex digit.
constexpr int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string EscapeName(std::string_view name) {
  std::string text;
  text.reserve(name.size());
  while (!name.empty()) {
    const CodePoint point = Decode(name);
    const bool is_ill_formed = point.length == 0;
    const size_t length = is_ill_formed ? 1 : point.length;
    const std::string_view bytes = name.substr(0, length);
    if (!is_ill_formed && StandsForItself(point.value)) {
      text += bytes;
    } else {
      AppendEscaped(bytes, &text);
    }
    name.remove_prefix(length);
  }
  return text;
}

absl::StatusOr<std::string> UnescapeName(std::string_view text) {
  std::string name;
  name.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      name += text[at];
      continue;
    }
    const int high = at + 2 < text.size() ? HexDigit(text[at + 1]) : -1;
    const int low = at + 2 < text.size() ? HexDigit(text[at + 2]) : -1;
    if (high < 0 || low < 0) {
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" is not an escaped name: two upper-case hex "
                      "digits must follow "
                      "each percent sign; a percent sign itself is written %25",
                      EscapeName(text)));
    }
    name += static_cast<char>(high << 4 | low);
    at += 2;
  }
  if (const std::string canonical = EscapeName(name); canonical != text) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is not how this name is escaped; write \"{}\"",
                    EscapeName(text), canonical));
  }
  return name;
}

}  // namespace cairn
