// Threaded execution (run.h): waits on completion counts, collectives and transfers between
// threads.
#pragma once

#include "exec/schedule/rank.h"

namespace zplan::exec {

// Returns, or throws, when its threads have ended; after a failure queues may still be running.
void run_threaded(RunState& state);

}  // namespace zplan::exec
