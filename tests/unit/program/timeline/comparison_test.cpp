#include "planner/program/timeline/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "planner/core/error.h"

namespace zplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr SimTime kMicrosecond{1'000'000};
constexpr OpId kGather = op_id({Phase::kForward, Part::kQkv, Action::kGather}, {});
constexpr OpId kQkv0 = op_id({Phase::kForward, Part::kQkv, Action::kCompute}, {.layer = 0});
constexpr OpId kQkv1 = op_id({Phase::kForward, Part::kQkv, Action::kCompute}, {.layer = 1});
constexpr OpId kUpload = op_id({Phase::kUpdate, Part::kLayer, Action::kUpload}, {});

// One operation after the other on one rank; times in microseconds.
class Rank {
 public:
  explicit Rank(std::int32_t stage = 0, std::int32_t number = 0) {
    rank_.stage = stage;
    rank_.rank = number;
  }
  Rank& run(std::int32_t step, OpId op, Lane lane, std::int64_t us, std::int64_t wait_us = 0) {
    const SimTime start = now_ + kMicrosecond * wait_us;
    rank_.spans.push_back({op, step, lane, now_, start, start + kMicrosecond * us});
    now_ = start + kMicrosecond * us;
    return *this;
  }
  operator RankTimeline() const { return rank_; }

 private:
  RankTimeline rank_;
  SimTime now_{0};
};

Timeline timeline(const char* source, std::vector<RankTimeline> ranks, const char* print = "f1") {
  return {.source = source, .fingerprint = print, .ranks = std::move(ranks)};
}

// A cold step of 100 us and then steps of the given times, gather and two layers.
RankTimeline steps(std::vector<std::array<std::int64_t, 3>> times, std::int32_t number = 0) {
  Rank rank(0, number);
  rank.run(0, kGather, Lane::kCommGather, 50);
  rank.run(0, kQkv0, Lane::kCompute, 25).run(0, kQkv1, Lane::kCompute, 25);
  std::int32_t step = 1;
  for (const auto& [gather, first, second] : times) {
    rank.run(step, kGather, Lane::kCommGather, gather, 7);
    rank.run(step, kQkv0, Lane::kCompute, first).run(step, kQkv1, Lane::kCompute, second);
    ++step;
  }
  return rank;
}

void expect_row(const ComparedRow& row, const char* name, std::int64_t operations,
                double predicted_us, double measured_us) {
  EXPECT_EQ(row.name, name);
  EXPECT_EQ(row.predicted.operations, operations) << name;
  EXPECT_EQ(row.measured.operations, operations) << name;
  EXPECT_NEAR(row.predicted.time.value, predicted_us * 1e-6, 1e-15) << name;
  EXPECT_NEAR(row.measured.time.value, measured_us * 1e-6, 1e-15) << name;
}

TEST(Comparison, AddsUpOperationsByKindPhaseLaneAndPart) {
  const Timeline sim = timeline("sim", {steps({{10, 20, 30}})});
  const Timeline exec = timeline("exec", {steps({{40, 20, 15}})});
  const Comparison c = compare(sim, exec, JoinBy::kOperation);
  EXPECT_EQ(c.predicted_steps, 1);
  expect_row(c.total, "all operations", 3, 60, 75);
  ASSERT_EQ(c.kinds.size(), 2u);
  expect_row(c.kinds[0], "kernel", 2, 50, 35);
  expect_row(c.kinds[1], "collective", 1, 10, 40);
  ASSERT_EQ(c.phases.size(), 1u);
  expect_row(c.phases[0], "forward", 3, 60, 75);
  ASSERT_EQ(c.lanes.size(), 2u);
  expect_row(c.lanes[0], "compute", 2, 50, 35);
  expect_row(c.lanes[1], "comm_gather", 1, 10, 40);
  ASSERT_EQ(c.parts.size(), 1u);
  expect_row(c.parts[0], "qkv", 3, 60, 75);
  EXPECT_EQ(c.only_predicted.operations, 0);
  EXPECT_EQ(c.only_measured.operations, 0);
  // The wait of 7 us counts for the step, not for the operation.
  EXPECT_NEAR(c.predicted_period.value, 67e-6, 1e-15);
  EXPECT_NEAR(c.measured_period.value, 82e-6, 1e-15);
}

TEST(Comparison, TakesMediansOverRanksAndSteadySteps) {
  const Timeline sim = timeline("sim", {steps({{10, 20, 30}})});
  const Timeline exec = timeline("exec", {steps({{10, 1, 5}, {10, 2, 5}, {10, 99, 5}}, 0),
                                          steps({{10, 3, 6}, {10, 4, 6}, {10, 99, 6}}, 1)});
  const Comparison c = compare(sim, exec, JoinBy::kOperation);
  EXPECT_EQ(c.measured_steps, 3);
  expect_row(c.lanes[0], "compute", 2, 50, 3.5 + 5.5);
}

TEST(Comparison, TakesTheFirstStepWhereItIsAlone) {
  const Comparison c =
      compare(timeline("sim", {steps({})}), timeline("exec", {steps({})}), JoinBy::kOperation);
  EXPECT_EQ(c.measured_steps, 1);
  expect_row(c.total, "all operations", 3, 100, 100);
  EXPECT_NEAR(c.measured_period.value, 100e-6, 1e-15);
}

TEST(Comparison, AddsUpTheStages) {
  const auto ranks = [](std::int64_t first, std::int64_t second) {
    return std::vector<RankTimeline>{Rank(0).run(0, kQkv0, Lane::kCompute, first),
                                     Rank(1).run(0, kQkv0, Lane::kCompute, second)};
  };
  for (const JoinBy join : {JoinBy::kOperation, JoinBy::kRole}) {
    const Comparison c =
        compare(timeline("sim", ranks(10, 20)), timeline("exec", ranks(1, 3)), join);
    expect_row(c.total, "all operations", 2, 30, 4);
  }
}

TEST(Comparison, SetsOperationsWithoutAPartnerApart) {
  RankTimeline longer = steps({{10, 20, 30}});
  longer.spans.push_back({.op = kUpload, .step = 1, .lane = Lane::kH2d, .end = kMicrosecond});
  const Comparison c = compare(timeline("sim", {longer}), timeline("exec", {steps({{1, 2, 3}})}),
                               JoinBy::kOperation);
  EXPECT_EQ(c.total.predicted.operations, 3);
  EXPECT_EQ(c.only_predicted.operations, 1);
  EXPECT_NEAR(c.only_predicted.time.value, 1e-6, 1e-15);
  EXPECT_EQ(c.only_measured.operations, 0);
}

TEST(Comparison, JoinsDifferentJobsByRoleOnly) {
  const Timeline sim = timeline("sim", {steps({{10, 20, 30}})}, "f1");
  const Timeline exec = timeline(
      "exec", {Rank().run(0, kGather, Lane::kCommGather, 5).run(0, kQkv0, Lane::kCompute, 5)},
      "f2");
  EXPECT_THAT(
      [&] { compare(sim, exec, JoinBy::kOperation); },
      ThrowsMessage<Error>(AllOf(HasSubstr("f1"), HasSubstr("f2"), HasSubstr("--by role"))));
  const Comparison c = compare(sim, exec, JoinBy::kRole);
  ASSERT_EQ(c.kinds.size(), 2u);
  EXPECT_EQ(c.kinds[0].predicted.operations, 2);
  EXPECT_EQ(c.kinds[0].measured.operations, 1);
  EXPECT_NEAR(c.kinds[0].predicted.time.value, 50e-6, 1e-15);
  EXPECT_NEAR(c.kinds[0].measured.time.value, 5e-6, 1e-15);
}

TEST(Comparison, RefusesTimelinesOfAnotherSourceOrWithoutOperations) {
  const Timeline sim = timeline("sim", {steps({})}), exec = timeline("exec", {steps({})});
  EXPECT_THAT([&] { compare(exec, sim, JoinBy::kRole); },
              ThrowsMessage<Error>(HasSubstr("expected a timeline of \"sim\", got one of")));
  EXPECT_THAT([&] { compare(sim, timeline("exec", {}), JoinBy::kRole); },
              ThrowsMessage<Error>(HasSubstr("the timeline of \"exec\" holds no operation")));
}

TEST(Comparison, HasNoRatioWhereNothingWasPredicted) {
  const Timeline sim = timeline("sim", {steps({{10, 0, 0}})});
  const Comparison c = compare(sim, timeline("exec", {steps({{20, 1, 1}})}), JoinBy::kOperation);
  const auto ratio_of = [](const ComparedRow& row) {
    return ratio(row.predicted.time, row.measured.time);
  };
  ASSERT_EQ(c.kinds.size(), 2u);
  EXPECT_EQ(c.measured_fingerprint, "f1");
  EXPECT_EQ(c.kinds[1].name, "collective");
  EXPECT_DOUBLE_EQ(ratio_of(c.kinds[1]).value(), 2);
  EXPECT_FALSE(ratio_of(c.kinds[0]).has_value());
}

}  // namespace
}  // namespace zplan
