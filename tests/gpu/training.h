// Trains a plan of the tests on a device or on the CPU; tensors, losses and gradients of two runs
// compared.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/memory/state_access.h"
#include "exec/run.h"
#include "planner/plan/plan.h"
#include "tests/support/gradient_log.h"

namespace zplan::gpu {

using Tensors = std::map<std::string, std::vector<double>>;  // row-major, by name
using Observer = std::function<void(const exec::NodeEvent&)>;

// The result refers to the job: both stay where they are.
struct Trained {
  Job job;
  exec::RunResult result;
};

Job placed_job(const Plan& plan);
std::unique_ptr<Trained> train(const Plan& plan, exec::RunOptions options,
                               const std::string& directory,
                               LaunchMode launch = LaunchMode::kStream);
// With the gradients of the first step, which operations see one at a time.
struct FirstStep {
  std::unique_ptr<Trained> trained;
  Tensors gradients;
};
FirstStep first_step(const Plan& plan, exec::RunOptions options, const std::string& directory);

// The observer sees the operands in host memory.
Observer in_host_memory(std::shared_ptr<exec::Device> device, Observer observer);

Tensors parameters(const Trained& trained);

// Differences as shares of what is allowed; the greatest counts.
struct Deviation {
  double share = 0;
  std::string what;
  void take(double own_share, const std::string& own_what);
};

// Losses relative to their own size.
void compare_losses(const Trained& got, const Trained& expected, double allowed, Deviation& worst);
// Gradients of each tensor relative to their norm, of the key part of a QKV bias to that of its
// layer: softmax ignores a constant added to all scores of a query, so it is exactly zero.
void compare_gradients(const Tensors& got, const Tensors& expected, double allowed,
                       double allowed_of_keys, Deviation& worst);
// Parameters of each tensor relative to the distance that training has moved them, without keys'
// biases.
void compare_parameters(const Tensors& got, const Tensors& expected, const Tensors& start,
                        double allowed, Deviation& worst);
// Empty, or what differs: losses, norms and all states, bit by bit.
std::string different_bits(const Trained& a, const Trained& b);

}  // namespace zplan::gpu
