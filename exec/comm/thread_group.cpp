#include "exec/comm/thread_group.h"

namespace zplan::exec {

TimePoint ThreadGroup::run(int index, const CollectiveCall& call) {
  calls_[static_cast<std::size_t>(index)] = call;
  const TimePoint start = barrier_.arrive_and_wait();
  check_same_operation(calls_);
  for (int phase = 0; phase < phases_of(call.kind); ++phase) {
    run_phase(calls_, index, phase);
    barrier_.arrive_and_wait();
  }
  return start;
}

}  // namespace zplan::exec
