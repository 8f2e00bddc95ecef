// The CRC-32 of zip: polynomial 0x04c11db7, reflected, inverted in and out. A
// byte at a time: it is run over directories, small records and, rarely, over a
// file that is suspected. Pure, thread-safe.

#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace cairn {

// Checksum of `data`, continuing from the checksum `crc` of what came before
// it.
uint32_t Crc32(ByteView data, uint32_t crc = 0);

}  // namespace cairn
