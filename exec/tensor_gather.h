// A tensor of a job whose ranks are processes, of which each has a part (memory/state_access.h).
#pragma once

#include <vector>

#include "exec/comm/rendezvous.h"
#include "exec/memory/state_access.h"

namespace zplan::exec {

// Called by all processes, for the same tensors one after the other. The process of rank `root`
// gets what read_tensor() gives where one process has all ranks, the others nothing.
std::vector<double> gather_tensor(Rendezvous& rendezvous, int root, const Job& job,
                                  const RankMemory& own, const TensorRef& ref, State state);

}  // namespace zplan::exec
