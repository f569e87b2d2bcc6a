// Trains a plan on the CPU executor with the text of tests/data.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/run.h"
#include "exec/state_access.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "tests/support/source_dir.h"

namespace zplan::testing_support {

inline Job placed_job(const Plan& plan) {
  Job job = lower(plan, load_model(plan.model));
  place(job, {.slack = plan.slack});
  return job;
}

// Files of the NVMe tier go where tests may write.
inline exec::RunResult run_text(const Job& job, exec::RunOptions options) {
  options.storage.directory = testing::TempDir();
  return exec::run(job, exec::DataSource::from_file(ZPLAN_SOURCE_DIR "/tests/data/text.txt"),
                   options);
}

// Every tensor of a state by its name, row-major.
using Tensors = std::map<std::string, std::vector<double>>;
inline Tensors tensors(const Job& job, const exec::RunResult& result,
                       exec::State state = exec::State::kParam) {
  Tensors all;
  for (const exec::TensorRef& ref : exec::all_tensors(job))
    all[exec::tensor_name(job, ref)] = exec::read_tensor(job, result.memory, ref, state);
  return all;
}

// The result refers to the job: both stay where they are.
struct Trained {
  Job job;
  exec::RunResult result;
};
inline std::unique_ptr<Trained> train(const Plan& plan, const exec::RunOptions& options) {
  auto trained = std::make_unique<Trained>();
  trained->job = placed_job(plan);
  trained->result = run_text(trained->job, options);
  return trained;
}

// Losses, norms and states of two runs.
inline void expect_same_bits(const Job& job_a, const exec::RunResult& a, const Job& job_b,
                             const exec::RunResult& b, const std::string& name) {
  const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  ASSERT_EQ(a.steps.size(), b.steps.size()) << name;
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_EQ(bits(a.steps[i].loss), bits(b.steps[i].loss)) << name;
    EXPECT_EQ(bits(a.steps[i].gradient_norm), bits(b.steps[i].gradient_norm)) << name;
  }
  for (exec::State state : exec::kStates) {
    const auto difference =
        exec::largest_difference(job_a, a.memory, job_b, b.memory, state, exec::Equality::kBits);
    if (difference)
      ADD_FAILURE() << name << ": " << difference->tensor << "[" << difference->element << "] is "
                    << difference->first << " and " << difference->second;
  }
}
inline void expect_same_bits(const Trained& a, const Trained& b, const std::string& name) {
  expect_same_bits(a.job, a.result, b.job, b.result, name);
}

}  // namespace zplan::testing_support
