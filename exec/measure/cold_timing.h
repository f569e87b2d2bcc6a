// How long one call takes on the CPU whose operands are not in the caches, as in a step of
// training: before each call the caches are filled with something else, and what the caller says is
// in them is read.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "exec/measure/timing.h"

namespace zplan::exec {

class Caches {
 public:
  Caches();
  // Fills them with something else.
  void evict();

 private:
  std::vector<std::byte> other_;
};

// The median of `effort.batches` calls or as many as fit into its seconds, whichever is more.
double cold_seconds(Caches& caches, const std::function<void()>& warm,
                    const std::function<void()>& call, const Effort& effort);

double seconds_of(const std::function<void()>& call);
double median_of(std::vector<double> values);

}  // namespace zplan::exec
