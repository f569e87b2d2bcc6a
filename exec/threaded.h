// Threaded execution (run.h): waits on completion counts, collectives and transfers between
// threads.
#pragma once

#include "exec/rank.h"

namespace zplan::exec {

void run_threaded(RunState& state);

}  // namespace zplan::exec
