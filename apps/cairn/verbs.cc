// The list of verbs.

#include <utility>

#include "apps/cairn/verb.h"

namespace cairn {

std::vector<std::unique_ptr<Verb>> MakeVerbs() {
  std::vector<std::unique_ptr<Verb>> verbs;
  for (const auto make :
       {MakeInitVerb, MakeScanVerb, MakeExportVerb, MakeLsVerb, MakeLatestVerb,
        MakeRestoreVerb, MakeVerifyVerb, MakeReleaseVerb, MakeStatusVerb,
        MakeDoctorVerb, MakeShowVerb, MakeSaveVerb, MakeCommitVerb,
        MakeAdoptVerb, MakePinVerb, MakeUnpinVerb, MakeRemoveVerb,
        MakeSweepVerb, MakeRebuildVerb}) {
    verbs.push_back(make());
  }
  return verbs;
}

}  // namespace cairn
