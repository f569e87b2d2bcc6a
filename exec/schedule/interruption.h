// What ends a run early.
#pragma once

#include <functional>

namespace zplan::exec {

// Either may be empty, and each is asked one call at a time. True, once, ends the run.
struct Interruption {
  // Asked as the first lane begins a step: after the steps already begun.
  std::function<bool()> between_steps{};
  // Asked between operations, at most 20 times a second, unless a device with queues runs ahead of
  // the threads: ends the run ahead of the first step in which nothing has changed a state. What
  // was done of it is given up.
  std::function<bool()> within_step{};
};

}  // namespace zplan::exec
