// Model states under every way to cut them: the same values, readable as global tensors.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "exec/memory/initial_state.h"
#include "exec/memory/state_access.h"
#include "exec/scalar.h"
#include "tests/unit/exec/memory/split_job.h"

namespace zplan::exec {
namespace {

using testing::split_job;
using testing::SplitOptions;

std::vector<RankMemory> initial_memory(const Job& job) {
  std::vector<RankMemory> memory;
  for (std::int32_t rank = 0; rank < job.world(); ++rank) {
    memory.emplace_back(job, rank, StorageOptions{.directory = ::testing::TempDir()});
    initialise_states(job, 5, memory.back());
  }
  return memory;
}

std::vector<SplitOptions> all_cuts() {
  std::vector<SplitOptions> cuts;
  for (std::int32_t tp : {1, 2, 4}) {
    for (std::int32_t tiles : {1, 2}) {
      for (std::int32_t shards : {1, 2, 4}) {
        for (Tier tier : {Tier::kGpu, Tier::kNvme})
          cuts.push_back({.dp = 4, .tp = tp, .shards = shards, .tiles = tiles, .tier = tier});
      }
    }
  }
  return cuts;
}

std::string name_of(const SplitOptions& o) {
  return "tp" + std::to_string(o.tp) + " tiles" + std::to_string(o.tiles) + " shards" +
         std::to_string(o.shards) + " " + std::string(name(o.tier));
}

TEST(SplitStates, HaveTheSameInitialValuesUnderEveryCut) {
  const Job whole = split_job({});
  const std::vector<RankMemory> expected = initial_memory(whole);
  for (const SplitOptions& cut : all_cuts()) {
    const Job job = split_job(cut);
    const std::vector<RankMemory> memory = initial_memory(job);
    for (State state : kStates) {
      EXPECT_FALSE(largest_difference(job, memory, whole, expected, state, Equality::kBits))
          << name_of(cut);
    }
    EXPECT_EQ(replica_mismatch(job, memory), std::nullopt) << name_of(cut);
  }
}

TEST(SplitStates, PaddedRowsAreZero) {
  const Job job = split_job({.tp = 4});  // 3 rows of 10 each: the last rank has one and two padded
  const std::vector<RankMemory> memory = initial_memory(job);
  const auto* rows = reinterpret_cast<const double*>(memory[3].slot_address(0, 0));
  for (std::int64_t i = 0; i < 12; ++i) EXPECT_EQ(rows[i] == 0, i >= 4) << i;
}

TEST(SplitStates, SixteenBitParametersAreTheirMastersRounded) {
  for (DType param : {DType::kBf16, DType::kF16}) {
    const Job job = split_job({.tp = 2, .param = param, .state = DType::kF32});
    const std::vector<RankMemory> memory = initial_memory(job);
    for (const TensorRef& ref : all_tensors(job)) {
      const std::vector<double> params = read_tensor(job, memory, ref, State::kParam);
      const std::vector<double> masters = read_tensor(job, memory, ref, State::kMaster);
      with_float_type(param, [&](auto type) {
        for (std::size_t i = 0; i < params.size(); ++i)
          ASSERT_EQ(params[i], static_cast<double>(rounded<decltype(type)>(masters[i])));
      });
    }
  }
}

TEST(SplitStates, ACopyThatDiffersIsNamed) {
  const Job job = split_job({.dp = 2, .tp = 2, .shards = 1});
  std::vector<RankMemory> memory = initial_memory(job);
  const UnitHome& split = job.classes[0].homes[1];
  memory[2].slot_address(split.master.buffer, 1)[8] ^= std::byte{1};
  EXPECT_EQ(replica_mismatch(job, memory),
            "master of layer.op, layer 1: rank 0 and rank 2 hold different values");
  memory[0].slot_address(split.master.buffer, 1)[8] ^= std::byte{1};
  EXPECT_EQ(replica_mismatch(job, memory), std::nullopt);
}

TEST(SplitStates, WhatTensorRanksShareMustBeEqual) {
  const Job job = split_job({.tp = 2});
  std::vector<RankMemory> memory = initial_memory(job);
  const UnitHome& shared = job.classes[0].homes[2];
  memory[1].slot_address(shared.param.buffer, 0)[16] ^= std::byte{1};
  EXPECT_EQ(replica_mismatch(job, memory),
            "param of layer.shared, layer 0: rank 0 and rank 1 hold different values");
}

}  // namespace
}  // namespace zplan::exec
