// The fingerprint of a Job: 128-bit FNV-1a of its canonical text (text.h) without the model's name,
// as 32 hex digits. Two Jobs with one fingerprint do the same work on the same addresses, so their
// Timelines can be compared by operation id. Not for security.
#pragma once

#include <string>

#include "planner/program/job/job.h"

namespace zplan {

std::string fingerprint(const Job& job);

}  // namespace zplan
