// The device memory of a Job over one step, as a memory snapshot of PyTorch: a pickle that its
// viewer (pytorch.org/memory_viz) and torch.cuda._memory_viz read. Each stage is a device; its slab
// is one segment; each buffer is an allocation from its first writer to its last user in program
// order (planner/place/lifetime.h), with the buffer's name and that of the operation as frames.
// So the most that is allocated is the live peak of the memory report.
//
// Times are those of the Timeline's last step, in microseconds, and never go back: an operation
// that began before the one ahead of it in program order counts from that one on. Of loops over
// micro-batches it has the iterations that a folded timeline has.
#pragma once

#include <string>

#include "planner/place/lifetime.h"
#include "planner/program/job/job.h"
#include "planner/program/timeline/timeline.h"

namespace zplan {

// Of a placed Job and a Timeline of it, folded or not.
std::string memory_snapshot(const Job& job, const JobLifetimes& lives, const Timeline& timeline);

}  // namespace zplan
