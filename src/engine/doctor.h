// `cairn doctor`: what this machine and these tiers really give.

#pragma once

#include "cairn/store.h"

namespace cairn {

DoctorReport ExamineMachine(const Options& options);

}  // namespace cairn
