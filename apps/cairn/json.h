// What --json prints: one JSON object for each kind of answer.
//
// The keys are documented in docs/cli.md and kept stable: they may be added to,
// never renamed or given another meaning. Names are escaped (UTF-8 always),
// times are RFC 3339 in UTC with nanoseconds, sizes are bytes, what is not
// known is null. Pure functions; each text ends in a line feed.

#pragma once

#include <string>
#include <vector>

#include "cairn/options.h"
#include "cairn/types.h"

namespace cairn {

std::string JsonOf(const CheckpointInfo& checkpoint);
std::string JsonOf(const std::vector<CheckpointInfo>& checkpoints);
std::string JsonOf(const ScanReport& report);
std::string JsonOf(const ShowReport& report);
std::string JsonOf(const LatestReport& report);
std::string JsonOf(const BatchReport& report);
std::string JsonOf(const RestoreReport& report);
std::string JsonOf(const VerifyReport& report);
std::string JsonOf(const SweepReport& report);
std::string JsonOf(const RebuildReport& report);
std::string JsonOf(const StatusReport& report);
std::string JsonOf(const DoctorReport& report);

// `cairn init`.
std::string JsonOfInit(const std::string& config, bool config_written,
                       const Options& options);
// `cairn pin` and `cairn unpin`.
std::string JsonOfPin(const std::string& path, bool pinned);

}  // namespace cairn
