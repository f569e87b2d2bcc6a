// What a plan file remembers, and bundles.
#include "planner/plan/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_message.h"

namespace zplan {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;

Plan named_plan() {
  Plan plan;
  plan.model = "m.json";
  plan.hardware = "dgx2";
  plan.kernel_set = "cpu.f32";
  return plan;
}

PlanSeal seal() {
  return {.model = {"m.json", std::string(32, 'a')},
          .hardware = {"dgx2", std::string(32, '1')},
          .decisions = decisions_hash(named_plan()),
          .fingerprint = std::string(32, 'f'),
          .software = "megatron_core",
          .calibration = "runs.jsonl"};
}

TEST(PlanFile, RemembersWhatItWasMadeWithBesideThePlan) {
  const PlanFile file = parse_plan_file(to_json(named_plan(), seal()), "p.json");
  ASSERT_TRUE(file.seal);
  EXPECT_FALSE(file.is_bundle);
  EXPECT_EQ(file.seal->model.name, "m.json");
  EXPECT_EQ(file.seal->hardware.hash, std::string(32, '1'));
  EXPECT_EQ(file.seal->fingerprint, std::string(32, 'f'));
  EXPECT_EQ(file.seal->software, "megatron_core");
  EXPECT_EQ(file.seal->calibration, "runs.jsonl");
  EXPECT_EQ(to_json(file.plan), to_json(named_plan()));
  EXPECT_FALSE(parse_plan_file(to_json(named_plan()), "p.json").seal);
}

TEST(PlanFile, DecisionsAreTheSameWhateverModelAndHardwareAreCalled) {
  Plan other = named_plan();
  other.model = "/elsewhere/m.json";
  other.hardware = "dgx2x2";
  EXPECT_EQ(decisions_hash(other), decisions_hash(named_plan()));
  other.slack = 0.25;
  EXPECT_NE(decisions_hash(other), decisions_hash(named_plan()));
}

TEST(PlanFile, ABrokenMemoryIsRefused) {
  PlanSeal broken = seal();
  broken.fingerprint = "F0";
  EXPECT_THAT(message_of([&] { parse_plan_file(to_json(named_plan(), broken), "p.json"); }),
              HasSubstr("/made_with/fingerprint: expected a hash of 32 hexadecimal digits"));
}

TEST(PlanFile, ABundleHasThreePartsAndNoOthers) {
  const std::string plan = to_json(named_plan(), seal());
  const std::string head = R"({"schema": "zplan.bundle/1", "plan": )" + plan;
  const PlanFile file = parse_plan_file(head + R"(, "model": {}, "hardware": {}})", "b.json");
  EXPECT_TRUE(file.is_bundle);
  EXPECT_TRUE(file.seal);
  EXPECT_EQ(file.plan.hardware, "dgx2");
  EXPECT_THAT(message_of([&] { parse_plan_file(head + R"(, "model": {}})", "b.json"); }),
              HasSubstr("\"hardware\""));
  EXPECT_THAT(message_of([&] {
                parse_plan_file(head + R"(, "model": {}, "hardware": {}, "more": 1})", "b.json");
              }),
              HasSubstr("more"));
  EXPECT_THAT(message_of([&] { parse_plan_file(R"({"schema": "zplan.bundle/2"})", "b.json"); }),
              HasSubstr("zplan.bundle/1"));
}

}  // namespace
}  // namespace zplan
