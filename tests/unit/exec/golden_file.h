// The golden training run of tests/data, as far as tests of the executor read it.
#pragma once

#include <string>
#include <vector>

#include "planner/program/job/program.h"

namespace zplan::exec::testing {

struct GoldenTensor {
  std::string kind, name;
  Shape shape;
  std::vector<double> values;
};

struct GoldenFile {
  std::uint64_t seed = 0;
  double init_std = 0;
  std::int64_t layers = 0, sequence = 0, global_batch = 0;
  std::vector<std::vector<std::int64_t>> sample_starts;  // [step][sample]
  std::vector<GoldenTensor> tensors;
};

GoldenFile load_golden();

}  // namespace zplan::exec::testing
