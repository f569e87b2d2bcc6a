// Pipeline schedules: micro-batches in flight from the order of lowered Jobs, and the bubble from
// the simulator.
//   1F1B         stage i of p keeps min(m, p - i) micro-batches [Narayanan21 sec 2.2.1]
//   GPipe        every stage keeps all m [Huang19 sec 2.3]
//   interleaved  with v chunks stage i runs (v - 1) p + 2 (p - 1 - i) forwards ahead, one more than
//                it keeps then [Narayanan21 sec 2.2.2]
//   ZB-V         no stage keeps more than 2 p chunks, the memory of 1F1B [Qi24 sec 6]
//   ZB-H1        no stage keeps more than p micro-batches [Qi24 sec 3.1]
//   DualPipeV    every stage keeps 2 p + 1 chunks [DualPipe]
//   DualPipe     the same, PP + 1 of PP = 2 p ranks, and the model twice [DeepSeek24b Table 2]
//   bubble       (p - 1) / m of the time that a stage computes with equal stages and free
//                communication [Narayanan21 sec 2.2.1], interleaved (p - 1) / (m v); of orders
//                so often where the pipeline runs empty that often in a step; of orders
//                that take backward in two parts between what they leave in one step and in steps
//                that overlap (schedule/timing.h)
// Stages are equal but for embedding and head, which the small vocabulary makes light, and the
// update, which is taken out. Tolerance 1 % of the time: what they leave.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "planner/place/place.h"
#include "planner/program/instances/cursor.h"
#include "planner/program/schedule/dual_pipe_v.h"
#include "planner/program/schedule/timing.h"
#include "planner/program/schedule/weight_stashing.h"
#include "planner/program/schedule/zero_bubble_h1.h"
#include "planner/program/schedule/zero_bubble_v.h"
#include "sim/simulate.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

struct Case {
  Schedule schedule;
  int stages, micro_batches;
  int chunks = 1;
  int flushes = 1;  // rounds of equally many micro-batches
};

ModelConfig deep_model() {
  ModelConfig model = testing_support::round_model();
  model.layers = 16;
  model.hidden = 4096;
  model.heads = model.kv_heads = 32;
  model.ffn = 4 * model.hidden;
  model.vocab = 128;
  model.sequence = 2048;
  return model;
}

Job job_of(const Case& c, const ModelConfig& model = deep_model()) {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.pp = c.stages;
  plan.schedule = c.schedule;
  plan.parallel.chunks = c.chunks;
  plan.parallel.flushes = c.flushes;
  plan.clip = false;  // the norm of all gradients would make the stages wait for each other
  if (c.schedule == Schedule::kDualPipe) plan.parallel.dp = 2;
  plan.batch = {
      .global_batch = 4 * c.micro_batches * plan.parallel.dp, .micro_batch = 4, .sequence = 2048};
  Job job = lower(plan, model);
  place(job);
  return job;
}

// Links without limits, nothing with a latency.
Cluster ideal_cluster() {
  Cluster cluster = load_cluster("dgx-a100");
  TopologySpec& t = cluster.node.topology;
  constexpr BytesPerSecond kFast{1e18};
  for (LinkClass* link :
       {&*t.gpu_peer, &t.gpu_pcie, &t.pcie_uplink, &t.dram, &t.socket_peer, &t.nic_pcie, &t.nic})
    link->capacity = kFast;
  cluster.node.latency = {};
  cluster.node.device.launch_overhead = cluster.node.device.gemm_overhead = Seconds{0};
  cluster.node.device.copy_latency = Seconds{0};
  return cluster;
}

// The chunk of the stage that has the layer.
std::ptrdiff_t chunk_of(const RankClass& c, std::int64_t layer) {
  return std::find_if(c.layers.begin(), c.layers.end(),
                      [&](const LayerRange& range) {
                        return layer >= range.first && layer < range.first + range.count;
                      }) -
         c.layers.begin();
}

// Most passes of a micro-batch through a chunk whose forward has begun and whose backward has not
// given the gradients of the weights.
std::size_t most_in_flight(const RankClass& c) {
  const ProgramIndex index(c.program);
  std::set<std::pair<std::int64_t, std::ptrdiff_t>> forward, backward;
  std::size_t most = 0;
  for (Cursor at(index, Lane::kCompute); at->step() == 0; at.advance()) {
    const Role role = c.program.nodes[at->node].role;
    if (role.part != Part::kQkv) continue;
    const std::pair pass{at->env.micro, chunk_of(c, at->env.layer)};
    if (role.phase == Phase::kForward) forward.insert(pass);
    if (role.action == Action::kWeightGradient) backward.insert(pass);
    most = std::max(most, forward.size() - backward.size());
  }
  EXPECT_EQ(forward.size(), backward.size());
  return most;
}

class Pipeline : public testing::TestWithParam<Case> {};

TEST_P(Pipeline, KeepsTheMicroBatchesOfItsSchedule) {
  const auto [schedule, p, all, v, flushes] = GetParam();
  const int m = all / flushes;
  const Job job = job_of(GetParam());
  for (int stage = 0; stage < p; ++stage) {
    const auto most =
        static_cast<int>(most_in_flight(job.classes[static_cast<std::size_t>(stage)]));
    SCOPED_TRACE(stage);
    switch (schedule) {
      case Schedule::kOneForwardOneBackward:
        EXPECT_EQ(most, std::min(m, p - stage));
        break;
      case Schedule::kGpipe:
        EXPECT_EQ(most, m);
        break;
      case Schedule::kInterleaved:
        EXPECT_EQ(most, std::min(m * v, (v - 1) * p + 2 * (p - 1 - stage) + 1));
        break;
      case Schedule::kZeroBubbleH1:
        EXPECT_LE(most, p);
        break;
      case Schedule::kDualPipeV:
      case Schedule::kDualPipe:
        EXPECT_EQ(most, 2 * p + 1);
        break;
      default:
        EXPECT_LE(most, 2 * p);
    }
  }
}

double update_seconds(const Job& job, const Cluster& cluster, int stage) {
  const CostModel model(job, cluster);
  const Program& p = job.classes[static_cast<std::size_t>(stage)].program;
  double seconds = 0;
  for (std::size_t i = 0; i < p.nodes.size(); ++i)
    if (p.nodes[i].kind == OpKind::kKernel && p.nodes[i].kernel == KernelId::kAdamW)
      seconds += to_seconds(model.costs(stage)[i].alone).value *
                 static_cast<double>(testing_support::instances(p, p.nodes[i]));
  return seconds;
}

// Picoseconds that the passes of a stage without ends compute.
PassUnits units_of(const Job& job, const Cluster& cluster, const Case& c) {
  const CostModel model(job, cluster);
  const Program& p = job.classes[1].program;
  std::array<double, 3> seconds{};  // forward, both parts of backward
  for (std::size_t i = 0; i < p.nodes.size(); ++i) {
    const Node& n = p.nodes[i];
    if (n.kind != OpKind::kKernel || n.lane != Lane::kCompute) continue;
    const bool weights =
        n.role.action == Action::kWeightGradient || n.role.action == Action::kBiasGradient;
    const std::size_t part = n.role.phase == Phase::kForward ? 0 : weights ? 2 : 1;
    if (part == 0 || n.role.phase == Phase::kBackward)
      seconds[part] += to_seconds(model.costs(1)[i].alone).value *
                       static_cast<double>(testing_support::instances(p, n));
  }
  const auto one = [&](double all) {
    return static_cast<std::int64_t>(1e12 * all / (c.micro_batches * c.chunks));
  };
  return {one(seconds[0]), one(seconds[1]), one(seconds[2])};
}

PipelineSchedule schedule_of(const Case& c) {
  switch (c.schedule) {
    case Schedule::kZeroBubbleH1:
      return zero_bubble_h1(c.stages, c.micro_batches);
    case Schedule::kDualPipeV:
    case Schedule::kDualPipe:
      return dual_pipe_v(c.stages, c.micro_batches);
    default:
      return zero_bubble_v(c.stages, c.micro_batches);
  }
}

// So many steps of it, one after the other, where no rank waits for another to end a step.
PipelineSchedule steps_of(const Case& c, std::int32_t steps) {
  PipelineSchedule all = schedule_of(c);
  all.micro_batches *= steps;
  for (PassOrder& rank : all.ranks) rank = in_rounds(rank, steps);
  return all;
}

bool has_parts(Schedule schedule) {
  return schedule == Schedule::kZeroBubbleV || schedule == Schedule::kZeroBubbleH1 ||
         schedule == Schedule::kDualPipeV || schedule == Schedule::kDualPipe;
}

struct Bounds {
  double least = 0, most = 0;
};

Bounds expected_bubble(const Job& job, const Cluster& cluster, const Case& c) {
  const double known =
      static_cast<double>(c.flushes * (c.stages - 1)) / (c.micro_batches * c.chunks);
  if (!has_parts(c.schedule)) return {known, known};
  const std::vector<PassUnits> units(static_cast<std::size_t>(c.stages * c.chunks),
                                     units_of(job, cluster, c));
  const auto makespan = [&](std::int32_t steps) {
    return static_cast<double>(time_of(steps_of(c, steps), units).makespan());
  };
  // Steps overlap by as much as updates at the end of each stage let them.
  const double busy = static_cast<double>(time_of(steps_of(c, 1), units).ranks.front().busy);
  // A loop waits for the last transfer of the one before it, whichever it reads: in DualPipeV,
  // which begins its second loop of forwards while the first is still on its way, for up to a
  // forward.
  const bool is_dual = c.schedule == Schedule::kDualPipeV || c.schedule == Schedule::kDualPipe;
  const double late = is_dual ? static_cast<double>(units.front().forward) : 0;
  return {(makespan(4) - makespan(3)) / busy - 1, (makespan(1) + late) / busy - 1};
}

void expect_bubble(const Case& c, const Cluster& cluster) {
  const Job job = job_of(c);
  const sim::SimResult result = sim::simulate(job, cluster);
  double longest = 0;  // what the busiest stage computes
  for (const sim::LaneReport& lane : result.lanes)
    if (lane.lane == Lane::kCompute)
      longest = std::max(longest, lane.busy.value - update_seconds(job, cluster, lane.stage));
  const double bubble = (result.period.value - update_seconds(job, cluster, 0) - longest) / longest;
  const auto [least, most] = expected_bubble(job, cluster, c);
  EXPECT_GE(bubble, least - 0.01 * (1 + least)) << name(c.schedule);
  EXPECT_LE(bubble, most + 0.01 * (1 + most)) << name(c.schedule);
  if (has_parts(c.schedule)) {
    EXPECT_LT(bubble, static_cast<double>(c.stages - 1) / c.micro_batches / 2);
  }
}

TEST_P(Pipeline, IsIdleForTheBubbleOfTheSchedule) { expect_bubble(GetParam(), ideal_cluster()); }

// A host that waits at each layer for the compute stream keeps no other stage waiting: schedules
// whose stages are a ring run to their end, with the same bubble.
TEST_P(Pipeline, IsAsIdleWhereTheHostWaitsAtEachLayer) {
  Cluster cluster = ideal_cluster();
  cluster.stack.host_sync = 1e-9;
  expect_bubble(GetParam(), cluster);
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, Pipeline,
    testing::Values(Case{Schedule::kOneForwardOneBackward, 1, 4},
                    Case{Schedule::kOneForwardOneBackward, 2, 4},
                    Case{Schedule::kOneForwardOneBackward, 4, 4},
                    Case{Schedule::kOneForwardOneBackward, 4, 16},
                    Case{Schedule::kOneForwardOneBackward, 8, 2},
                    Case{Schedule::kOneForwardOneBackward, 4, 16, 1, 2},
                    Case{Schedule::kOneForwardOneBackward, 2, 12, 1, 6},
                    Case{Schedule::kInterleaved, 4, 32, 2, 4}, Case{Schedule::kGpipe, 2, 4},
                    Case{Schedule::kGpipe, 4, 4}, Case{Schedule::kGpipe, 4, 16},
                    Case{Schedule::kInterleaved, 2, 4, 2}, Case{Schedule::kInterleaved, 4, 8, 4},
                    Case{Schedule::kInterleaved, 4, 16, 2}, Case{Schedule::kInterleaved, 2, 6, 8},
                    Case{Schedule::kZeroBubbleV, 2, 4, 2}, Case{Schedule::kZeroBubbleV, 4, 8, 2},
                    Case{Schedule::kZeroBubbleV, 4, 16, 2}, Case{Schedule::kZeroBubbleH1, 2, 4},
                    Case{Schedule::kZeroBubbleH1, 4, 8}, Case{Schedule::kZeroBubbleH1, 4, 16},
                    Case{Schedule::kDualPipeV, 2, 4, 2}, Case{Schedule::kDualPipeV, 4, 8, 2},
                    Case{Schedule::kDualPipeV, 4, 16, 2}, Case{Schedule::kDualPipe, 2, 4, 2},
                    Case{Schedule::kDualPipe, 4, 8, 2}, Case{Schedule::kDualPipe, 4, 16, 2}),
    [](const auto& c) {
      std::string text = std::string(name(c.param.schedule)) + std::to_string(c.param.stages) +
                         "Stages" + std::to_string(c.param.micro_batches) + "Micro" +
                         std::to_string(c.param.chunks) + "Chunks" +
                         std::to_string(c.param.flushes) + "Flushes";
      std::erase(text, '-');
      return text;
    });

Bytes bytes_of(const RankClass& c, Category category) {
  Bytes sum{0};
  for (const Buffer& buffer : c.program.buffers)
    if (buffer.category == category && buffer.tier == Tier::kGpu) sum = sum + buffer.size();
  return sum;
}

// Of its 2 p ranks; on DualPipeV's p it is there once [DeepSeek24b Table 2].
TEST(DualPipe, HoldsTheModelTwice) {
  const auto parameters = [](const Job& job) {
    Bytes sum{0};
    for (const RankClass& c : job.classes)
      sum = sum + bytes_of(c, Category::kParameters) * (job.mesh.world() / job.stages());
    return sum;
  };
  const Job once = job_of({Schedule::kDualPipeV, 4, 8, 2});
  const Job twice = job_of({Schedule::kDualPipe, 4, 8, 2});
  EXPECT_EQ(twice.mesh.world(), 8);
  EXPECT_EQ(parameters(twice), parameters(once) * 2);
}

// PipeDream-2BW: no flush, hence no bubble, where 1F1B has one of (p - 1) / m; two versions of the
// parameters on every stage, and as many micro-batches in flight as 1F1B [Narayanan20 sec 3.1].
// PipeDream: no bubble either; as many versions as micro-batches in flight, p - i on stage i
// [Narayanan19 sec 3.3], where the step divides into the slots of their ring.
class WithoutFlush : public testing::TestWithParam<Case> {};

// A tied embedding has gradients on the first stage and the last, which would wait for each other.
Job untied(const Case& c) {
  ModelConfig model = deep_model();
  model.tied_embeddings = false;
  return job_of(c, model);
}

Case with_flush(Case c) {
  c.schedule = Schedule::kOneForwardOneBackward;
  return c;
}

TEST_P(WithoutFlush, IsNotIdle) {
  const auto idle = [](const Case& c) {
    const sim::SimResult result = sim::simulate(untied(c), ideal_cluster());
    double longest = 0;
    for (const sim::LaneReport& lane : result.lanes)
      if (lane.lane == Lane::kCompute) longest = std::max(longest, lane.busy.value);
    EXPECT_TRUE(result.steady);
    return result.period.value / longest - 1;
  };
  EXPECT_LT(idle(GetParam()), 0.01);
  const double bubble = static_cast<double>(GetParam().stages - 1) / GetParam().micro_batches;
  EXPECT_GT(idle(with_flush(GetParam())), 0.9 * bubble);
}

// The newest among them.
std::int64_t versions(const Case& c, std::int32_t stage) {
  if (c.schedule == Schedule::kDoubleBuffered) return 2;
  const std::int32_t own = c.stages - stage;
  const bool divides = own == 1 || c.micro_batches % (own - 1) == 0;
  if (divides) return own;
  return 1 + stash_slots(stage, c.stages, c.micro_batches);
}

TEST_P(WithoutFlush, KeepsVersionsOfTheParameters) {
  const Job job = untied(GetParam()), flushed = untied(with_flush(GetParam()));
  for (std::size_t stage = 0; stage < job.classes.size(); ++stage) {
    SCOPED_TRACE(stage);
    const RankClass &own = job.classes[stage], &other = flushed.classes[stage];
    EXPECT_EQ(bytes_of(own, Category::kParameters),
              bytes_of(other, Category::kParameters) *
                  versions(GetParam(), static_cast<std::int32_t>(stage)));
    EXPECT_EQ(bytes_of(own, Category::kOptimizer), bytes_of(other, Category::kOptimizer));
    EXPECT_EQ(bytes_of(own, Category::kGradients), bytes_of(other, Category::kGradients));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, WithoutFlush,
    testing::Values(Case{Schedule::kDoubleBuffered, 2, 4}, Case{Schedule::kDoubleBuffered, 4, 4},
                    Case{Schedule::kDoubleBuffered, 4, 16}, Case{Schedule::kDoubleBuffered, 8, 16},
                    Case{Schedule::kWeightStashing, 2, 4}, Case{Schedule::kWeightStashing, 4, 12},
                    Case{Schedule::kWeightStashing, 4, 16},
                    Case{Schedule::kWeightStashing, 8, 16}));

}  // namespace
}  // namespace zplan
