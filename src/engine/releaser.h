// Frees the accelerator tier of what is proven archived, and removes archived
// copies on request.
//
// Release, in this order: guards (policy/selection.h); every file unchanged
// since its content was known, or read again; nobody has one open (write lease;
// where there is none, a grace time and a re-read); a release mark, durable on
// both tiers; our manifest; the files renamed away into staging, looked at once
// more and removed. A kill at any moment leaves the checkpoint whole at its
// place, or gone with its mark.

#pragma once

#include "absl/status/statusor.h"
#include "cairn/store.h"
#include "catalog/catalog.h"
#include "engine/context.h"

namespace cairn {

Outcome ReleaseCheckpoint(Context& context, const CheckpointRecord& record,
                          bool dry_run);

// Finishes what releases of dead processes had begun to take away, and takes
// back what had only been announced: either way the checkpoint is whole at its
// place, or released. What cannot be decided is left, with a notice.
absl::Status RecoverReleases(Context& context);

// `cairn remove --tier core`: our manifest first, then the framework's marker,
// then the objects that no other generation of this checkpoint uses. Objects
// stored by content are left to the sweep.
Outcome RemoveCoreCopy(Context& context, const CheckpointRecord& record,
                       bool force, bool dry_run);

}  // namespace cairn
