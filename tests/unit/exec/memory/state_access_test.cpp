#include "exec/memory/state_access.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "exec/memory/initial_state.h"
#include "planner/core/error.h"
#include "tests/support/meshes.h"
#include "tests/unit/exec/mini_job.h"

namespace zplan::exec {
namespace {

// Two stages of two layers each, one unit per layer of two tensors.
Job layered_job() {
  Job job;
  job.mesh = testing_support::mesh_of({.pp = 2});
  job.kernel_set = "cpu.f64";
  Unit unit;
  unit.name = "layer";
  unit.per_layer = true;
  unit.elements = 6;
  unit.shard_elements = unit.flat_elements = 8;
  unit.tensors = {{.name = "h.{}.w", .shape = {2, 2}, .init = Init::kNormal, .init_std = 1},
                  {.name = "h.{}.b", .shape = {2}, .init = Init::kOne, .offset = 4}};
  job.units = {unit};
  for (std::int32_t stage = 0; stage < 2; ++stage) {
    RankClass c;
    c.stage = stage;
    c.layers = {{2 * stage, 2}};
    c.program.blocks.push_back({});
    c.program.buffers = {{.name = "w",
                          .slot_size = Bytes{256},
                          .slots = 2,
                          .dtype = DType::kF64,
                          .persistent = true}};
    c.homes = {{0, {0}, {0}, {{0}, {0}}}};
    c.placement.offset = {Bytes{0}};
    c.placement.slab[0] = Bytes{512};
    job.classes.push_back(c);
  }
  job.placed = true;
  return job;
}

std::vector<RankMemory> parameters_of(const Job& job) {
  std::vector<RankMemory> memory;
  for (std::int32_t rank = 0; rank < job.world(); ++rank) {
    memory.emplace_back(job, rank);
    const UnitHome& home = memory.back().rank_class().homes[0];
    for (const StatePiece& piece : state_pieces(job, memory.back(), home, State::kParam)) {
      std::vector<double> values(static_cast<std::size_t>(piece.elements));
      draw_parameters(job.units[0], {.layer = piece.layer}, 1, piece.first, values);
      std::copy(values.begin(), values.end(),
                reinterpret_cast<double*>(memory.back().slot_address(piece.buffer, piece.slot)));
    }
  }
  return memory;
}

TEST(StateAccess, ListsEveryTensorOnceWithItsLayer) {
  const Job job = layered_job();
  std::vector<std::string> names;
  for (const TensorRef& ref : all_tensors(job)) names.push_back(tensor_name(job, ref));
  EXPECT_EQ(names, (std::vector<std::string>{"h.0.w", "h.0.b", "h.1.w", "h.1.b", "h.2.w", "h.2.b",
                                             "h.3.w", "h.3.b"}));
}

TEST(StateAccess, FindsTheStageThatHoldsALayer) {
  const Job job = layered_job();
  const std::vector<RankMemory> memory = parameters_of(job);
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    std::vector<double> expected(4);
    draw_parameters(job.units[0], {.layer = layer}, 1, 0, expected);
    EXPECT_EQ(read_tensor(job, memory, {0, 0, layer}), expected);
    EXPECT_EQ(read_tensor(job, memory, {0, 1, layer}), (std::vector<double>{1, 1}));
  }
  EXPECT_THROW(read_tensor(job, memory, {0, 0, 4}), Error);
}

TEST(LargestDifference, NamesTheElementThatDiffersMost) {
  const Job job = layered_job();
  const std::vector<RankMemory> a = parameters_of(job), b = parameters_of(job);
  EXPECT_FALSE(largest_difference(job, a, job, b).has_value());
  auto* layer3 = reinterpret_cast<double*>(b[1].slot_address(0, 1));
  layer3[2] += 0.25;
  layer3[4] -= 0.5;
  auto found = largest_difference(job, a, job, b);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->tensor, "h.3.b");
  EXPECT_EQ(found->element, 0);
  EXPECT_EQ(found->first, 1.0);
  EXPECT_EQ(found->second, 0.5);
  layer3[1] = std::numeric_limits<double>::quiet_NaN();
  found = largest_difference(job, a, job, b);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->tensor, "h.3.w");
  EXPECT_TRUE(std::isnan(found->second));
}

TEST(LargestDifference, LooksAtEveryElementOfEveryTensor) {
  const Job job = layered_job();
  const std::vector<RankMemory> a = parameters_of(job);
  for (const TensorRef& ref : all_tensors(job)) {
    const Tensor& tensor = job.units[ref.unit].tensors[ref.tensor];
    for (std::int64_t i = 0; i < tensor.shape.elements(); ++i) {
      const std::vector<RankMemory> b = parameters_of(job);
      const auto stage = static_cast<std::size_t>(ref.layer / 2);
      auto* values = reinterpret_cast<double*>(b[stage].slot_address(0, ref.layer % 2));
      values[tensor.offset + i] += 0.25;
      const auto found = largest_difference(job, a, job, b);
      ASSERT_TRUE(found.has_value()) << tensor_name(job, ref) << "[" << i << "]";
      EXPECT_EQ(found->tensor, tensor_name(job, ref));
      EXPECT_EQ(found->element, i);
    }
  }
}

TEST(LargestDifference, OfBitsSeesTheSignOfZero) {
  const Job job = layered_job();
  const std::vector<RankMemory> a = parameters_of(job), b = parameters_of(job);
  reinterpret_cast<double*>(a[0].slot_address(0, 0))[4] = 0.0;
  reinterpret_cast<double*>(b[0].slot_address(0, 0))[4] = -0.0;
  EXPECT_FALSE(largest_difference(job, a, job, b).has_value());
  const auto found = largest_difference(job, a, job, b, State::kParam, Equality::kBits);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->tensor, "h.0.b");
}

TEST(LargestDifference, RefusesDifferentModels) {
  const Job job = layered_job();
  const std::vector<RankMemory> memory = parameters_of(job);
  Job other = layered_job();
  other.units[0].tensors.pop_back();
  EXPECT_THROW(largest_difference(job, memory, other, memory), Error);
  EXPECT_THROW(largest_difference(other, memory, job, memory), Error);
}

}  // namespace
}  // namespace zplan::exec
