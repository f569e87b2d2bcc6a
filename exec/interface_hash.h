// What tells a CUDA plug-in of other sources from one of this program's (cuda_plugin.h).
#pragma once

namespace zplan::exec {

// Of the headers that both are compiled with; its source is written by interface_hash.cmake. Each
// has its own copy, in its own zplan_exec.
const char* interface_hash();

}  // namespace zplan::exec
