// Every rate of a stack changes what it is said to change, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/throughput.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"

namespace zplan {
namespace {

ModelConfig small_model() {
  ModelConfig model;
  model.name = "small";
  model.layers = 4;
  model.hidden = 512;
  model.heads = model.kv_heads = 8;
  model.ffn = 2048;
  model.vocab = 1001;
  model.sequence = 512;
  return model;
}

struct Case {
  std::string cluster, kernel_set;
  std::function<void(Plan&)> change;
};

// Between them they have an operation for every rate.
const std::map<std::string, Case>& cases() {
  static const std::map<std::string, Case> all{
      {"data",
       {"dgx-a100x2", "cuda.sm80.bf16.unfused",
        [](Plan& plan) {
          plan.parallel.dp = 16;
          plan.zero_stage = 1;
        }}},
      {"tensor",
       {"dgx-a100x2", "cuda.sm80.bf16",
        [](Plan& plan) {
          plan.parallel.tp = 8;
          plan.parallel.pp = 2;
        }}},
      {"sequence",
       {"dgx-a100x2", "cuda.sm80.bf16",
        [](Plan& plan) {
          plan.parallel.tp = 8;
          plan.parallel.pp = 2;
          plan.parallel.sequence_parallel = true;
        }}},
      {"tiled",
       {"dgx-a100x2", "cuda.sm80.bf16",
        [](Plan& plan) {
          plan.parallel.dp = 16;
          plan.zero_stage = 3;
          plan.gather = Gather::in_tiles(2);
        }}},
      {"fp8", {"dgx-h100", "cuda.sm90.fp8", [](Plan&) {}}},
      {"offloaded",
       {"dgx-a100", "cuda.sm80.bf16",
        [](Plan& plan) {
          plan.parallel.dp = 8;
          plan.zero_stage = 2;
          plan.placement.grads = Tier::kCpu;
          plan.placement.optimizer = Tier::kNvme;
        }}},
  };
  return all;
}

class Priced {
 public:
  explicit Priced(const std::string& name) : cluster_(load_cluster(cases().at(name).cluster)) {
    const Case& what = cases().at(name);
    Plan plan;
    plan.kernel_set = what.kernel_set;
    plan.precision = default_recipe(plan.kernel_set);
    plan.batch = {.global_batch = 32, .micro_batch = 1, .sequence = 512};
    what.change(plan);
    job_ = lower(plan, small_model());
    place(job_, {.slack = plan.slack});
  }

  const Job& job() const { return job_; }

  std::vector<OpCost> costs(const StackRates& rates, int stage) const {
    Cluster cluster = cluster_;
    cluster.stack = rates;
    const CostModel model(job_, cluster);
    const auto of_stage = model.costs(stage);
    return {of_stage.begin(), of_stage.end()};
  }

 private:
  Cluster cluster_;
  Job job_;
};

bool differ(const OpCost& a, const OpCost& b) {
  return a.fixed != b.fixed || a.alone != b.alone || a.launch != b.launch || a.bytes != b.bytes ||
         a.host_waits != b.host_waits || a.slowdown != b.slowdown;
}

struct Expectation {
  const char* rate;
  const char* in;  // case
  double before, after;
  std::function<bool(const Node&)> concerns;
  // Of what changes; nothing: only that it does.
  std::function<double(const OpCost&)> measure = nullptr;
  double ratio = 0;  // of the measure after over before
};

void PrintTo(const Expectation& expected, std::ostream* out) { *out << expected.rate; }

double seconds_alone(const OpCost& cost) { return to_seconds(cost.alone).value; }
bool is_product(const Node& node) {
  switch (node.kernel) {
    case KernelId::kLinearForward:
    case KernelId::kMatmulForward:
    case KernelId::kMatmulWeightGradient:
    case KernelId::kLinearInputGradient:
    case KernelId::kLinearWeightGradient:
    case KernelId::kLinearGeluForward:
    case KernelId::kHeadForward:
    case KernelId::kHeadInputGradient:
    case KernelId::kHeadWeightGradient:
    case KernelId::kGeluInputGradient:
      return node.kind == OpKind::kKernel;
    default:
      return false;
  }
}
bool has_kernel(const Node& node, std::initializer_list<KernelId> kernels) {
  return node.kind == OpKind::kKernel &&
         std::find(kernels.begin(), kernels.end(), node.kernel) != kernels.end();
}
bool is_of_tensor_ranks(const Node& node) {
  return node.kind == OpKind::kCollective && node.lane == Lane::kCommTensor;
}
bool is_over_nodes(const Node& node) { return node.kind == OpKind::kCollective; }
bool is_sum_of_gradients(const Node& node) {
  return node.kind == OpKind::kCollective && node.lane == Lane::kCommReduce &&
         node.role.phase == Phase::kBackward && node.role.action == Action::kReduce;
}
bool is_gather_of_update(const Node& node) {
  return node.kind == OpKind::kCollective && node.role.phase == Phase::kUpdate &&
         node.role.action == Action::kGather;
}
bool is_device_kernel(const Node& node) {
  return node.kind == OpKind::kKernel && is_launched(node.lane);
}
bool forward(const Node& node) {
  return node.role.phase == Phase::kForward || node.role.phase == Phase::kRecompute;
}

class StackRateCost : public testing::TestWithParam<Expectation> {};

TEST_P(StackRateCost, ChangesWhatItIsSaidTo) {
  const Expectation& expected = GetParam();
  const Priced priced(expected.in);
  StackRates before, after;
  for (const StackRate& rate : stack_rates()) {
    if (rate.name != expected.rate) continue;
    before.*rate.member = expected.before;
    after.*rate.member = expected.after;
  }
  int changed = 0;
  for (int stage = 0; stage < static_cast<int>(priced.job().classes.size()); ++stage) {
    const auto& nodes = priced.job().classes[static_cast<std::size_t>(stage)].program.nodes;
    const auto a = priced.costs(before, stage), b = priced.costs(after, stage);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!differ(a[i], b[i])) continue;
      ++changed;
      EXPECT_TRUE(expected.concerns(nodes[i])) << name(nodes[i].role);
      if (!expected.measure) continue;
      EXPECT_NEAR(expected.measure(b[i]) / expected.measure(a[i]), expected.ratio, 1e-3)
          << name(nodes[i].role);
    }
  }
  EXPECT_GT(changed, 0);
}

TEST(SlicedBoundary, IsNotSlicedAgainWhereSequenceParallelismHasSplitIt) {
  const Priced priced("sequence");
  const auto before = priced.costs({.sliced_boundary = 0}, 0);
  const auto after = priced.costs({.sliced_boundary = 1}, 0);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_FALSE(differ(before[i], after[i])) << i;
}

// One collective of all bytes starts once: its units take their shares of its time.
TEST(SummedWhole, UnitsTakeTheirShareOfOneCollective) {
  const Priced priced("data");
  const Program& program = priced.job().classes.front().program;
  const auto costs = priced.costs({.summed_whole = 1}, 0);
  double per_byte = 0;
  int sums = 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (!is_sum_of_gradients(program.nodes[i])) continue;
    const std::span<const View> views = program.operands(program.nodes[i]);
    const auto bytes = std::max(views[0].bytes(), views[1].bytes()).value;
    const double own = seconds_alone(costs[i]) / static_cast<double>(bytes);
    if (sums++ == 0) per_byte = own;
    EXPECT_NEAR(own / per_byte, 1, 1e-3) << i;
  }
  EXPECT_GT(sums, 1);
}

TEST(HostSync, ASumOfTilesSetToZeroBeginsNoLayer) {
  const Priced priced("tiled");
  const auto& nodes = priced.job().classes.front().program.nodes;
  const auto costs = priced.costs({.host_sync = 1e-3}, 0);
  int zeroed = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].role.part != Part::kAttentionNorm || !has_kernel(nodes[i], {KernelId::kFillZero}))
      continue;
    ++zeroed;
    EXPECT_EQ(costs[i].host_waits, HostWait::kNothing);
  }
  EXPECT_GT(zeroed, 0);
}

TEST(Fp8, ThroughputIsComparedWithThePeakThatLayersComputeAt) {
  const Priced priced("fp8");
  const Throughput figures = throughput(priced.job(), load_cluster("dgx-h100"), Seconds{1}, 1e15);
  EXPECT_DOUBLE_EQ(figures.peak_tflops, 1978.9);
}

// Five bytes for each element of both operands, at the rate of the memory, and four kernels.
TEST(Fp8, CastsStandBesideTheirProducts) {
  const Priced priced("fp8");
  const DeviceProfile& device = load_cluster("dgx-h100").node.device;
  const Program& program = priced.job().classes.front().program;
  const auto without = priced.costs({}, 0), with = priced.costs({.fp8_casts = 1}, 0);
  const auto at = std::find_if(program.nodes.begin(), program.nodes.end(), [](const Node& node) {
    return has_kernel(node, {KernelId::kLinearInputGradient});
  });
  ASSERT_NE(at, program.nodes.end());
  const auto i = static_cast<std::size_t>(at - program.nodes.begin());
  const Shape &dy = program.operands(*at)[0].shape, &w = program.operands(*at)[1].shape;
  const Seconds stream = Bytes{5 * (dy.elements() + w.elements())} /
                         (device.memory_bandwidth * device.memory_efficiency);
  EXPECT_NEAR(seconds_alone(with[i]) - seconds_alone(without[i]),
              stream.value + 4 * device.gemm_overhead.value, 1e-11);
}

// All units are gathered, each in a node; 16 ranks meet.
TEST(ListCopy, EachTensorIsCopiedForEachRankAfterTheDeviceHasGatheredIt) {
  constexpr double kRanks = 16, kEach = 4e-6;
  const Priced priced("data");
  std::size_t tensors = 0;
  for (const Unit& unit : priced.job().units) tensors += unit.tensors.size();
  ASSERT_GT(tensors, priced.job().units.size()) << "some have more than one";
  const auto without = priced.costs({}, 0), with = priced.costs({.list_copy = kEach}, 0);
  const std::vector<Node>& nodes = priced.job().classes.front().program.nodes;
  double copied = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!is_gather_of_update(nodes[i])) continue;
    copied += to_seconds(with[i].launch - without[i].launch).value;
    EXPECT_EQ(with[i].host_waits, HostWait::kDevice);
    EXPECT_EQ(without[i].host_waits, HostWait::kNothing);
  }
  EXPECT_NEAR(copied, kEach * kRanks * static_cast<double>(tensors), 1e-9);
}

// Where a product's rate is no bound but a fixed time or its bytes are, the ratio is less.
INSTANTIATE_TEST_SUITE_P(
    All, StackRateCost,
    testing::Values(
        Expectation{"gemm", "data", 1, 2, is_product},
        Expectation{"transport", "data", 0, 75e-6, is_over_nodes},
        Expectation{"bucket", "data", 0, 5e7, is_sum_of_gradients},
        Expectation{"summed_whole", "data", 0, 1,
                    [](const Node& node) {
                      return is_sum_of_gradients(node) || is_gather_of_update(node);
                    }},
        Expectation{"list_copy", "data", 0, 4e-6, is_gather_of_update},
        Expectation{"gemm", "tensor", 1, 2, is_product},
        Expectation{"gemm_fp8", "fp8", 1, 2,
                    [](const Node& n) { return is_product(n) && n.role.part != Part::kHead; }},
        Expectation{"fp8_casts", "fp8", 0, 1,
                    [](const Node& n) { return is_product(n) && n.role.part != Part::kHead; }},
        Expectation{"scores", "data", 1, 2,
                    [](const Node& n) {
                      return has_kernel(n, {KernelId::kAttentionScores, KernelId::kAttentionContext,
                                            KernelId::kAttentionContextGradient,
                                            KernelId::kAttentionScoresGradient});
                    }},
        Expectation{"unaligned_head", "data", 1, 2,
                    [](const Node& n) { return is_product(n) && n.role.part == Part::kHead; },
                    seconds_alone, 2},
        Expectation{"attention_forward", "tensor", 1, 2,
                    [](const Node& n) { return has_kernel(n, {KernelId::kAttentionForward}); }},
        Expectation{"attention_backward", "tensor", 1, 2,
                    [](const Node& n) { return has_kernel(n, {KernelId::kAttentionBackward}); }},
        Expectation{
            "attention_older", "fp8", 1, 2,
            [](const Node& n) {
              return has_kernel(n, {KernelId::kAttentionForward, KernelId::kAttentionBackward});
            }},
        Expectation{"elementwise", "data", 1, 2,
                    [](const Node& n) {
                      return is_device_kernel(n) && !is_product(n) &&
                             n.role.phase != Phase::kUpdate && n.role.part != Part::kLoss;
                    }},
        Expectation{"softmax", "data", 1, 2,
                    [](const Node& n) {
                      return has_kernel(n, {KernelId::kSoftmaxForward, KernelId::kSoftmaxBackward});
                    }},
        Expectation{"loss", "data", 1, 2,
                    [](const Node& n) { return has_kernel(n, {KernelId::kCrossEntropy}); }},
        Expectation{"loss", "tensor", 1, 2,
                    [](const Node& n) {
                      return has_kernel(
                          n, {KernelId::kCrossEntropyStatistics, KernelId::kCrossEntropyParallel});
                    }},
        Expectation{"optimizer", "data", 1, 2,
                    [](const Node& n) {
                      return has_kernel(
                          n, {KernelId::kAdamW, KernelId::kSumSquares, KernelId::kClipCoefficient});
                    }},
        Expectation{"host_forward", "tensor", 1e-3, 2e-3,
                    [](const Node& n) {
                      return is_launched(n.lane) &&
                             (forward(n) || n.role.phase == Phase::kBackward);
                    },
                    [](const OpCost& c) { return to_seconds(c.launch).value; }, 2},
        Expectation{
            "host_backward", "tensor", 1e-3, 2e-3,
            [](const Node& n) { return is_launched(n.lane) && n.role.phase == Phase::kBackward; },
            [](const OpCost& c) { return to_seconds(c.launch).value; }, 2},
        Expectation{"host_collective", "tensor", 0, 1e-3,
                    [](const Node& n) {
                      return n.kind == OpKind::kCollective || n.kind == OpKind::kSend ||
                             n.kind == OpKind::kReceive;
                    }},
        Expectation{"host_sync", "data", 0, 1e-3,
                    [](const Node& n) {
                      return n.role.part == Part::kAttentionNorm && is_device_kernel(n);
                    },
                    [](const OpCost& c) { return c.host_waits != HostWait::kNothing ? 2.0 : 1.0; },
                    2},
        Expectation{"host_step", "data", 0, 1e-3,
                    [](const Node& n) { return n.role.phase == Phase::kBegin; },
                    [](const OpCost& c) { return c.host_waits != HostWait::kNothing ? 2.0 : 1.0; },
                    2},
        Expectation{"tensor_exposed", "tensor", 1, 0.5,
                    [](const Node& n) { return is_of_tensor_ranks(n); }, seconds_alone, 0.5},
        Expectation{"backward_exposed", "tensor", 1, 0.5,
                    [](const Node& n) {
                      return is_of_tensor_ranks(n) && n.role.phase == Phase::kBackward &&
                             n.role.action == Action::kSumRanks;
                    },
                    seconds_alone, 0.5},
        Expectation{
            "overlap_slowdown", "data", 0, 0.5,
            [](const Node& n) { return n.kind == OpKind::kCollective && !is_of_tensor_ranks(n); }},
        Expectation{"network", "data", 1, 0.5,
                    [](const Node& n) { return n.kind == OpKind::kCollective; }},
        Expectation{"gather_network", "data", 1, 0.5,
                    [](const Node& n) {
                      return n.kind == OpKind::kCollective && n.role.phase == Phase::kUpdate &&
                             n.role.action == Action::kGather;
                    }},
        Expectation{
            "sliced_boundary", "tensor", 0, 1,
            [](const Node& n) { return n.kind == OpKind::kSend || n.kind == OpKind::kReceive; },
            [](const OpCost& c) { return static_cast<double>(c.bytes.value); }, 1.0 / 8},
        Expectation{"cpu_update", "offloaded", 1, 2,
                    [](const Node& n) {
                      return is_host(n.lane) &&
                             has_kernel(n, {KernelId::kAdamW, KernelId::kSumSquares,
                                            KernelId::kClipCoefficient});
                    },
                    [](const OpCost& c) { return static_cast<double>(c.bytes.value); }, 2},
        Expectation{
            "cpu_accumulate", "offloaded", 1, 2,
            [](const Node& n) { return is_host(n.lane) && has_kernel(n, {KernelId::kAccumulate}); },
            [](const OpCost& c) { return static_cast<double>(c.bytes.value); }, 2},
        Expectation{"host_copies", "offloaded", 1, 2,
                    [](const Node& n) { return n.lane == Lane::kH2d || n.lane == Lane::kD2h; },
                    [](const OpCost& c) { return static_cast<double>(c.bytes.value); }, 2},
        Expectation{
            "staged_copies", "offloaded", 1, 2,
            [](const Node& n) { return n.lane == Lane::kD2h && n.role.phase == Phase::kBackward; }},
        Expectation{"copy_slowdown", "offloaded", 0, 0.5,
                    [](const Node& n) { return n.lane == Lane::kH2d || n.lane == Lane::kD2h; }},
        Expectation{"drives", "offloaded", 1, 2,
                    [](const Node& n) {
                      return n.role.action >= Action::kReadGradient ||
                             n.role.action == Action::kRead || n.role.action == Action::kWrite;
                    },
                    [](const OpCost& c) { return static_cast<double>(c.bytes.value); }, 2},
        Expectation{
            "host_drives", "offloaded", 0, 1e-3,
            [](const Node& n) { return n.lane == Lane::kIoRead || n.lane == Lane::kIoWrite; }}),
    [](const auto& info) {
      return std::string(info.param.rate) + "_" + info.param.in + "_" + std::to_string(info.index);
    });

}  // namespace
}  // namespace zplan
