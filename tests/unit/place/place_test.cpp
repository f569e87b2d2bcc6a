#include "planner/place/place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "planner/lower/program_builder.h"
#include "planner/place/memory_report.h"

namespace zplan {
namespace {

constexpr Bytes kSlot{4096};

View view(BufferId id) {
  View v;
  v.buffer = id;
  v.shape = {kSlot.value / size_of(DType::kF32).value};
  return v;
}

Role role(Part part) { return {Phase::kForward, part, Action::kCompute}; }

// a -> b -> c -> d on the GPU, with one persistent buffer there and one on the host.
Job chain() {
  ProgramBuilder out;
  const auto add = [&](const char* name, Category category, bool persistent, Tier tier) {
    return out.add({.name = name,
                    .slot_size = kSlot,
                    .tier = tier,
                    .category = category,
                    .persistent = persistent});
  };
  const BufferId a = add("a", Category::kActivations, false, Tier::kGpu);
  const BufferId b = add("b", Category::kGathered, false, Tier::kGpu);
  const BufferId param = add("param", Category::kParameters, true, Tier::kGpu);
  const BufferId c = add("c", Category::kActivations, false, Tier::kGpu);
  const BufferId d = add("d", Category::kActivations, false, Tier::kGpu);
  const BufferId host = add("host", Category::kOptimizer, true, Tier::kCpu);
  out.kernel(role(Part::kQkv), Lane::kCompute, KernelId::kFillZero, {write(view(a))});
  out.kernel(role(Part::kFc1), Lane::kCompute, KernelId::kGeluForward,
             {read(view(a)), write(view(b))});
  out.kernel(role(Part::kGelu), Lane::kCommReduce, KernelId::kResidualAdd,
             {read(view(b)), read(view(param)), write(view(c))});
  out.copy(role(Part::kFc2), view(c), view(host));
  out.kernel(role(Part::kLoss), Lane::kCompute, KernelId::kGeluForward,
             {read(view(c)), write(view(d))});
  Job job;
  job.classes.emplace_back();
  job.classes[0].program = out.finish();
  return job;
}

std::int64_t reuse_edges(const Program& program) {
  return std::count_if(program.edges.begin(), program.edges.end(),
                       [](const Edge& e) { return e.reuse; });
}

TEST(Place, PersistentBuffersAreStackedAndTheOthersShare) {
  Job job = chain();
  place(job, {.slack = 0});
  EXPECT_TRUE(job.placed);
  const Placement& placement = job.classes[0].placement;
  ASSERT_EQ(placement.offset.size(), 6u);
  EXPECT_EQ(placement.offset[2], Bytes{0});
  EXPECT_EQ(placement.offset[5], Bytes{0});
  EXPECT_EQ(placement.live_peak[0], 3 * kSlot);  // param and two of the chain
  EXPECT_EQ(placement.slab[0], 3 * kSlot);
  EXPECT_EQ(placement.slab[1], kSlot);
  EXPECT_EQ(placement.slab[2], Bytes{0});
}

TEST(Place, OrdersTheUsersOfSharedBytes) {
  Job job = chain();
  EXPECT_EQ(reuse_edges(job.classes[0].program), 0);
  place(job, {.slack = 0});
  EXPECT_GT(reuse_edges(job.classes[0].program), 0);
}

TEST(Place, SlackBuysRangesOfTheirOwn) {
  Job job = chain();
  place(job, {.slack = 1.0});
  const Placement& placement = job.classes[0].placement;
  EXPECT_EQ(placement.live_peak[0], 3 * kSlot);
  EXPECT_EQ(placement.slab[0], 5 * kSlot);
  EXPECT_EQ(reuse_edges(job.classes[0].program), 0);
}

TEST(Place, SlackIsNotExceeded) {
  Job job = chain();
  place(job, {.slack = 0.3333});  // a few bytes less than a slot
  const Placement& placement = job.classes[0].placement;
  EXPECT_EQ(placement.live_peak[0], 3 * kSlot);
  EXPECT_LT(placement.slab[0], 4 * kSlot);
}

// Which of two buffers lives first does not depend on which was declared first.
TEST(Place, TheUserThatComesLaterWaitsForTheEarlierOne) {
  ProgramBuilder out;
  const auto add = [&](const char* name) { return out.add({.name = name, .slot_size = kSlot}); };
  const BufferId late = add("late"), early = add("early");
  out.kernel(role(Part::kQkv), Lane::kCommReduce, KernelId::kFillZero, {write(view(early))});
  out.kernel(role(Part::kFc1), Lane::kCompute, KernelId::kFillZero, {write(view(late))});
  Job job;
  job.classes.emplace_back();
  job.classes[0].program = out.finish();
  place(job, {.slack = 0});
  const Program& program = job.classes[0].program;
  ASSERT_EQ(job.classes[0].placement.slab[0], kSlot);
  const auto within_step = [&](NodeIndex node) {
    const auto edges = program.after(program.nodes[node]);
    return std::count_if(edges.begin(), edges.end(),
                         [](const Edge& e) { return e.reuse && e.delta == 0; });
  };
  EXPECT_EQ(within_step(0), 0);
  EXPECT_EQ(within_step(1), 1);
}

TEST(Place, PersistentBuffersTakeAllTheirSlots) {
  ProgramBuilder out;
  const auto add = [&](std::int32_t slots) {
    return out.add({.name = "state", .slot_size = kSlot, .slots = slots, .persistent = true});
  };
  const BufferId ring = add(3), next = add(1);
  out.kernel(role(Part::kQkv), Lane::kCompute, KernelId::kFillZero, {write(view(ring))});
  out.kernel(role(Part::kQkv), Lane::kCompute, KernelId::kFillZero, {write(view(next))});
  Job job;
  job.classes.emplace_back();
  job.classes[0].program = out.finish();
  place(job);
  EXPECT_EQ(job.classes[0].placement.offset, (std::vector<Bytes>{Bytes{0}, 3 * kSlot}));
  EXPECT_EQ(job.classes[0].placement.slab[0], 4 * kSlot);
}

// Nine persistent buffers of 1 to 9 slots.
TEST(MemoryReport, NamesTheEightLargestWithAllTheirSlots) {
  ProgramBuilder out;
  for (std::int32_t slots = 1; slots <= 9; ++slots) {
    const BufferId id = out.add({.name = std::to_string(slots),
                                 .slot_size = kSlot,
                                 .slots = slots,
                                 .category = Category::kOptimizer,
                                 .persistent = true});
    out.kernel(role(Part::kQkv), Lane::kCompute, KernelId::kFillZero, {write(view(id))});
  }
  Job job;
  job.classes.emplace_back();
  job.classes[0].program = out.finish();
  const MemoryReport report = measure(job);
  const TierMemory& gpu = report.classes[0].tiers[0];
  EXPECT_EQ(gpu.by_category[static_cast<std::size_t>(Category::kOptimizer)], 45 * kSlot);
  ASSERT_EQ(gpu.largest.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(gpu.largest[i].name, std::to_string(9 - i));
}

TEST(MemoryReport, SplitsThePeakByCategoryAndNamesItsOp) {
  Job job = chain();
  const MemoryReport before = measure(job);
  const TierMemory& gpu = before.classes[0].tiers[0];
  EXPECT_EQ(gpu.slab, Bytes{0});
  EXPECT_EQ(gpu.live_peak, 3 * kSlot);
  EXPECT_EQ(gpu.peak_op, "forward.fc1.compute");
  EXPECT_EQ(gpu.by_category[static_cast<std::size_t>(Category::kParameters)], kSlot);
  EXPECT_EQ(gpu.by_category[static_cast<std::size_t>(Category::kGathered)], kSlot);
  EXPECT_EQ(gpu.by_category[static_cast<std::size_t>(Category::kActivations)], kSlot);
  ASSERT_EQ(gpu.largest.size(), 3u);
  EXPECT_EQ(gpu.largest[0].name, "a");
  EXPECT_EQ(before.classes[0].tiers[2].peak_op, "");

  place(job, {.slack = 0});
  const MemoryReport after = measure(job);
  const TierMemory& placed = after.classes[0].tiers[0];
  EXPECT_EQ(placed.slab, 3 * kSlot);
  EXPECT_EQ(placed.live_peak, gpu.live_peak);
  EXPECT_DOUBLE_EQ(placed.slab_over_live_peak(), 1.0);
}

}  // namespace
}  // namespace zplan
