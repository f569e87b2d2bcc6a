#include "planner/plan/plan_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "planner/program/schedule/interleaved.h"
#include "planner/program/schedule/zero_bubble_v.h"
#include "tests/support/schedules.h"

namespace zplan {
namespace {

Plan plan_of(Schedule schedule, std::int32_t pp, std::int64_t micro_steps) {
  Plan plan;
  plan.schedule = schedule;
  plan.parallel = {.dp = 2, .pp = pp};
  plan.batch = {.global_batch = 2 * 3 * micro_steps, .micro_batch = 3};
  return plan;
}

TEST(PlanSchedule, IsTheOneThatThePlanNames) {
  EXPECT_EQ(testing_support::text_of(
                order_of_stage(plan_of(Schedule::kOneForwardOneBackward, 2, 3), 0).passes),
            "F0.0 F0.1 B0.0 F0.2 B0.1 B0.2");
  EXPECT_EQ(testing_support::text_of(order_of_stage(plan_of(Schedule::kGpipe, 2, 3), 0).passes),
            "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2");
}

TEST(PlanSchedule, TellsTheMicroBatchesInFlight) {
  using testing::ElementsAre;
  const auto of = [](std::int32_t piece, std::int64_t micro_batches) {
    return std::vector{PieceInFlight{piece, micro_batches}};
  };
  EXPECT_THAT(in_flight_of_stages(plan_of(Schedule::kOneForwardOneBackward, 4, 3)),
              ElementsAre(of(0, 3), of(1, 3), of(2, 2), of(3, 1)));
  EXPECT_THAT(in_flight_of_stages(plan_of(Schedule::kGpipe, 2, 3)),
              ElementsAre(of(0, 3), of(1, 3)));
}

TEST(PlanSchedule, OfChunksIsThatOfItsName) {
  Plan plan = plan_of(Schedule::kInterleaved, 4, 8);
  plan.parallel.chunks = 3;
  for (std::int32_t stage = 0; stage < 4; ++stage)
    EXPECT_EQ(order_of_stage(plan, stage).passes, interleaved_order(stage, 4, 3, 8).passes);
  EXPECT_EQ(pieces_of(plan).positions(), looped_chunks(4, 3).positions());
  EXPECT_EQ(plan.pieces(), 12);

  plan = plan_of(Schedule::kZeroBubbleV, 3, 6);
  for (std::int32_t stage = 0; stage < 3; ++stage)
    EXPECT_EQ(order_of_stage(plan, stage).passes, zero_bubble_v_order(stage, 3, 6).passes);
  EXPECT_EQ(pieces_of(plan).positions(), v_shaped_chunks(3, 2).positions());
  EXPECT_EQ(plan.pieces(), 6) << "as few chunks as it takes";
}

TEST(PlanSchedule, RunsEmptyAfterEachRound) {
  Plan plan = plan_of(Schedule::kOneForwardOneBackward, 2, 6);
  plan.parallel.flushes = 2;
  EXPECT_EQ(testing_support::text_of(order_of_stage(plan, 0).passes),
            "F0.0 F0.1 B0.0 F0.2 B0.1 B0.2 F0.3 F0.4 B0.3 F0.5 B0.4 B0.5");
  EXPECT_EQ(in_flight_of_stages(plan)[0][0].micro_batches, 2);
  EXPECT_EQ(most_in_flight(plan), 2);
  plan.schedule = Schedule::kGpipe;
  EXPECT_EQ(in_flight_of_stages(plan)[0][0].micro_batches, 3) << "of a round";
  EXPECT_EQ(most_in_flight(plan), 3);
}

TEST(PlanSchedule, RunsEmptyAtWholeMicroStepsOfAPipelineOnly) {
  const auto fault = [](Schedule schedule, std::int32_t pp, std::int32_t flushes) {
    Plan plan = plan_of(schedule, pp, 12);
    plan.parallel.flushes = flushes;
    return schedule_fault(plan).value_or("none");
  };
  EXPECT_EQ(fault(Schedule::kOneForwardOneBackward, 4, 12), "none");
  EXPECT_EQ(fault(Schedule::kOneForwardOneBackward, 4, 5),
            "5 rounds do not cut 12 micro-steps evenly; 4 would");
  EXPECT_EQ(fault(Schedule::kOneForwardOneBackward, 4, 13),
            "13 rounds do not cut 12 micro-steps evenly; 12 would");
  EXPECT_EQ(fault(Schedule::kOneForwardOneBackward, 1, 2),
            "2 rounds of a pipeline need pp > 1: one stage has no bubble");
  EXPECT_EQ(fault(Schedule::kDoubleBuffered, 4, 3),
            "schedule pipedream-2bw has one round in a step, not 3");
  EXPECT_EQ(fault(Schedule::kDualPipeV, 4, 2),
            "schedule dualpipe-v needs two micro-steps per stage: with pp 4 at least 8, not 6");
}

TEST(PlanSchedule, OfOnePieceAStageEndsInOrder) {
  for (const Schedule schedule : {Schedule::kOneForwardOneBackward, Schedule::kGpipe})
    EXPECT_TRUE(ends_in_order(plan_of(schedule, 4, 8)));
  for (const Schedule schedule : {Schedule::kInterleaved, Schedule::kZeroBubbleV})
    EXPECT_FALSE(ends_in_order(plan_of(schedule, 4, 8)));
}

TEST(PlanSchedule, SaysWhatItDoesNotGoWith) {
  const auto fault = [](Schedule schedule, const std::function<void(Plan&)>& change) {
    Plan plan = plan_of(schedule, 4, 8);
    change(plan);
    return schedule_fault(plan).value_or("none");
  };
  const auto chunks = [](std::int32_t n) { return [n](Plan& plan) { plan.parallel.chunks = n; }; };
  EXPECT_EQ(fault(Schedule::kOneForwardOneBackward, chunks(2)),
            "schedule 1f1b has one chunk per stage, not 2");
  EXPECT_EQ(fault(Schedule::kZeroBubbleV, chunks(3)),
            "schedule zb-v has 2 chunks per stage, not 3");
  EXPECT_EQ(fault(Schedule::kInterleaved, chunks(1)),
            "schedule interleaved has 2 to 64 chunks per stage, not 1");
  EXPECT_EQ(fault(Schedule::kInterleaved, chunks(64)), "none");
  EXPECT_EQ(fault(Schedule::kInterleaved, [](Plan& plan) { plan.parallel.pp = 1; }),
            "2 chunks per stage need pp > 1");
  EXPECT_EQ(fault(Schedule::kInterleaved, [](Plan& plan) { plan.batch.global_batch = 6 * 9; }),
            "schedule interleaved works off micro-steps in rounds of one per stage: with pp 4 not "
            "9; the next number that is: 12");
  EXPECT_EQ(fault(Schedule::kInterleaved, [](Plan& plan) { plan.batch.global_batch = 6 * 6; }),
            "none");
  EXPECT_EQ(fault(Schedule::kInterleaved, [](Plan& plan) { plan.batch.global_batch = 6 * 7; }),
            "schedule interleaved works off micro-steps in rounds of one per stage: with pp 4 not "
            "7; the next number that is: 8");
  for (const Recompute mode : {Recompute::kFull, Recompute::kOperators}) {
    const auto replay = [mode](Plan& plan) { plan.recompute = {{}, {mode}}; };
    EXPECT_EQ(fault(Schedule::kZeroBubbleV, replay),
              "schedule zb-v takes the gradients of weights from what forward left: it needs "
              "recompute none or selective");
    EXPECT_EQ(fault(Schedule::kInterleaved, replay), "none");
  }
  EXPECT_EQ(
      fault(Schedule::kZeroBubbleV, [](Plan& plan) { plan.recompute = {{Recompute::kSelective}}; }),
      "none");
  for (const Schedule schedule : {Schedule::kInterleaved, Schedule::kZeroBubbleV})
    EXPECT_EQ(fault(schedule, [](Plan& plan) { plan.placement.activations = Tier::kCpu; }),
              schedule == Schedule::kInterleaved
                  ? "none"
                  : "schedule zb-v keeps the inputs of layers whole and on gpu");
}

TEST(PlanSchedule, OfDualPipeVHasTwoMicroStepsPerStage) {
  EXPECT_EQ(schedule_fault(plan_of(Schedule::kDualPipeV, 4, 8)), std::nullopt);
  EXPECT_EQ(schedule_fault(plan_of(Schedule::kDualPipeV, 4, 7)),
            "schedule dualpipe-v needs two micro-steps per stage: with pp 4 at least 8, not 7");
}

TEST(PlanSchedule, OfDualPipeHasPairsOfReplicasInOneGroupOfShards) {
  const auto fault = [](const std::function<void(Plan&)>& change) {
    Plan plan = plan_of(Schedule::kDualPipe, 4, 8);
    change(plan);
    return schedule_fault(plan).value_or("");
  };
  EXPECT_EQ(fault([](Plan&) {}), "");
  EXPECT_EQ(fault([](Plan& p) { p.batch.micro_batch = 4; }),
            "schedule dualpipe needs two micro-steps per stage: with pp 4 at least 8, not 6");
  EXPECT_EQ(fault([](Plan& p) { p.parallel.dp = 3, p.batch.micro_batch = 2; }),
            "schedule dualpipe takes micro-batches from both ends of pairs of replicas: dp is a "
            "multiple of 2, not 3; the nearest that is: 4");
  EXPECT_EQ(fault([](Plan& p) { p.parallel.ep = 2; }),
            "schedule dualpipe takes micro-batches from both ends of pairs of replicas, which each "
            "share experts with others: dp is a multiple of 4, not 2; the nearest that is: 4");
  EXPECT_EQ(fault([](Plan& p) { p.parallel.tp = 2, p.parallel.expert_tp = 1; }), "")
      << "what is no group of experts is refused as that";
  EXPECT_EQ(fault([](Plan& p) { p.parallel.shards = 1; }),
            "schedule dualpipe shards over all replicas: it needs no groups of shards");
}

TEST(PlanSchedule, WithoutFlushTakesNothingThatWaitsForAllStages) {
  const auto fault = [](const std::function<void(Plan&)>& change) {
    Plan plan = plan_of(Schedule::kDoubleBuffered, 4, 8);
    plan.clip = false;
    change(plan);
    return schedule_fault(plan).value_or("");
  };
  using testing::HasSubstr;
  EXPECT_EQ(fault([](Plan&) {}), "");
  EXPECT_EQ(fault([](Plan& p) { p.parallel.pp = 1; }),
            "schedule pipedream-2bw needs pp > 1: one stage has no bubble");
  EXPECT_EQ(fault([](Plan& p) { p.batch.micro_batch = 8; }),
            "schedule pipedream-2bw needs a micro-step per stage: with pp 4 at least 4, not 3");
  EXPECT_THAT(fault([](Plan& p) { p.zero_stage = 2; }), HasSubstr("ZeRO 0 or 1, not 2"));
  EXPECT_THAT(fault([](Plan& p) { p.delayed_update = true; }), HasSubstr("no delayed update"));
  EXPECT_THAT(fault([](Plan& p) { p.overlap.optimizer = true; }), HasSubstr("beside backward"));
  EXPECT_THAT(fault([](Plan& p) { p.loss_scaling = true; }), HasSubstr("in bf16 or f32"));
  EXPECT_THAT(fault([](Plan& p) { p.optimizer.kind = OptimizerKind::kMuon; }),
              HasSubstr("which muon has not"));
  EXPECT_THAT(fault([](Plan& p) { p.clip = true; }), HasSubstr("without clipping only"));
  EXPECT_THAT(fault([](Plan& p) { p.dropout = true; }), HasSubstr("without dropout only"));
  EXPECT_THAT(fault([](Plan& p) { p.parallel.chunks = 2; }), HasSubstr("has one chunk per stage"));
}

TEST(PlanSchedule, UpdatesAfterEachMicroBatchOnSeveralStagesOrInSeveralChunksOfOne) {
  const auto fault = [](std::int32_t pp, std::int32_t chunks, std::int64_t micro_steps) {
    Plan plan = plan_of(Schedule::kWeightStashing, pp, micro_steps);
    plan.clip = false;
    plan.parallel.chunks = chunks;
    return schedule_fault(plan).value_or("");
  };
  EXPECT_EQ(fault(4, 0, 8), "");
  EXPECT_EQ(fault(1, 4, 8), "");
  EXPECT_EQ(fault(1, 0, 8), "schedule pipedream needs pp > 1: one stage has no bubble");
  EXPECT_EQ(fault(4, 2, 8),
            "schedule pipedream has one chunk per stage where there are several, not 2");
  EXPECT_EQ(fault(4, 0, 3),
            "schedule pipedream needs a micro-step per stage: with pp 4 at least 4, not 3");
  EXPECT_EQ(fault(1, 4, 3),
            "schedule pipedream needs a micro-step per stage: with chunks 4 at least 4, not 3");
}

TEST(PlanSchedule, StashesAVersionForEachMicroBatchThatUpdatesBeforeItsBackward) {
  Plan plan = plan_of(Schedule::kWeightStashing, 4, 12);
  for (std::int32_t stage = 0; stage < 4; ++stage)
    EXPECT_EQ(older_versions(plan, stage), 3 - stage);
  EXPECT_EQ(held_gradients(plan), 1);
  EXPECT_EQ(plan.updates(), 12);
  plan.parallel.pp = 1;
  plan.parallel.chunks = 4;
  EXPECT_EQ(older_versions(plan, 0), 0);
  EXPECT_EQ(held_gradients(plan), 4);
  EXPECT_EQ(older_versions(plan_of(Schedule::kDoubleBuffered, 4, 12), 3), 1);
  EXPECT_EQ(plan_of(Schedule::kDoubleBuffered, 4, 12).updates(), 1);
}

TEST(PlanSchedule, StashesForReplicasThatShareTheScaleOfAnOperand) {
  Plan plan = plan_of(Schedule::kWeightStashing, 2, 8);
  plan.clip = false;
  plan.kernel_set = "cpu.f32.fp8.whole";
  plan.parallel.dp = 1;
  EXPECT_EQ(schedule_fault(plan), std::nullopt);
  plan.parallel.dp = 2;
  EXPECT_THAT(schedule_fault(plan).value_or(""), testing::HasSubstr("dp 1, not 2"));
  plan.kernel_set = "cpu.f32.fp8";
  EXPECT_EQ(schedule_fault(plan), std::nullopt);
}

TEST(PlanSchedule, LeavesNoStageWithoutALayer) {
  Plan plan = plan_of(Schedule::kZeroBubbleV, 3, 6);
  plan.stage_layers = {0, 1, 1, 1, 1, 0};
  EXPECT_EQ(schedule_fault(plan), "pieces 0 and 5 of the model are one stage, which needs a layer");
  plan.schedule = Schedule::kInterleaved;
  EXPECT_EQ(schedule_fault(plan), std::nullopt);
}

// Size bounds are taken from it.
TEST(PlanSchedule, HasNoMoreInFlightThanItSays) {
  for (const Schedule schedule :
       {Schedule::kOneForwardOneBackward, Schedule::kGpipe, Schedule::kInterleaved,
        Schedule::kZeroBubbleV, Schedule::kZeroBubbleH1, Schedule::kDualPipeV, Schedule::kDualPipe,
        Schedule::kDoubleBuffered, Schedule::kWeightStashing}) {
    for (const std::int64_t micros : {8, 9, 10, 11, 12, 40, 41}) {
      const Plan plan = plan_of(schedule, 4, micros);
      if (schedule_fault(plan)) continue;
      for (const std::vector<PieceInFlight>& stage : in_flight_of_stages(plan)) {
        double sum = 0;  // of micro-batches through all layers of the stage
        for (const PieceInFlight& piece : stage)
          sum += static_cast<double>(piece.micro_batches) / static_cast<double>(stage.size());
        EXPECT_LE(sum, most_in_flight(plan)) << name(schedule) << " " << micros;
      }
    }
  }
}

}  // namespace
}  // namespace zplan
