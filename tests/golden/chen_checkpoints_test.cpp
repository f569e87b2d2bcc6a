// Checkpoints of several layers against what is published of them.
//
// n layers with a checkpoint every k: n / k checkpoints are held and, while backward is in the last
// of k layers, the activations of k layers [Chen16], [Narayanan21 sec 3.5]
//   n / k A_input + k A_layer
// with A_input = 2 sbh and A_layer what a layer keeps without recomputation [Korthikanti22 Table
// 2]:
//   sbh (34 + 5 a s / h) with dropout, sbh (32 + 2 a s / h) without, divided by t with tensor and
//   sequence parallelism; 16 bytes per token of statistics of norms, which the paper neglects, too.
// A_layer has the layer's input, which of the first of k layers is the checkpoint. Beside those k
// layers one layer's backward works as it does with k = 1, so the live peak differs from that by
//   (k - 1) A_layer - (n - n / k) A_input
// to the byte. The sum is least near k = sqrt(n A_input / A_layer).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <ostream>
#include <string>

#include "planner/place/place.h"
#include "planner/program/verify/verify.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

struct Technique {
  std::string name;
  int tp;
  double of_sbh, squares;  // of a layer, in sbh and in a s / h of it
  bool dropout = false;
};
void PrintTo(const Technique& t, std::ostream* out) { *out << t.name; }
const Technique kTable[] = {{"None", 1, 32, 2},
                            {"Dropout", 1, 34, 5, true},
                            {"TensorSequence8", 8, 32, 2},
                            {"TensorSequence8Dropout", 8, 34, 5, true}};
constexpr std::int32_t kLayers = 12;

// The shape of the 22B model, with fewer layers.
ModelConfig model_22b() {
  ModelConfig model = load_model("megatron-22b");
  model.layers = kLayers;
  return model;
}

Plan plan_of(const Technique& t, std::int32_t together) {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16.unfused";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.tp = t.tp;
  plan.parallel.sequence_parallel = t.tp > 1;
  plan.recompute = {{Recompute::kFull}};
  plan.checkpoint_layers = together;
  plan.dropout = t.dropout;
  plan.batch = {.global_batch = 4, .micro_batch = 4, .sequence = 2048};
  return plan;
}

struct LayerBytes {
  double input, layer;  // of one rank
};
LayerBytes bytes_of(const Technique& t, const ModelConfig& model) {
  const Plan plan = plan_of(t, 1);
  const auto tokens = static_cast<double>(plan.batch.micro_batch * plan.batch.sequence);
  const auto h = static_cast<double>(model.hidden);
  const double squares = t.squares * static_cast<double>(model.heads * plan.batch.sequence) / h;
  return {2 * tokens * h / t.tp, tokens * (h * (t.of_sbh + squares) + 16) / t.tp};
}

double live_peak(Job job) {
  place(job);
  verify_or_throw(job);
  return static_cast<double>(
      job.classes[0].placement.live_peak[static_cast<std::size_t>(Tier::kGpu)].value);
}

class ChenCheckpoints : public testing::TestWithParam<Technique> {};

TEST_P(ChenCheckpoints, TheLivePeakFollowsThem) {
  const ModelConfig model = model_22b();
  const auto [input, layer] = bytes_of(GetParam(), model);
  const double each = live_peak(lower(plan_of(GetParam(), 1), model));
  for (const std::int32_t k : {2, 3, 4, 6}) {
    const double several = live_peak(lower(plan_of(GetParam(), k), model));
    EXPECT_DOUBLE_EQ(several - each, (k - 1) * layer - (kLayers - kLayers / k) * input) << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Techniques, ChenCheckpoints, testing::ValuesIn(kTable),
                         [](const auto& t) { return t.param.name; });

// Of micro-batches in flight each has its checkpoints, and one alone has layers at work: with p of
// them the sum is least near k = sqrt(p n A_input / A_layer).
TEST(ChenCheckpointsOfAPipeline, AreFewestBytesWhereTheFormulaSays) {
  ModelConfig model = model_22b();
  constexpr int kStages = 8;
  model.layers = kStages * kLayers;
  Plan plan = plan_of(kTable[2], 1);
  plan.parallel.pp = kStages;
  plan.batch.global_batch = kStages * plan.batch.micro_batch;
  const auto [input, layer] = bytes_of(kTable[2], model);
  const double best = std::sqrt(kStages * kLayers * input / layer);
  std::int32_t least = 0, nearest = 1;
  double bytes = 0;
  for (const std::int32_t k : {1, 2, 3, 4, 6}) {
    plan.checkpoint_layers = k;
    const double own = live_peak(lower(plan, model));
    if (least == 0 || own < bytes) least = k, bytes = own;
    if (std::abs(k - best) < std::abs(nearest - best)) nearest = k;
  }
  EXPECT_EQ(least, nearest) << best;
}

}  // namespace
}  // namespace zplan
