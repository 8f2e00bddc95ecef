#include "base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>

#include "base/escape.h"
#include "fmt/format.h"

namespace cairn {

namespace {

constexpr size_t kShownTextMax = 100;

// Far below where 64-bit nanoseconds end, so that callers need not think of it.
constexpr absl::Duration kParsedDurationMax = absl::Hours(24 * 365 * 250);

struct Unit {
  std::string_view name;
  uint64_t factor;
};

constexpr std::array<Unit, 7> kDecimalUnits = {{
    {"B", 1},
    {"kB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
    {"PB", 1'000'000'000'000'000},
    {"EB", 1'000'000'000'000'000'000},
}};

constexpr std::array<Unit, 7> kBinaryUnits = {{
    {"B", 1},
    {"KiB", kKiB},
    {"MiB", kMiB},
    {"GiB", kGiB},
    {"TiB", kGiB << 10},
    {"PiB", kGiB << 20},
    {"EiB", kGiB << 30},
}};

// In milliseconds. The first name of each is the one to recommend.
constexpr Unit kTimeUnits[] = {
    {"ms", 1},           {"millisecond", 1},    {"milliseconds", 1},
    {"s", 1'000},        {"sec", 1'000},        {"secs", 1'000},
    {"second", 1'000},   {"seconds", 1'000},    {"m", 60'000},
    {"min", 60'000},     {"mins", 60'000},      {"minute", 60'000},
    {"minutes", 60'000}, {"h", 3'600'000},      {"hr", 3'600'000},
    {"hrs", 3'600'000},  {"hour", 3'600'000},   {"hours", 3'600'000},
    {"d", 86'400'000},   {"day", 86'400'000},   {"days", 86'400'000},
    {"w", 604'800'000},  {"week", 604'800'000}, {"weeks", 604'800'000},
};

bool IsSpace(char c) { return c == ' ' || c == '\t'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
char ToLower(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (ToLower(a[i]) != ToLower(b[i])) return false;
  }
  return true;
}

absl::Status Refuse(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(
      fmt::format("\"{}\"{}: {}", EscapeName(text.substr(0, kShownTextMax)),
                  text.size() > kShownTextMax ? " (cut)" : "", why));
}

// Three digits, in the unit in which they say most. Rounding never shows
// "1000 kB" or "10.00 GB".
std::string FormatScaled(double value, std::span<const Unit> units) {
  const double base = static_cast<double>(units[1].factor);
  size_t index = 0;
  double scaled = value;
  while (scaled >= base - 0.5 && index + 1 < units.size()) {
    ++index;
    scaled = value / static_cast<double>(units[index].factor);
  }
  int decimals = 0;
  if (index > 0 && scaled < 9.995) {
    decimals = 2;
  } else if (index > 0 && scaled < 99.95) {
    decimals = 1;
  }
  return fmt::format("{:.{}f} {}", scaled, decimals, units[index].name);
}

// Takes a number without sign off the front of `text`.
std::optional<double> TakeNumber(std::string_view* text) {
  if (text->empty() || !(IsDigit(text->front()) || text->front() == '.')) {
    return std::nullopt;  // Also "-1", "inf" and "nan".
  }
  double value = 0;
  const auto [end, error] =
      std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(end - text->data());
  return value;
}

// Integers exactly, where a double would round them.
std::optional<uint64_t> TakeInteger(std::string_view* text) {
  size_t digits = 0;
  while (digits < text->size() && IsDigit((*text)[digits])) ++digits;
  if (digits == 0) return std::nullopt;
  if (digits < text->size()) {
    const char next = ToLower((*text)[digits]);
    const bool has_exponent = next == 'e' && digits + 1 < text->size() &&
                              !IsLetter((*text)[digits + 1]);
    if (next == '.' || has_exponent) return std::nullopt;
  }
  uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(text->data(), text->data() + digits, value);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(digits);
  return value;
}

std::optional<uint64_t> BytesFactor(std::string_view unit) {
  if (unit.empty()) return 1;
  for (const auto& units : {kDecimalUnits, kBinaryUnits}) {
    for (const Unit& candidate : units) {
      if (EqualsIgnoringCase(unit, candidate.name)) return candidate.factor;
    }
  }
  return std::nullopt;
}

// "b", "Gb", "Mib": bits to whoever writes them, and eight times too much.
bool ReadsAsBits(std::string_view unit) {
  if (unit.empty() || unit.back() != 'b') return false;
  return unit.size() == 1 || (unit[0] >= 'A' && unit[0] <= 'Z');
}

}  // namespace

std::string FormatBytes(uint64_t bytes) {
  return FormatScaled(static_cast<double>(bytes), kDecimalUnits);
}

std::string FormatBytesBoth(uint64_t bytes) {
  if (bytes < 1'000'000) return FormatBytes(bytes);
  return fmt::format("{} ({})", FormatBytes(bytes),
                     FormatScaled(static_cast<double>(bytes), kBinaryUnits));
}

std::string FormatRate(uint64_t bytes, absl::Duration elapsed) {
  if (elapsed <= absl::ZeroDuration()) return "-";
  const double rate =
      static_cast<double>(bytes) / absl::ToDoubleSeconds(elapsed);
  return FormatScaled(rate, kDecimalUnits) + "/s";
}

std::string FormatDuration(absl::Duration duration) {
  if (duration < absl::ZeroDuration())
    return "-" + cairn::FormatDuration(-duration);
  if (duration == absl::InfiniteDuration()) return "forever";
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds == 0) return "0 s";
  if (seconds < 0.0005) return "<1 ms";
  if (seconds < 0.0995) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  if (seconds < 59.5) return fmt::format("{:.0f} s", seconds);

  struct Pair {
    std::string_view major, minor;
    int64_t minors_in_major;
    absl::Duration minor_length;
    int64_t minors_max;  // From here on the next pair.
  };
  constexpr Pair kPairs[] = {
      {"min", "s", 60, absl::Seconds(1), 60 * 60},
      {"h", "min", 60, absl::Minutes(1), 24 * 60},
      {"d", "h", 24, absl::Hours(1), INT64_MAX},
  };
  for (const Pair& pair : kPairs) {
    const int64_t minors =
        (duration + pair.minor_length / 2) / pair.minor_length;
    if (minors >= pair.minors_max) continue;
    const int64_t rest = minors % pair.minors_in_major;
    const int64_t majors = minors / pair.minors_in_major;
    if (rest == 0) return fmt::format("{} {}", majors, pair.major);
    return fmt::format("{} {} {} {}", majors, pair.major, rest, pair.minor);
  }
  return "forever";
}

absl::StatusOr<uint64_t> ParseBytes(std::string_view text) {
  constexpr std::string_view kExample =
      "write a size such as 512, 7.5GB or 8 MiB";
  std::string_view rest = Trim(text);
  if (rest.starts_with('-')) return Refuse(text, "a size cannot be negative");
  const std::optional<uint64_t> integer = TakeInteger(&rest);
  const std::optional<double> number = integer ? *integer : TakeNumber(&rest);
  if (!number) return Refuse(text, fmt::format("not a size; {}", kExample));
  const std::string_view unit = Trim(rest);
  if (ReadsAsBits(unit)) {
    return Refuse(text, "a lower-case b reads as bits; write B for bytes");
  }
  const std::optional<uint64_t> factor = BytesFactor(unit);
  if (!factor) {
    return Refuse(text,
                  "unknown unit; the units are B kB MB GB TB PB EB (powers of "
                  "1000) and KiB MiB GiB TiB PiB EiB (powers of 1024)");
  }
  constexpr std::string_view kTooLarge = "too large; sizes end below 16 EiB";
  if (integer) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(*integer, *factor, &bytes)) {
      return Refuse(text, kTooLarge);
    }
    return bytes;
  }
  const double bytes = std::round(*number * static_cast<double>(*factor));
  if (!(bytes < 0x1p64)) return Refuse(text, kTooLarge);
  return static_cast<uint64_t>(bytes);
}

absl::StatusOr<uint64_t> ParseBytesPerSecond(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  if (!trimmed.ends_with("/s")) {
    return Refuse(text, "not a rate; write a size per second such as 7.5GB/s");
  }
  return ParseBytes(trimmed.substr(0, trimmed.size() - 2));
}

absl::StatusOr<absl::Duration> ParseDuration(std::string_view text) {
  std::string_view rest = Trim(text);
  if (rest == "0") return absl::ZeroDuration();
  if (rest.starts_with('-')) {
    return Refuse(text, "a duration cannot be negative");
  }
  if (rest.empty()) {
    return Refuse(text, "not a duration; write one such as 90s, 1h30m or 7d");
  }
  double milliseconds = 0;
  while (!rest.empty()) {
    const std::optional<double> number = TakeNumber(&rest);
    if (!number) {
      return Refuse(text, "not a duration; write one such as 90s, 1h30m or 7d");
    }
    rest = Trim(rest);
    size_t length = 0;
    while (length < rest.size() && IsLetter(rest[length])) ++length;
    const std::string_view name = rest.substr(0, length);
    const Unit* unit = nullptr;
    for (const Unit& candidate : kTimeUnits) {
      if (EqualsIgnoringCase(name, candidate.name)) unit = &candidate;
    }
    if (unit == nullptr) {
      return Refuse(text, "each number needs a unit: ms s min h d w");
    }
    milliseconds += *number * static_cast<double>(unit->factor);
    rest = Trim(rest.substr(length));
  }
  if (!(milliseconds <= absl::ToDoubleMilliseconds(kParsedDurationMax))) {
    return Refuse(text, "too long; durations end at 250 years");
  }
  return absl::Milliseconds(milliseconds);
}

}  // namespace cairn
