// Sizes, rates and durations, as people write and read them.
//
// GB is 10^9 bytes and GiB is 2^30, always. Where the two are mixed up in the
// field, both are printed.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace cairn {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

// "0 B", "999 B", "1.50 kB", "8.39 MB", "1.07 GB", "1.10 TB" (decimal, 3
// digits).
std::string FormatBytes(uint64_t bytes);

// "1.07 GB (1.00 GiB)"; below 1 MB as FormatBytes.
std::string FormatBytesBoth(uint64_t bytes);

// "1.07 GB/s". `elapsed` of zero gives "-".
std::string FormatRate(uint64_t bytes, absl::Duration elapsed);

// "40 ms", "0.8 s", "12 s", "3 min 4 s", "2 h 5 min", "3 d 4 h". Call it as
// cairn::FormatDuration: argument-dependent lookup finds absl's one too.
std::string FormatDuration(absl::Duration duration);

// "512", "512B", "7.5GB", "8 MiB", "1e9": units B kB MB GB TB PB EB KiB MiB GiB
// TiB PiB EiB, case-insensitive except that what reads as bits ("b", "Gb") is
// refused. kInvalidArgument: negative, overflow, unknown unit; the message
// shows the text.
absl::StatusOr<uint64_t> ParseBytes(std::string_view text);

// ParseBytes followed by "/s".
absl::StatusOr<uint64_t> ParseBytesPerSecond(std::string_view text);

// "90s", "30 min", "7d", "1h30m", "2 weeks": units ms s m min h d w (and the
// words). At most 250 years.
absl::StatusOr<absl::Duration> ParseDuration(std::string_view text);

}  // namespace cairn
