// The parts of zplan that answers do without, each in a file of its own: the executor is a program,
// the backend for NVIDIA GPUs a shared library. They lie beside the program or, installed, in
// ../lib/zplan from there.
//
// In a checkout a part is built when it is first needed: the script ./zplan puts its own path into
// the environment variable ZPLAN_LAUNCHER, and `$ZPLAN_LAUNCHER --build PART` builds a part that is
// missing or older than its sources.
#pragma once

#include <cstdint>
#include <string>

namespace zplan {

enum class ProgramPart : std::uint8_t { kExecutor, kCuda };

// Where the part lies, or should lie.
std::string part_path(ProgramPart part);

// Has the part built if this program was started by ./zplan; does nothing otherwise. Throws Error:
// kInterrupted if the build was interrupted, kDevice if it failed.
void build_part(ProgramPart part);

}  // namespace zplan
