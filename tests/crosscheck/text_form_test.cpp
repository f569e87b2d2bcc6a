// What the text form of a Job says is what the Job is: every plan of the cover reads back byte for
// byte, verifies, and an independent walker over the text (law 3) counts the bytes that place
// counted.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "planner/lower/lower.h"
#include "planner/place/memory_report.h"
#include "planner/place/place.h"
#include "planner/program/fingerprint.h"
#include "planner/program/unroll.h"
#include "planner/program/verify.h"
#include "tests/support/plan_space.h"
#include "tests/support/recount.h"
#include "tests/support/same_stream.h"

namespace zplan {
namespace {

using testing_support::Choice;

class TextForm : public testing::TestWithParam<Choice> {
 protected:
  static Job placed_job() {
    const Plan plan = testing_support::plan_of(GetParam(), "cpu.f32");
    Job job = lower(plan, load_model(plan.model));
    place(job, {.slack = plan.slack});
    return job;
  }
};

TEST_P(TextForm, ReadsBackByteForByte) {
  const Job job = placed_job();
  const std::string text = to_text(job);
  const Job read = parse_zprog(text, "plan.zprog");
  EXPECT_EQ(to_text(read), text);
  EXPECT_EQ(fingerprint(read), fingerprint(job));
}

TEST_P(TextForm, Verifies) {
  const std::vector<std::string> findings = verify(placed_job());
  EXPECT_TRUE(findings.empty()) << findings.front();
}

TEST_P(TextForm, UnrollsToTheSameOperationsAndWaits) {
  const Job job = placed_job();
  const Job flat = unroll(job);
  for (std::size_t c = 0; c < job.classes.size(); ++c)
    expect_same_stream(job.classes[c].program, flat.classes[c].program, 2);
}

TEST_P(TextForm, HoldsTheBytesThatPlaceCounted) {
  const Job job = placed_job();
  const Recount counted = recount(job, testing_support::name_of(GetParam()));
  ASSERT_TRUE(counted.ok) << counted.err;
  const auto json = nlohmann::json::parse(counted.out);
  for (const ClassMemory& memory : measure(job).classes) {
    for (std::size_t t = 0; t < kTierCount; ++t) {
      const TierMemory& expected = memory.tiers[t];
      const auto tier = json.at(std::to_string(memory.stage)).at(name(static_cast<Tier>(t)));
      EXPECT_EQ(tier.at("peak_bytes"), expected.live_peak.value);
      for (std::size_t c = 0; c < kCategoryCount; ++c) {
        const std::string category{name(static_cast<Category>(c))};
        EXPECT_EQ(tier.at("by_category").value(category, std::int64_t{0}),
                  expected.by_category[c].value)
            << category;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pairwise, TextForm, testing::ValuesIn(testing_support::pairwise_choices()),
                         [](const auto& plan) { return testing_support::name_of(plan.param); });

}  // namespace
}  // namespace zplan
