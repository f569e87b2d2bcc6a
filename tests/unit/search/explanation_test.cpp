#include "planner/search/explanation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/model_formulas.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"

namespace zplan {
namespace {

// Of a term as large as the greatest.
double scale_of(const Explanation& explanation) {
  double most = std::abs(explanation.value);
  for (const Term& term : explanation.terms)
    if (explanation.by == Combine::kSum) most = std::max(most, std::abs(term.value));
  return most;
}

void expect_terms_give_the_numbers(const Pins& pins) {
  const ModelConfig model = load_model("tiny-gpt");
  const Cluster cluster = load_cluster("workstation");
  const Plan plan = enumerate(model, cluster, pins).front();
  Job job = lower(plan, model);
  place(job, {.slack = plan.slack});
  sim::SimOptions options;
  options.split_by_op = true;
  const sim::SimResult sim = simulate(job, cluster, options);
  const sim::StepSplit split = step_split(job, sim);
  const double flops = model_flops_per_step(model, plan.batch.global_batch);
  const MemoryUse use = memory_use(job, cluster);
  const std::vector<Explanation> all =
      explain({.job = job,
               .model = model,
               .cluster = cluster,
               .use = use,
               .report = measure(job),
               .split = split,
               .throughput = throughput(job, cluster, sim.period, flops),
               .model_flops = flops});
  EXPECT_GT(all.size(), 10U);
  for (const Explanation& one : all) {
    EXPECT_NEAR(combined(one), one.value, 1e-9 * scale_of(one)) << one.what;
    EXPECT_FALSE(one.formula.empty());
    for (const Term& term : one.terms) EXPECT_FALSE(term.source.empty()) << term.name;
  }
}

TEST(Explanation, TermsGiveTheNumbers) {
  Pins pins;
  pins.set("/parallel/pp", 2);
  expect_terms_give_the_numbers(pins);
  pins.set("/placement/optimizer", "nvme");
  expect_terms_give_the_numbers(pins);
}

}  // namespace
}  // namespace zplan
