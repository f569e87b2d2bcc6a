// Seeds faults into lowered and placed jobs of a tiny model: verify accepts every original and
// rejects the faulty ones with a fitting message. A fault is applied at every place where it can
// be; which of those must be rejected, its kind says (verify_mutations.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/model_config.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/program/verify/verify.h"
#include "tests/crosscheck/verify_mutations.h"
#include "tests/support/happens_before.h"
#include "tests/support/sanitized.h"

namespace zplan {
namespace {

ModelConfig tiny_model(bool tied) {
  ModelConfig model;
  model.name = "tiny";
  model.layers = 3;
  model.hidden = 16;
  model.heads = model.kv_heads = 2;
  model.ffn = 64;
  model.vocab = 50;
  model.sequence = 8;
  model.tied_embeddings = tied;
  return model;
}

struct Case {
  std::string name;
  Plan plan;
  bool tied = true;
};

Plan plan_of(std::int32_t dp, std::int32_t pp, std::int32_t zero_stage, std::int64_t micro_steps) {
  Plan plan;
  plan.parallel.dp = dp;
  plan.parallel.pp = pp;
  plan.zero_stage = zero_stage;
  plan.kernel_set = "cpu.f32";
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {micro_steps * dp, 1, 8};
  plan.slack = 0;
  return plan;
}

std::vector<Case> cases() {
  std::vector<Case> result{{"one_rank", plan_of(1, 1, 0, 2)},
                           {"pipeline", plan_of(1, 3, 0, 5)},
                           {"zero1_pipeline", plan_of(2, 2, 1, 3)},
                           {"zero3_recompute", plan_of(2, 1, 3, 1)},
                           {"zero3_host", plan_of(2, 1, 3, 2), false},
                           {"sequence_parallel", plan_of(1, 2, 0, 3)},
                           {"hybrid_tiles", plan_of(4, 1, 3, 1), false},
                           {"zero3_drive", plan_of(2, 1, 3, 1), false},
                           {"groups", plan_of(8, 1, 3, 2), false},
                           {"groups_zb_v", plan_of(4, 2, 3, 2)}};
  const std::vector<RecomputeRun> full{{Recompute::kFull, 0}};
  result[3].plan.recompute = full;
  result[4].plan.placement = {Tier::kCpu, Tier::kCpu, Tier::kCpu, Tier::kCpu};
  result[4].plan.recompute = full;
  result[5].plan.parallel.tp = 2;
  result[5].plan.parallel.sequence_parallel = true;
  result[6].plan.parallel.shards = 2;
  result[6].plan.gather = Gather::in_tiles(2);
  result[7].plan.placement = {Tier::kNvme, Tier::kNvme, Tier::kNvme, Tier::kNvme};
  result[7].plan.recompute = full;
  result[8].plan.secondary = 2;
  result[8].plan.parameter_shards = 4;
  result[9].plan.secondary = 2;
  result[9].plan.schedule = Schedule::kZeroBubbleV;
  result[9].plan.stage_layers = {0, 1, 1, 1};
  return result;
}

Job placed_job(const Case& c) {
  Job job = lower(c.plan, tiny_model(c.tied));
  place(job, {c.plan.slack});
  return job;
}

bool mentions(const std::vector<std::string>& findings, const std::vector<std::string>& messages) {
  return std::any_of(findings.begin(), findings.end(), [&](const std::string& finding) {
    return std::any_of(messages.begin(), messages.end(), [&](const std::string& message) {
      return finding.find(message) != std::string::npos;
    });
  });
}

std::string joined(const std::vector<std::string>& lines) {
  std::string result;
  for (const std::string& line : lines) result += "\n  " + line;
  return result;
}

struct Tally {
  int applied = 0, caught = 0;
};

// Applies one kind of fault in one job, at places that lie all over it.
Tally check_mutation(const std::string& where, const mutation::Mutation& mutation,
                     const Job& original, const testing_support::RaceOracle& oracle) {
  using mutation::Rejected;
  const std::size_t most_places = testing_support::kSanitized                  ? 3
                                  : testing_support::is_everything_asked_for() ? 1 << 20
                                                                               : 20;
  Tally tally;
  const std::vector<mutation::Change> changes = mutation.places(original);
  const std::size_t stride = std::max<std::size_t>(1, changes.size() / most_places);
  for (std::size_t i = 0; i < changes.size(); i += stride) {
    Job job = original;
    changes[i](job);
    const auto findings = verify(job);
    const bool fits = mentions(findings, mutation.messages);
    const std::string place = where + ": " + std::string(mutation.kind->name) + ", place " +
                              std::to_string(tally.applied++) + ", findings:" + joined(findings);
    tally.caught += fits;
    if (mutation.kind->rejected == Rejected::kAlways) {
      EXPECT_TRUE(fits) << place;
    } else if (mutation.kind->rejected == Rejected::kIffRacing) {
      EXPECT_EQ(fits, oracle.races(job)) << place;
      EXPECT_EQ(fits, !findings.empty()) << place;
    }
  }
  return tally;
}

void check_mutations(const std::vector<mutation::Mutation>& mutations) {
  std::vector<Tally> tallies(mutations.size());
  for (const Case& c : cases()) {
    const Job original = placed_job(c);
    ASSERT_EQ(joined(verify(original)), "") << c.name;
    const testing_support::RaceOracle oracle(original);
    for (std::size_t m = 0; m < mutations.size(); ++m) {
      const Tally tally = check_mutation(c.name, mutations[m], original, oracle);
      tallies[m].applied += tally.applied;
      tallies[m].caught += tally.caught;
    }
  }
  for (std::size_t m = 0; m < mutations.size(); ++m) {
    const std::string_view name = mutations[m].kind->name;
    EXPECT_GT(tallies[m].applied, 0) << name << ": no job offers a place for it";
    if (testing_support::kSanitized) continue;  // few places, none of which need matter
    EXPECT_GT(tallies[m].caught, 0)
        << name << ": not rejected at any of " << tallies[m].applied << " places";
  }
}

TEST(VerifyMutation, EveryKindOfFaultIsSeeded) {
  std::multiset<std::string_view> seeded, kinds;
  for (const auto& list : {mutation::edge_mutations(), mutation::communication_mutations(),
                           mutation::memory_mutations(), mutation::operation_mutations()})
    for (const mutation::Mutation& m : list) seeded.insert(m.kind->name);
  for (const mutation::Kind& kind : mutation::kKinds) kinds.insert(kind.name);
  EXPECT_EQ(seeded, kinds);
}

TEST(VerifyMutation, EdgesAreChecked) { check_mutations(mutation::edge_mutations()); }
TEST(VerifyMutation, CommunicationIsChecked) {
  check_mutations(mutation::communication_mutations());
}
TEST(VerifyMutation, MemoryIsChecked) { check_mutations(mutation::memory_mutations()); }
TEST(VerifyMutation, OperationsAreChecked) { check_mutations(mutation::operation_mutations()); }

}  // namespace
}  // namespace zplan
