// Trains a plan on the CPU executor with the text of tests/data.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exec/memory/state_access.h"
#include "exec/run.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "tests/support/placed_job.h"
#include "tests/support/source_dir.h"

namespace zplan::testing_support {

inline bool has_kernel(const Job& job, KernelId kernel) {
  return std::any_of(job.classes.begin(), job.classes.end(), [&](const RankClass& c) {
    return std::any_of(c.program.nodes.begin(), c.program.nodes.end(), [&](const Node& node) {
      return node.kind == OpKind::kKernel && node.kernel == kernel;
    });
  });
}

inline bool has_lora(const Job& job) {
  const std::vector<exec::TensorRef> all = exec::all_tensors(job);
  return std::any_of(all.begin(), all.end(), [&](const exec::TensorRef& ref) {
    return exec::tensor_name(job, ref).find(".lora_") != std::string::npos;
  });
}

// Steps of a size at which optimizers show what they do: SGD goes down the gradient itself, of
// which a thousandth can be less than the last bit of a gain of 1; second moments of 8 bits can be
// 0, and then epsilon alone divides what rounding leaves; factors of LoRA begin at 0, and first
// gradients of their partners are as small as rounding. Adafactor has no such epsilon: biases of
// keys, whose gradient is 0 but for rounding, move by parts of its step, which is made so small
// that they stay within what is allowed between two plans.
inline void make_steps_plain(const Job& job, TrainConfig& train) {
  if (has_kernel(job, KernelId::kSgd) || has_kernel(job, KernelId::kSgdMomentum))
    train.learning_rate *= 100;
  if (has_kernel(job, KernelId::kAdafactorGradient)) train.learning_rate /= 10;
  if (has_kernel(job, KernelId::kAdamW8Bit) || has_lora(job)) train.epsilon = 1e-5;
}

inline exec::DataSource text() {
  return exec::DataSource::from_file(ZPLAN_SOURCE_DIR "/tests/data/text.txt");
}

// Files of the NVMe tier go where tests may write.
inline exec::RunResult run_text(const Job& job, exec::RunOptions options) {
  options.storage.directory = testing::TempDir();
  make_steps_plain(job, options.train);
  return exec::run(job, text(), options);
}

// On the same text.
inline exec::ValidationOptions validation(const exec::ValidationTimes& times) {
  return {std::make_shared<const exec::DataSource>(text()), times};
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

// The names of those that nothing updates.
inline std::set<std::string> frozen_tensors(const Job& job) {
  std::set<std::uint32_t> units;
  for (const RankClass& c : job.classes)
    for (const UnitHome& home : c.homes)
      if (home.is_frozen) units.insert(home.unit);
  std::set<std::string> names;
  for (const exec::TensorRef& ref : exec::all_tensors(job))
    if (units.contains(ref.unit)) names.insert(exec::tensor_name(job, ref));
  return names;
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

inline exec::RunOptions steps(int n) {
  exec::RunOptions options;
  options.steps = n;
  return options;
}

inline Tensors states(const Trained& t, exec::State state = exec::State::kParam) {
  return tensors(t.job, t.result, state);
}

inline void expect_near(const Tensors& got, const Tensors& expected, double tolerance) {
  for (const auto& [name, values] : expected) {
    const std::vector<double>& mine = got.at(name);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(mine[i], values[i], tolerance) << name << "[" << i << "]";
  }
}

// The first difference between losses, norms and states of two runs, to the bit; nothing where all
// are equal.
inline std::optional<std::string> difference(const Job& job_a, const exec::RunResult& a,
                                             const Job& job_b, const exec::RunResult& b) {
  const auto differ = [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) != std::bit_cast<std::uint64_t>(y);
  };
  const auto text = [](const std::string& what, double x, double y) {
    return what + " is " + testing::PrintToString(x) + " and " + testing::PrintToString(y);
  };
  if (a.steps.size() != b.steps.size())
    return text("the number of steps", static_cast<double>(a.steps.size()),
                static_cast<double>(b.steps.size()));
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    const exec::StepResult &x = a.steps[i], &y = b.steps[i];
    const std::string of_step = " of step " + std::to_string(i);
    if (differ(x.loss, y.loss)) return text("the loss" + of_step, x.loss, y.loss);
    if (differ(x.gradient_norm, y.gradient_norm))
      return text("the norm" + of_step, x.gradient_norm, y.gradient_norm);
  }
  for (exec::State state : exec::kStates) {
    const auto worst =
        exec::largest_difference(job_a, a.memory, job_b, b.memory, state, exec::Equality::kBits);
    if (worst)
      return text(worst->tensor + "[" + std::to_string(worst->element) + "] of state " +
                      std::to_string(static_cast<int>(state)),
                  worst->first, worst->second);
  }
  return std::nullopt;
}

inline void expect_same_bits(const Job& job_a, const exec::RunResult& a, const Job& job_b,
                             const exec::RunResult& b, const std::string& name) {
  EXPECT_EQ(difference(job_a, a, job_b, b).value_or(""), "") << name;
}
inline void expect_same_bits(const Trained& a, const Trained& b, const std::string& name) {
  expect_same_bits(a.job, a.result, b.job, b.result, name);
}

}  // namespace zplan::testing_support
