#include "planner/place/allocator_replay.h"

#include <gtest/gtest.h>

#include "planner/lower/lower.h"
#include "planner/place/held_besides.h"
#include "planner/place/lifetime.h"
#include "planner/place/place.h"
#include "tests/support/sample_job.h"

namespace zplan {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

Role role(Phase phase, Part part) { return {phase, part, Action::kCompute}; }

Job job_of(SampleBuilder& builder, std::int64_t micro_steps = 1) {
  Job job;
  job.kernel_set = "cuda.sm90.bf16";
  job.micro_steps = micro_steps;
  RankClass own;
  own.program = builder.finish();
  job.classes.push_back(std::move(own));
  return job;
}

// Of as many bytes as MiB are said.
View mebibytes(BufferId buffer, Access access, std::int64_t n, SlotExpr slot = {}) {
  return sample_view(buffer, access, {n, kMiB / 4}, slot);
}

TEST(AllocatorReplay, ABufferIsHeldFromItsFirstUseToItsLast) {
  SampleBuilder b;
  const BufferId state = b.buffer("state", 4 * kMiB, 2, Category::kParameters, true);
  const BufferId x = b.buffer("x", 32 * kMiB, 1, Category::kActivations);
  const BufferId y = b.buffer("y", 64 * kMiB, 1, Category::kActivations);
  const Role r = role(Phase::kForward, Part::kLayer);
  b.kernel(r, Lane::kCompute, KernelId::kFillZero, {mebibytes(x, Access::kWrite, 32)});
  b.kernel(r, Lane::kCompute, KernelId::kAccumulate,
           {mebibytes(x, Access::kRead, 32), mebibytes(state, Access::kUpdate, 4)});
  b.kernel(r, Lane::kCompute, KernelId::kFillZero, {mebibytes(y, Access::kWrite, 64)});
  const Job job = job_of(b);
  const auto replay = replay_allocator(job, 0, {});
  ASSERT_TRUE(replay);
  EXPECT_EQ(replay->live, Bytes{(8 + 64) * kMiB}) << "x and y are never there together";
  EXPECT_EQ(replay->requests, 3);
  EXPECT_EQ(replay->allocated, replay->live);
  EXPECT_EQ(replay->reserved, Bytes{(20 + 32 + 64) * kMiB}) << "the segment of x is kept";
}

TEST(AllocatorReplay, WritingOverContentIsANewRequestAndWritingBesideItIsNot) {
  const auto requests = [](std::int64_t second_offset, Access access) {
    SampleBuilder b;
    const BufferId x = b.buffer("x", 8 * kMiB, 1, Category::kActivations);
    const Role r = role(Phase::kForward, Part::kLayer);
    const View half = sample_view(x, Access::kWrite, {kMiB});
    View second = sample_view(x, access, {kMiB}, {}, second_offset);
    b.kernel(r, Lane::kCompute, KernelId::kFillZero, {half});
    b.kernel(r, Lane::kCompute, KernelId::kFillZero, {second});
    return replay_allocator(job_of(b), 0, {})->requests;
  };
  EXPECT_EQ(requests(4 * kMiB, Access::kWrite), 1);
  EXPECT_EQ(requests(0, Access::kWrite), 2);
  EXPECT_EQ(requests(0, Access::kUpdate), 1);
  EXPECT_EQ(requests(0, Access::kScratch), 2);
}

// One kernel of backward, one of the norm and two of the update, which hold 8, 32, 16 and 64 MiB.
Job norm_and_update() {
  SampleBuilder b;
  const auto kernel = [&](Phase phase, std::int64_t n) {
    const BufferId x = b.buffer("x", n * kMiB, 1, Category::kActivations);
    b.kernel(role(phase, Part::kLayer), Lane::kCompute, KernelId::kFillZero,
             {mebibytes(x, Access::kWrite, n)});
  };
  kernel(Phase::kBackward, 8);
  kernel(Phase::kNorm, 32);
  kernel(Phase::kUpdate, 16);
  kernel(Phase::kUpdate, 64);
  return job_of(b);
}

TEST(AllocatorReplay, WhatComesBeforeTheUpdateIsWithoutTheNormOfGradients) {
  const auto replay = replay_allocator(norm_and_update(), 0, {});
  EXPECT_EQ(replay->before_update, Bytes{8 * kMiB});
  EXPECT_EQ(replay->live, Bytes{64 * kMiB});
}

// A parameter of one element that this GPU updates.
TEST(AllocatorReplay, WhatAnUpdateHoldsStaysUntilItsLastKernel) {
  Job job = norm_and_update();
  RankClass& own = job.classes.front();
  Buffer state;
  state.slot_size = Bytes{256};
  state.persistent = true;
  own.program.buffers.push_back(state);
  const auto id = static_cast<BufferId>(own.program.buffers.size() - 1);
  UnitHome& home = own.homes.emplace_back();
  home.param.buffer = home.master.buffer = id;
  job.units.emplace_back();
  EXPECT_EQ(updated_parameters(own), 256 / 4);
  EXPECT_EQ(replay_allocator(job, 0, {.update = kMiB / 8})->live, Bytes{(64 + 8) * kMiB + 256});
  home.is_frozen = true;
  EXPECT_EQ(updated_parameters(own), 0);
  home.is_frozen = false;
  own.program.buffers[id].tier = Tier::kCpu;
  EXPECT_EQ(updated_parameters(own), 0) << "the CPU updates it";
}

TEST(AllocatorReplay, ScratchOfKernelsCountsOnlyWhereTheFrameworkHasNoneOfItsOwn) {
  SampleBuilder b;
  const BufferId scratch = b.buffer("scratch", 32 * kMiB, 1, Category::kWorkspace);
  b.kernel(role(Phase::kForward, Part::kLayer), Lane::kCompute, KernelId::kFillZero,
           {mebibytes(scratch, Access::kScratch, 32)});
  const Job job = job_of(b);
  EXPECT_EQ(replay_allocator(job, 0, {.own_workspace = true})->live, Bytes{32 * kMiB});
  EXPECT_EQ(replay_allocator(job, 0, {.own_workspace = false})->live, Bytes{0});
}

// 16 MiB of logits and their copy, then 32 MiB.
TEST(AllocatorReplay, OfEqualPeaksTheFirstOneIsSplit) {
  SampleBuilder b;
  const BufferId logits = b.buffer("logits", 16 * kMiB, 1, Category::kActivations);
  const BufferId x = b.buffer("x", 32 * kMiB, 1, Category::kActivations);
  b.kernel(role(Phase::kForward, Part::kLoss), Lane::kCompute, KernelId::kCrossEntropy,
           {mebibytes(logits, Access::kWrite, 16)});
  b.kernel(role(Phase::kBackward, Part::kHead), Lane::kCompute, KernelId::kFillZero,
           {mebibytes(x, Access::kWrite, 32)});
  const auto replay = replay_allocator(job_of(b), 0, {.loss = 4});
  EXPECT_EQ(replay->live, Bytes{32 * kMiB});
  EXPECT_EQ(replay->at_peak[static_cast<std::size_t>(Holder::kLoss)], Bytes{16 * kMiB});
}

TEST(AllocatorReplay, EachCopyOfLogitsIsInFp32) {
  SampleBuilder b;
  const BufferId logits = b.buffer("logits", 16 * kMiB, 1, Category::kActivations);
  b.kernel(role(Phase::kForward, Part::kLoss), Lane::kCompute, KernelId::kCrossEntropy,
           {mebibytes(logits, Access::kWrite, 16)});
  const auto replay = replay_allocator(job_of(b), 0, {.loss = 10});
  EXPECT_EQ(replay->live, Bytes{(16 + 40) * kMiB});
  EXPECT_EQ(replay->requests, 1 + 3) << "of 4, 4 and 2 bytes";
}

constexpr Role kGatherRanks{Phase::kForward, Part::kMlpNorm, Action::kGatherRanks};
constexpr Role kSumRanks{Phase::kForward, Part::kLayer, Action::kSumRanks};

// A product's 32 MiB, which ranks sum to 16 MiB, in each of `layers`.
Job summed_over_ranks(std::int32_t layers) {
  SampleBuilder b;
  for (std::int32_t i = 0; i < layers; ++i) {
    const BufferId whole = b.buffer("whole", 32 * kMiB, 1, Category::kActivations);
    const BufferId sum = b.buffer("sum", 16 * kMiB, 1, Category::kActivations);
    b.kernel(role(Phase::kForward, Part::kLayer), Lane::kCompute, KernelId::kFillZero,
             {mebibytes(whole, Access::kWrite, 32)});
    b.node({.role = kSumRanks, .kind = OpKind::kCollective, .lane = Lane::kCommTensor},
           {mebibytes(whole, Access::kRead, 32), mebibytes(sum, Access::kWrite, 16)});
  }
  return job_of(b);
}

// A launch for each of two nodes of a layer; a queue of three is as long as the next layer.
TEST(AllocatorReplay, WhatCollectivesUseIsNotFreeBeforeTheDeviceComesToItsRelease) {
  const Job job = summed_over_ranks(4);
  const auto held = [&](double queue) {
    return replay_allocator(job, 0, {.launches = std::vector<double>(8, 1), .queue = queue});
  };
  const auto once = replay_allocator(job, 0, {});
  EXPECT_EQ(once->reserved, Bytes{48 * kMiB});
  EXPECT_EQ(held(0)->reserved, once->reserved);
  EXPECT_EQ(held(3)->reserved, 2 * once->reserved);
  EXPECT_EQ(held(1000)->reserved, 4 * once->reserved);
  EXPECT_EQ(held(1000)->live, once->live);
  EXPECT_EQ(held(1000)->allocated, once->allocated) << "released, which is what PyTorch counts";
}

TEST(AllocatorReplay, WhenMemoryRunsOutTheHostWaitsForTheDevice) {
  const auto replay =
      replay_allocator(summed_over_ranks(4), 0,
                       {.launches = std::vector<double>(8, 1), .queue = 1000, .gives_back = true});
  EXPECT_EQ(replay->reserved, Bytes{4 * 48 * kMiB});
  EXPECT_EQ(replay->least, replay->allocated);
}

// 64 MiB in one piece and in two of 40 MiB, of which the first stays in a segment of 64.
TEST(AllocatorReplay, WhatIsCutUpCannotBeGivenBack) {
  SampleBuilder b;
  const BufferId large = b.buffer("large", 64 * kMiB, 1, Category::kActivations);
  const BufferId kept = b.buffer("kept", 40 * kMiB, 1, Category::kActivations);
  const BufferId other = b.buffer("other", 40 * kMiB, 1, Category::kActivations);
  const Role r = role(Phase::kForward, Part::kLayer);
  b.kernel(r, Lane::kCompute, KernelId::kFillZero, {mebibytes(large, Access::kWrite, 64)});
  b.kernel(r, Lane::kCompute, KernelId::kFillZero, {mebibytes(kept, Access::kWrite, 40)});
  b.kernel(r, Lane::kCompute, KernelId::kAccumulate,
           {mebibytes(kept, Access::kRead, 40), mebibytes(other, Access::kWrite, 40)});
  const Job job = job_of(b);
  const auto replay = replay_allocator(job, 0, {.gives_back = true});
  EXPECT_EQ(replay->allocated, Bytes{80 * kMiB});
  EXPECT_EQ(replay->reserved, Bytes{104 * kMiB});
  EXPECT_LE(replay->least, replay->reserved);
  EXPECT_GE(replay->least * 100, replay->reserved * 99) << "the segment of 64 MiB is in use";
  EXPECT_EQ(replay_allocator(job, 0, {})->least, replay->allocated) << "not said to give back";
}

TEST(AllocatorReplay, WhatRanksGatherComesIntoBuffersThatStay) {
  SampleBuilder b;
  const BufferId part = b.buffer("part", 4 * kMiB, 1, Category::kActivations);
  const Role r = role(Phase::kForward, Part::kLayer);
  for (const std::int64_t size : {32, 64}) {
    const BufferId whole = b.buffer("whole", size * kMiB, 1, Category::kActivations);
    b.kernel(r, Lane::kCompute, KernelId::kFillZero, {mebibytes(part, Access::kWrite, 4)});
    b.node({.role = kGatherRanks, .kind = OpKind::kCollective, .lane = Lane::kCommTensor},
           {mebibytes(part, Access::kRead, 4), mebibytes(whole, Access::kWrite, size)});
  }
  const Job job = job_of(b);
  EXPECT_EQ(replay_allocator(job, 0, {})->live, Bytes{(4 + 64) * kMiB});
  EXPECT_EQ(replay_allocator(job, 0, {.gather_buffers = 2})->live, Bytes{(4 + 2 * 64) * kMiB});
}

// A quarter of 8 Mi parameters is updated here.
TEST(AllocatorReplay, UpdatedParametersAreGatheredInOnePieceAtTheEnd) {
  SampleBuilder b;
  const BufferId param = b.buffer("param", 32 * kMiB, 1, Category::kParameters, true);
  b.kernel(role(Phase::kUpdate, Part::kLayer), Lane::kCompute, KernelId::kFillZero,
           {mebibytes(param, Access::kWrite, 8)});
  b.node({.role = {Phase::kUpdate, Part::kLayer, Action::kGather},
          .kind = OpKind::kCollective,
          .lane = Lane::kCommGather},
         {mebibytes(param, Access::kRead, 8), mebibytes(param, Access::kWrite, 32)});
  const Job job = job_of(b);
  EXPECT_EQ(replay_allocator(job, 0, {})->live, Bytes{32 * kMiB});
  EXPECT_EQ(replay_allocator(job, 0, {.update_gather = 2})->live, Bytes{(32 + 16) * kMiB});
}

TEST(AllocatorReplay, ReplayedLayersKeepCopiesTooAndBackwardDoesNot) {
  const auto copies = [](Phase phase) {
    SampleBuilder b;
    const BufferId y = b.buffer("y", 16 * kMiB, 1, Category::kActivations);
    b.kernel(role(phase, Part::kMlpNorm), Lane::kCompute, KernelId::kRmsNormForward,
             {mebibytes(y, Access::kWrite, 16)});
    const auto replay = replay_allocator(job_of(b), 0, {.rms_norm = 4});
    return replay->at_peak[static_cast<std::size_t>(Holder::kRmsNorm)];
  };
  EXPECT_EQ(copies(Phase::kForward), Bytes{16 * kMiB});
  EXPECT_EQ(copies(Phase::kRecompute), Bytes{16 * kMiB});
  EXPECT_EQ(copies(Phase::kBackward), Bytes{0});
}

// Gradients of two layers, of 16 MiB each, leave one after the other; between them a kernel holds
// 64 MiB.
TEST(AllocatorReplay, WhatGradientsLeaveFromStaysUntilTheNextOnesLeave) {
  SampleBuilder b;
  const Role cast{Phase::kBackward, Part::kLayer, Action::kCastGradient};
  const BufferId whole = b.buffer("whole", kMiB, 1, Category::kGradients, true);
  const auto leave = [&] {
    const BufferId sent = b.buffer("sent", 16 * kMiB, 1, Category::kGathered);
    b.kernel(cast, Lane::kCompute, KernelId::kCast,
             {mebibytes(whole, Access::kRead, 1), mebibytes(sent, Access::kWrite, 16)});
  };
  leave();
  const BufferId x = b.buffer("x", 64 * kMiB, 1, Category::kActivations);
  b.kernel(role(Phase::kBackward, Part::kLayer), Lane::kCompute, KernelId::kFillZero,
           {mebibytes(x, Access::kWrite, 64)});
  leave();
  const Job job = job_of(b);
  EXPECT_EQ(replay_allocator(job, 0, {})->live, Bytes{(1 + 64) * kMiB});
  EXPECT_EQ(replay_allocator(job, 0, {.reduced_stay = true})->live, Bytes{(1 + 64 + 16) * kMiB});
}

// Slots that a loop fills are held one by one, not all from the start.
TEST(AllocatorReplay, SlotsAreHeldOneByOne) {
  SampleBuilder b;
  const BufferId x = b.buffer("x", 32 * kMiB, 4, Category::kActivations);
  const Role r = role(Phase::kForward, Part::kLayer);
  b.begin(4, Var::kLayer);
  b.kernel(r, Lane::kCompute, KernelId::kFillZero, {mebibytes(x, Access::kWrite, 32, {0, 0, 1})});
  b.end();
  EXPECT_EQ(replay_allocator(job_of(b), 0, {})->live, Bytes{32 * kMiB}) << "nobody reads it";
}

TEST(AllocatorReplay, HoldsWhatIsToldBesides) {
  SampleBuilder b;
  const BufferId logits = b.buffer("logits", 16 * kMiB, 1, Category::kActivations);
  const BufferId x = b.buffer("x", kMiB, 1, Category::kActivations);
  b.kernel(role(Phase::kForward, Part::kHead), Lane::kCompute, KernelId::kHeadForward,
           {mebibytes(logits, Access::kWrite, 16)});
  b.kernel(role(Phase::kForward, Part::kLoss), Lane::kCompute, KernelId::kCrossEntropy,
           {mebibytes(logits, Access::kUpdate, 16)});
  b.kernel(role(Phase::kBackward, Part::kHead), Lane::kCompute, KernelId::kFillZero,
           {mebibytes(logits, Access::kRead, 16), mebibytes(x, Access::kWrite, 1)});
  const Job job = job_of(b);
  const auto plain = replay_allocator(job, 0, {});
  EXPECT_EQ(plain->live, Bytes{17 * kMiB});
  // 4 Mi logits of 4 bytes.
  const auto more = replay_allocator(job, 0, {.always = Bytes{2 * kMiB}, .loss = 4});
  EXPECT_EQ(more->live, Bytes{(16 + 16 + 2) * kMiB}) << "not beside what comes after the loss";
  EXPECT_EQ(more->at_peak[static_cast<std::size_t>(Holder::kLoss)], Bytes{16 * kMiB});
  EXPECT_EQ(more->at_peak[static_cast<std::size_t>(Holder::kAlways)], Bytes{2 * kMiB});
}

TEST(AllocatorReplay, TheLossOfEachMicroStepHasACopyOfItsOwn) {
  SampleBuilder b;
  const BufferId logits = b.buffer("logits", 16 * kMiB, 1, Category::kActivations);
  b.begin(2, Var::kMicro);
  b.kernel(role(Phase::kForward, Part::kHead), Lane::kCompute, KernelId::kHeadForward,
           {mebibytes(logits, Access::kWrite, 16)});
  b.kernel(role(Phase::kForward, Part::kLoss), Lane::kCompute, KernelId::kCrossEntropy,
           {mebibytes(logits, Access::kUpdate, 16)});
  b.end();
  const Job job = job_of(b, 2);
  const auto requests = [&](const HeldBesides& besides) {
    return replay_allocator(job, 0, besides)->requests;
  };
  EXPECT_EQ(requests({.loss = 4}) - requests({}), 2);
}

class OfPlans : public testing::Test {
 protected:
  static Job job(const Plan& plan) {
    Job job = lower(plan, model());
    place(job, {.slack = plan.slack});
    return job;
  }
  static ModelConfig model() { return load_model("gpt2-124m"); }
  static Plan plan() {
    Plan plan;
    plan.model = "gpt2-124m";
    plan.kernel_set = "cuda.sm90.bf16";
    plan.precision = default_recipe(plan.kernel_set);
    plan.batch = {.global_batch = 8, .micro_batch = 2, .sequence = 1024};
    return plan;
  }
};

TEST_F(OfPlans, TheAllocatorHoldsNoMoreThanAllSlotsOfAllLifetimes) {
  for (const std::int32_t pp : {1, 2}) {
    Plan p = plan();
    p.parallel.pp = pp;
    const Job placed = job(p);
    const JobLifetimes lives = lifetimes(placed);
    for (std::size_t c = 0; c < placed.classes.size(); ++c) {
      const auto peaks = live_peaks(placed.classes[c].program, lives[c]);
      const auto replay = replay_allocator(placed, c, {});
      ASSERT_TRUE(replay);
      EXPECT_LE(replay->live, peaks[0].bytes);
      EXPECT_GT(replay->live.value, peaks[0].bytes.value * 9 / 10);
      EXPECT_LE(replay->live, replay->allocated);
      EXPECT_LE(replay->allocated, replay->reserved);
    }
  }
}

TEST_F(OfPlans, MoreMicroStepsChangeNothing) {
  Plan p = plan();
  p.parallel.pp = 2;
  p.batch.global_batch = 2 * 16;
  const auto few = replay_allocator(job(p), 0, {});
  p.batch.global_batch = 2 * 512;
  const auto many = replay_allocator(job(p), 0, {});
  EXPECT_EQ(few->live, many->live);
  EXPECT_EQ(few->reserved, many->reserved);
}

// Per layer that keeps it, and for the micro-batches in flight.
TEST_F(OfPlans, WhatStandsBesideALayerIsHeldPerLayer) {
  const std::int64_t elements = 2 * 1024 * 768, layers = 12;
  const auto beside = [&](const HeldBesides& besides, const Plan& p) {
    return replay_allocator(job(p), 0, besides)->live - replay_allocator(job(p), 0, {})->live;
  };
  EXPECT_EQ(beside({.residual = 2}, plan()), Bytes{2 * elements * layers});
  EXPECT_EQ(beside({.attention = 1}, plan()), Bytes{elements * layers});
  Plan replayed = plan();
  replayed.recompute = {{Recompute::kFull}};
  EXPECT_LE(beside({.residual = 2}, replayed), Bytes{2 * elements}) << "of the replayed layer";
}

class OfLlama : public testing::Test {
 protected:
  static ModelConfig model() { return load_model("llama3.2-1b"); }
  static Plan plan() {
    Plan plan;
    plan.model = "llama3.2-1b";
    plan.kernel_set = "cuda.sm90.bf16";
    plan.precision = *find_recipe("lean", plan.kernel_set);
    plan.gather = Gather::kLayer;
    plan.batch = {.global_batch = 1, .micro_batch = 1, .sequence = 1024};
    return plan;
  }
  static Plan sharded() {
    Plan sharded = plan();
    sharded.parallel.dp = 8;
    sharded.zero_stage = 3;
    sharded.precision = *find_recipe("fsdp", sharded.kernel_set);
    sharded.batch.global_batch = 8;
    return sharded;
  }
  static Bytes at_peak(const Plan& p, const HeldBesides& besides, Holder holder) {
    Job job = lower(p, model());
    place(job, {.slack = p.slack});
    return replay_allocator(job, 0, besides)->at_peak[static_cast<std::size_t>(holder)];
  }
};

// The loss comes when all layers are kept: much of it puts the peak there.
TEST_F(OfLlama, WhatModulesKeepIsHeldPerElementOfWhatTheirKernelsGive) {
  const ModelConfig m = model();
  const std::int64_t tokens = 1024, d = m.head_size();
  EXPECT_EQ(at_peak(plan(), {.loss = 60, .rms_norm = 4}, Holder::kRmsNorm),
            Bytes{4 * tokens * m.hidden * (2 * m.layers + 1)});
  EXPECT_EQ(at_peak(plan(), {.loss = 60, .gated = 2}, Holder::kGated),
            Bytes{2 * tokens * m.ffn * m.layers});
  EXPECT_EQ(at_peak(plan(), {.loss = 60, .fused_qkv = 2}, Holder::kFusedQkv),
            Bytes{2 * tokens * (m.heads + m.kv_heads) * d * m.layers});
  EXPECT_EQ(at_peak(plan(), {.loss = 60, .gelu = 6}, Holder::kGelu), Bytes{0}) << "there is none";
  Plan replayed = plan();
  replayed.recompute = {{Recompute::kFull}};
  EXPECT_EQ(at_peak(replayed, {.loss = 60, .rms_norm = 4}, Holder::kRmsNorm),
            Bytes{4 * tokens * m.hidden})
      << "only that behind the layers";
}

// The rows that experts give of all layers are there when the loss comes, k for each token.
TEST_F(OfLlama, WhatExpertsGiveIsNotKeptWhereWeightsMultiplyBeforeTheirSecondProduct) {
  ModelConfig m = model();
  m.experts = ExpertShape{.count = 8, .per_token = 2, .ffn = 1024};
  Job job = lower(plan(), m);
  place(job, {.slack = plan().slack});
  const auto live = [&](bool early) {
    return replay_allocator(job, 0, {.loss = 60, .early_weights = early})->live;
  };
  EXPECT_EQ(live(false) - live(true), Bytes{2 * 1024 * 2 * m.hidden * m.layers});
}

TEST_F(OfLlama, UnfusedAttentionKeepsScoresAndRepeatedKeys) {
  const ModelConfig m = model();
  const std::int64_t tokens = 1024, d = m.head_size(), pairs = m.heads * tokens * tokens;
  Plan unfused = plan();
  unfused.kernel_set = "cuda.sm90.bf16.unfused";
  EXPECT_EQ(at_peak(unfused, {.loss = 60, .scores = 4}, Holder::kScores),
            Bytes{4 * pairs * m.layers});
  EXPECT_EQ(at_peak(unfused, {.loss = 60, .repeated = 2}, Holder::kRepeated),
            Bytes{4 * tokens * (m.heads - m.kv_heads) * d * m.layers});
  EXPECT_EQ(at_peak(unfused, {.passes = 1000}, Holder::kPasses), Bytes{1000 * pairs})
      << "of one layer, while it goes backward";
}

// Tied: the table and the last norm are all that is outside the layers.
TEST_F(OfLlama, EndsStayGatheredAndLayersComeThroughABuffer) {
  const ModelConfig m = model();
  const std::int64_t ends = (m.vocab + 1) * m.hidden;
  EXPECT_EQ(at_peak(sharded(), {.loss = 60, .ends_stay = true}, Holder::kEnds), Bytes{2 * ends});
  EXPECT_EQ(at_peak(plan(), {.loss = 60, .ends_stay = true}, Holder::kEnds), Bytes{0})
      << "nothing is gathered";
  // With few tokens the step is fullest where the gradients of the ends leave, in four bytes each.
  Plan few = sharded();
  few.batch.sequence = 64;
  EXPECT_EQ(at_peak(few, {.ends_stay = true}, Holder::kEnds), Bytes{(2 + 4) * ends});
  const std::int64_t layer = (1'235'814'400 - ends) / m.layers;
  EXPECT_EQ(at_peak(sharded(), {.loss = 60, .gather = 2}, Holder::kGather), Bytes{2 * layer});
}

TEST_F(OfPlans, TheNormAndTheUpdateAreNotBeforeTheUpdate) {
  const Job placed = job(plan());
  const auto none = replay_allocator(placed, 0, {});
  const auto much = replay_allocator(placed, 0, {.update = 100});
  EXPECT_EQ(much->before_update, none->before_update);
  EXPECT_GT(much->live, none->live);
  EXPECT_LE(none->before_update, none->live);
}

TEST_F(OfPlans, UpdatesAndGradientsThatStay) {
  const Job placed = job(plan());
  const std::int64_t parameters = updated_parameters(placed.classes[0]);
  EXPECT_NEAR(static_cast<double>(parameters), 124e6, 1e6);
  const auto huge = replay_allocator(placed, 0, {.update = 100});
  const auto at = huge->at_peak[static_cast<std::size_t>(Holder::kUpdate)];
  EXPECT_EQ(at, Bytes{100 * parameters});
  Plan once = plan();
  once.batch.global_batch = once.batch.micro_batch;  // gradients fill while backward runs
  const auto lazy = replay_allocator(job(once), 0, {});
  const auto stay = replay_allocator(job(once), 0, {.gradients_stay = true});
  EXPECT_GT(stay->live.value - lazy->live.value, parameters) << "2 bytes each, most of them";
}

}  // namespace
}  // namespace zplan
