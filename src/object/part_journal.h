// The journal of an upload's parts: which of them its staging file holds.
//
// Text, one line a part, appended with one write() after the part was written,
// read back and found right:
//
//   <number> <size> <crc64> <boot> <check>
//
// <boot> names the boot of the machine (BootName) under which the part was seen
// whole: after another boot the data may be lost although the line survived, so
// the part has to be read again. <check> is the CRC-64 of the line before it; a
// line that does not have it (torn by a crash) counts as not there. The last
// line of a number wins. A size of 0 takes the part back: it is written before
// a part is overwritten in place.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace cairn {

struct JournalPart {
  uint64_t size_bytes = 0;
  uint64_t crc64_nvme = 0;
  uint64_t boot = 0;
  bool operator==(const JournalPart&) const = default;
};

// With its line end.
std::string JournalLine(int number, const JournalPart& part);

// By number. Never fails: what is not a whole, right line is passed over.
std::map<int, JournalPart> ParseJournal(std::string_view text);

// Differs between two boots of a machine, and between machines. Where the
// system does not tell, it differs between processes.
uint64_t BootName();

}  // namespace cairn
