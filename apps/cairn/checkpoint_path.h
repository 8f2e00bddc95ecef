// From what a user types to the name of a checkpoint, a run or a prefix.
//
// Names are relative to the accelerator tier and in the escaped form
// (docs/format.md, "Names"). What shells complete is accepted too: "./",
// slashes at the end, and paths of files, absolute or relative to the working
// directory, that lie on the accelerator tier.

#pragma once

#include <string>
#include <string_view>

namespace cairn {

// The raw name. Looks at the file system, changes nothing, never fails: what
// makes no sense is passed on for the store to refuse.
std::string CheckpointPath(std::string_view argument,
                           const std::string& accelerator_path);

}  // namespace cairn
