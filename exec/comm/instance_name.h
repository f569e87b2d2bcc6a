// Names an operation for people when only its node and how often it was called before are known.
#pragma once

#include <cstdint>
#include <string>

#include "planner/program/instances/cursor.h"

namespace zplan::exec {

// "step 3, forward.qkv.gather[m0,l3]": of the instance of the node that has `earlier` ones before
// it. Walks up to two steps of the node's lane.
std::string instance_name(const ProgramIndex& index, NodeIndex node, std::int64_t earlier);

}  // namespace zplan::exec
