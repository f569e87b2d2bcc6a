#include "exec/memory/initial_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "exec/memory/state_access.h"
#include "tests/unit/exec/golden_file.h"
#include "tests/unit/exec/mini_job.h"

namespace zplan::exec {
namespace {

using testing::mini_job;

Unit sample_unit() {
  Unit unit;
  unit.per_layer = true;
  unit.tensors = {
      {.name = "h.{}.w", .shape = {5, 7}, .init = Init::kNormal, .init_std = 0.5, .offset = 0},
      {.name = "h.{}.gain", .shape = {7}, .init = Init::kOne, .offset = 40},
      {.name = "h.{}.bias", .shape = {7}, .init = Init::kZero, .offset = 47}};
  return unit;
}

std::vector<double> drawn(const Unit& unit, std::int64_t layer, std::uint64_t seed,
                          std::int64_t first, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count), 99.0);
  draw_parameters(unit, {.layer = layer}, seed, first, values);
  return values;
}

TEST(DrawParameters, AnySliceEqualsTheWhole) {
  const Unit unit = sample_unit();
  const std::vector<double> whole = drawn(unit, 3, 17, 0, 64);
  for (std::int64_t first = 0; first < 64; ++first) {
    for (std::int64_t count = 0; first + count <= 64; ++count) {
      const std::vector<double> slice = drawn(unit, 3, 17, first, count);
      ASSERT_TRUE(std::equal(slice.begin(), slice.end(), whole.begin() + first));
    }
  }
}

TEST(DrawParameters, FollowsTheInitialisersAndLeavesPaddingZero) {
  const std::vector<double> values = drawn(sample_unit(), 0, 1, 0, 64);
  for (std::size_t i = 0; i < 35; ++i) EXPECT_NE(values[i], 0.0);
  for (std::size_t i = 35; i < 64; ++i) EXPECT_EQ(values[i], i >= 40 && i < 47 ? 1.0 : 0.0) << i;
}

TEST(DrawParameters, DependsOnSeedAndLayer) {
  const Unit unit = sample_unit();
  EXPECT_NE(drawn(unit, 0, 1, 0, 1), drawn(unit, 1, 1, 0, 1));
  EXPECT_NE(drawn(unit, 0, 1, 0, 1), drawn(unit, 0, 2, 0, 1));
}

TEST(DrawParameters, OfAMemberAreThoseOfItsLayer) {
  Unit unit = sample_unit();
  const std::vector<double> third = drawn(unit, 2, 1, 0, 35);
  unit.tensors[0].member = 2;
  EXPECT_EQ(drawn(unit, 0, 1, 0, 35), third);
}

TEST(DrawParameters, AgreesWithTheGoldenRun) {
  const testing::GoldenFile golden = testing::load_golden();
  int compared = 0;
  for (const testing::GoldenTensor& tensor : golden.tensors) {
    const bool is_matrix = tensor.shape.rank == 2;
    if (tensor.kind != "initial_parameter" || !is_matrix) continue;
    const bool is_projection = tensor.name.find("c_proj") != std::string::npos;
    const double std =
        golden.init_std *
        (is_projection ? 1 / std::sqrt(2.0 * static_cast<double>(golden.layers)) : 1);
    Unit unit;
    unit.tensors = {
        {.name = tensor.name, .shape = tensor.shape, .init = Init::kNormal, .init_std = std}};
    const std::vector<double> values = drawn(unit, 0, golden.seed, 0, tensor.shape.elements());
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], tensor.values[i], 1e-15) << tensor.name << " " << i;
    ++compared;
  }
  EXPECT_GE(compared, 8);
}

std::vector<RankMemory> initial_memory(const Job& job) {
  std::vector<RankMemory> memory;
  for (std::int32_t rank = 0; rank < job.world(); ++rank) {
    memory.emplace_back(job, rank);
    initialise_states(job, 5, memory.back());
  }
  return memory;
}

TEST(InitialiseStates, GivesTheSameValuesUnderEverySharding) {
  const Job whole = mini_job({.dp = 1});
  const std::vector<RankMemory> expected = initial_memory(whole);
  for (const testing::MiniOptions& options : std::vector<testing::MiniOptions>{
           {.dp = 3, .global_batch = 3, .shard_optimizer = true}, {.dp = 2, .pp = 2}}) {
    const Job job = mini_job(options);
    const std::vector<RankMemory> memory = initial_memory(job);
    for (State state : kStates)
      EXPECT_FALSE(largest_difference(job, memory, whole, expected, state).has_value());
  }
}

TEST(InitialiseStates, MasterEqualsParametersAndMomentsAreZero) {
  const Job job = mini_job({.dp = 2, .shard_optimizer = true});
  const std::vector<RankMemory> memory = initial_memory(job);
  EXPECT_EQ(read_tensor(job, memory, {0, 0, 0}, State::kMaster),
            read_tensor(job, memory, {0, 0, 0}, State::kParam));
  for (State state : {State::kMoment1, State::kMoment2})
    for (double moment : read_tensor(job, memory, {0, 0, 0}, state)) ASSERT_EQ(moment, 0.0);
}

TEST(InitialiseStates, SinglePrecisionIsTheRoundedDraw) {
  const Job single = mini_job({.kernel_set = "cpu.f32"}), twice = mini_job({});
  const std::vector<double> rounded = read_tensor(single, initial_memory(single), {0, 0, 0});
  const std::vector<double> exact = read_tensor(twice, initial_memory(twice), {0, 0, 0});
  for (std::size_t i = 0; i < exact.size(); ++i)
    ASSERT_EQ(rounded[i], static_cast<double>(static_cast<float>(exact[i])));
}

TEST(InitialiseStates, ReplicasAreEqual) {
  const Job job = mini_job({.dp = 2, .pp = 2, .shard_optimizer = true});
  const std::vector<RankMemory> memory = initial_memory(job);
  EXPECT_FALSE(replica_mismatch(job, memory).has_value());
  const UnitHome& home = job.classes[1].homes[0];
  memory[3].slot_address(home.moments[0].buffer, 0)[8] = std::byte{1};
  EXPECT_EQ(replica_mismatch(job, memory),
            "moment1 of embedding, layer 0: rank 1 and rank 3 hold different values");
}

}  // namespace
}  // namespace zplan::exec
