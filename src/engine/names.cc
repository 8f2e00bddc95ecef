// The words of cairn/types.h as text.

#include "cairn/types.h"

namespace cairn {

const char* StateName(State state) {
  switch (state) {
    case State::kWriting:
      return "writing";
    case State::kLocal:
      return "local";
    case State::kExporting:
      return "exporting";
    case State::kArchived:
      return "archived";
    case State::kReleased:
      return "released";
    case State::kRestoring:
      return "restoring";
  }
  return "unknown";
}

const char* DurabilityName(Durability durability) {
  switch (durability) {
    case Durability::kStaged:
      return "staged";
    case Durability::kNode:
      return "node";
    case Durability::kLocal:
      return "local";
    case Durability::kArchived:
      return "archived";
  }
  return "unknown";
}

const char* OutcomeName(Outcome::Kind kind) {
  switch (kind) {
    case Outcome::Kind::kDone:
      return "done";
    case Outcome::Kind::kNothingToDo:
      return "nothing_to_do";
    case Outcome::Kind::kRefused:
      return "refused";
    case Outcome::Kind::kFailed:
      return "failed";
    case Outcome::Kind::kDamaged:
      return "damaged";
  }
  return "unknown";
}

}  // namespace cairn
