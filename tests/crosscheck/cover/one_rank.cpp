#include "tests/crosscheck/cover/one_rank.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "planner/plan/plan_schedule.h"
#include "planner/program/kernels/kernel_set.h"
#include "tests/support/plan_space.h"
#include "tests/support/tensor_values.h"

namespace zplan::testing_support {
namespace {

// The tolerances of `zplan run --check` (planner/cli/run/check.cpp), whose comparison is written a
// second time here so that a slip in one of them shows. Here the query and the value part of the
// QKV bias are held against their own norms, there against the whole bias.
constexpr double kF64Tolerance = 1e-10;
constexpr double kF32Tolerance = 1e-5;
constexpr double kF32KeyBiasTolerance = 1e-6;
// Of the distance that the updates have moved a tensor. The command leaves more, for any plan and
// number of steps.
constexpr double kF64Way = 1e-10, kF32Way = 1e-3;
// Of the loss. One unit in the last place is 2^-8 of bf16 and 2^-11 of fp16; losses are means of
// 256 tokens whose logits carry a few of them.
constexpr double kBf16Tolerance = 4e-3, kF16Tolerance = 5e-4;

struct Reference {
  std::unique_ptr<Logged> trained;
  Tensors start;
};

const Reference& reference(const Plan& plan) {
  static std::map<std::string, Reference> known;
  const Plan one = on_one_rank(plan);
  Reference& entry = known[to_json(one)];
  if (entry.trained) return entry;
  entry.trained = train_logged(one);
  exec::RunOptions options;
  options.steps = 0;
  const auto untrained = train(one, options);
  entry.start = tensors(untrained->job, untrained->result);
  return entry;
}

// The gain of what steps of Mamba-1 are made of: plain updates of it are below the rounding of a
// one in 32 bit. The cover in fp64 compares it.
bool is_gain_of_steps(const std::string& tensor) {
  return tensor.ends_with(".dt_layernorm.weight");
}

// Parts of tensors whose content matters; of the QKV bias not that of the keys: softmax ignores a
// constant added to all scores of a query.
std::vector<std::vector<double>> parts(const std::string& tensor, const std::vector<double>& v) {
  if (testing_support::is_key_bias(tensor) || is_gain_of_steps(tensor)) return {};
  if (!is_qkv_bias(tensor)) return {v};
  const auto third = thirds(v);
  return {third[0], third[2]};
}

// Differences of parameters, part by part, against the distance travelled: single elements whose
// gradient is itself of the size of rounding drift apart by up to the learning rate in every step,
// since AdamW normalises it.
void expect_same_way(const Trained& got, const Reference& one, double of_way) {
  const Tensors mine = tensors(got.job, got.result);
  const std::set<std::string> frozen = frozen_tensors(got.job);
  EXPECT_EQ(frozen, frozen_tensors(one.trained->job));
  for (const auto& [tensor, values] : tensors(one.trained->job, one.trained->result)) {
    const auto ours = parts(tensor, mine.at(tensor)), theirs = parts(tensor, values),
               begin = parts(tensor, one.start.at(tensor));
    if (frozen.contains(tensor)) {
      EXPECT_EQ(mine.at(tensor), one.start.at(tensor)) << tensor;
      continue;
    }
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      EXPECT_GT(distance(theirs[i], begin[i]), 0) << tensor;
      EXPECT_LE(distance(ours[i], theirs[i]), of_way * distance(theirs[i], begin[i])) << tensor;
    }
  }
}

void expect_same_losses(const Trained& got, const Trained& one, double tolerance) {
  ASSERT_EQ(got.result.steps.size(), std::size_t{kCoverSteps});
  for (std::size_t i = 0; i < kCoverSteps; ++i) {
    const double loss = one.result.steps[i].loss;
    EXPECT_NEAR(got.result.steps[i].loss, loss, tolerance * loss) << "step " << i;
  }
}

double norm_of_layer(const std::string& layer, const Tensors& tensors) {
  double square = 0;
  for (const auto& [tensor, values] : tensors)
    if (tensor.starts_with(layer)) square += norm(values) * norm(values);
  return std::sqrt(square);
}

// The K part of the QKV bias has an exactly zero gradient. What is there is rounding, so it is held
// against its layer's gradient.
void expect_same_qkv_bias(const std::string& tensor, const Tensors& got, const Tensors& expected) {
  const double layer_norm = norm_of_layer(tensor.substr(0, tensor.find("attn.")), expected);
  const auto mine = thirds(got.at(tensor)), theirs = thirds(expected.at(tensor));
  for (const std::size_t part : {0U, 2U})
    EXPECT_LE(distance(mine[part], theirs[part]), kF32Tolerance * norm(theirs[part]))
        << tensor << " part " << part;
  EXPECT_LE(distance(mine[1], theirs[1]), kF32KeyBiasTolerance * layer_norm) << tensor << " K part";
}

// The same of a bias of keys alone.
void expect_same_key_bias(const std::string& tensor, const Tensors& got, const Tensors& expected) {
  const double layer_norm =
      norm_of_layer(tensor.substr(0, tensor.find("crossattention.")), expected);
  EXPECT_LE(distance(got.at(tensor), expected.at(tensor)), kF32KeyBiasTolerance * layer_norm)
      << tensor;
}

void expect_same_gradients(const Logged& trained, const Logged& one) {
  const Tensors expected = one.gradients.tensors(one.job),
                got = trained.gradients.tensors(trained.job);
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [tensor, gradient] : expected) {
    ASSERT_EQ(got.at(tensor).size(), gradient.size()) << tensor;
    if (is_qkv_bias(tensor)) {
      expect_same_qkv_bias(tensor, got, expected);
    } else if (testing_support::is_key_bias(tensor)) {
      expect_same_key_bias(tensor, got, expected);
    } else {
      EXPECT_LE(distance(got.at(tensor), gradient), kF32Tolerance * norm(gradient)) << tensor;
    }
  }
}

}  // namespace

std::unique_ptr<Logged> train_logged(const Plan& plan) {
  auto trained = std::make_unique<Logged>();
  trained->job = placed_job(plan);
  exec::RunOptions options;
  options.steps = kCoverSteps;
  options.record_timeline = true;
  options.observer = trained->gradients.observer(trained->job, plan.updates_late() ? 1 : 0);
  trained->result = run_text(trained->job, options);
  return trained;
}

void expect_agreement_in_fp64(const Plan& plan) {
  const auto trained = train_logged(plan);
  const Logged& got = *trained;
  const Reference& one = reference(plan);
  expect_same_losses(got, *one.trained, kF64Tolerance);
  for (std::size_t i = 0; i < got.result.steps.size(); ++i) {
    const exec::StepResult &ours = got.result.steps[i], &theirs = one.trained->result.steps[i];
    EXPECT_NEAR(ours.gradient_norm, theirs.gradient_norm, kF64Tolerance);
    EXPECT_NEAR(ours.balance_loss, theirs.balance_loss, kF64Tolerance);
    EXPECT_EQ(ours.dropped, theirs.dropped);
  }
  const auto worst = exec::largest_difference(got.job, got.result.memory, one.trained->job,
                                              one.trained->result.memory);
  if (worst) {
    EXPECT_NEAR(worst->first, worst->second, kF64Tolerance)
        << worst->tensor << " element " << worst->element;
  }
  expect_same_way(got, one, kF64Way);
  EXPECT_EQ(exec::replica_mismatch(got.job, got.result.memory), std::nullopt);
}

void expect_agreement_within_rounding(const Plan& plan, const Logged& got) {
  const Reference& one = reference(plan);
  const DType computed = find_kernel_set(plan.kernel_set).compute;
  if (computed != DType::kF32) {
    expect_same_losses(got, *one.trained,
                       computed == DType::kBf16 ? kBf16Tolerance : kF16Tolerance);
    return;
  }
  if (find_kernel_set(plan.kernel_set).layer_products == LayerProducts::kRoundedToFp8)
    return expect_same_losses(got, *one.trained, kF16Tolerance);
  expect_same_losses(got, *one.trained, kF32Tolerance);
  // A moment of 8 bits that rounding takes to another of its values moves its parameter by a
  // hundredth of a step, and with it the gradients that follow.
  const bool in_blocks = plan.optimizer.row().matrices.in_blocks;
  if (!in_blocks) expect_same_way(got, one, kF32Way);
  const bool after_updates = plan.updates_late() || updates_each_micro_batch(plan);
  if (!in_blocks || !after_updates) expect_same_gradients(got, *one.trained);
}

}  // namespace zplan::testing_support
