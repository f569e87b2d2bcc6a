#include "exec/comm/thread_group.h"

namespace zplan::exec {

TimePoint ThreadGroup::run(int index, const CollectiveCall& call) {
  calls_[static_cast<std::size_t>(index)] = call;
  const TimePoint start = barrier_.arrive_and_wait();
  check_same_operation(calls_);
  run_share(calls_, index);
  barrier_.arrive_and_wait();
  return start;
}

}  // namespace zplan::exec
