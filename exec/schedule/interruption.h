// What ends a run early.
#pragma once

#include <functional>

namespace zplan::exec {

// Either may be empty; asked one call at a time. True, once, ends the run.
struct Interruption {
  // Asked whenever a step begins: after the steps already begun.
  std::function<bool()> between_steps{};
  // Asked a few times a second where all lanes are threads: ahead of the first step in which
  // nothing has changed a state. What was done of it is given up.
  std::function<bool()> within_step{};
};

}  // namespace zplan::exec
