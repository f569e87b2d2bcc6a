#include "planner/search/explanation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

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

Explanations explained(const std::string& model_name, const Pins& pins) {
  const ModelConfig model = load_model(model_name);
  const Cluster cluster = load_cluster("dgx2");
  const Plan plan = enumerate(model, cluster, pins).front();
  Job job = lower(plan, model);
  place(job, {.slack = plan.slack});
  sim::SimOptions options;
  options.split_by_op = true;
  const sim::SimResult sim = simulate(job, cluster, options);
  const double flops = model_flops_per_step(model, plan.batch.global_batch);
  return explain({.plan = plan,
                  .job = job,
                  .model = model,
                  .cluster = cluster,
                  .use = memory_use(job, cluster),
                  .report = measure(job),
                  .stack = stack_memory_use(job, cluster),
                  .sim = sim,
                  .split = step_split(job, sim),
                  .throughput = throughput(job, cluster, sim.period, flops),
                  .model_flops = flops});
}

void expect_terms_give_the_numbers(const Explanations& all) {
  std::set<std::string> names;
  for (const Explanation& one : all) {
    EXPECT_NEAR(combined(one), one.value, 1e-9 * scale_of(one)) << one.what;
    EXPECT_FALSE(one.formula.empty()) << one.what;
    for (const Term& term : one.terms) EXPECT_FALSE(term.source.empty()) << term.name;
    EXPECT_TRUE(names.insert(one.what).second) << one.what << " twice";
    for (const std::string& also : one.also) EXPECT_TRUE(names.insert(also).second) << also;
  }
}

const Explanation& find(const Explanations& all, const std::string& what) {
  for (const Explanation& one : all)
    if (one.what == what) return one;
  throw std::out_of_range(what);
}

TEST(Explanation, TermsGiveTheNumbersOfPipelinesAndOffload) {
  Pins pins;
  pins.set("/parallel/pp", 2);
  pins.set("/parallel/tp", 2);
  expect_terms_give_the_numbers(explained("tiny-gpt", pins));
  Pins offload;
  offload.set("/zero_stage", 3);
  offload.set("/placement/optimizer", "nvme");
  offload.set("/placement/params", "cpu");
  const Explanations all = explained("tiny-gpt", offload);
  expect_terms_give_the_numbers(all);
  EXPECT_GT(find(all, "memory.nvme.by_category.optimizer").value, 0);
  EXPECT_EQ(find(all, "memory.nvme.by_category.optimizer").terms.size(), 1U);
}

// Data parallel gradients are reduced once and parameters gathered once: two Psi.
TEST(Explanation, CountsWhatAGroupIsSentInPsi) {
  Pins pins;
  pins.set("/zero_stage", 1);
  pins.set("/parallel/dp", 4);
  pins.set("/parallel/tp", 1);
  pins.set("/parallel/pp", 1);
  const Explanation psi = find(explained("tiny-gpt", pins), "communication.dp.states.psi");
  EXPECT_NEAR(psi.value, 2, 0.05);
}

// Layers with experts and those without are told apart, and nothing else of note is left over.
TEST(Explanation, CountsLayersWithExpertsAndWhatATokenDoesNotGoThrough) {
  Pins pins;
  pins.set("/batch/micro_batch", 1);
  const Explanations all = explained("tiny-deepseek", pins);
  expect_terms_give_the_numbers(all);
  const ModelConfig model = load_model("tiny-deepseek");
  const Explanation& parameters = find(all, "model.parameters");
  ASSERT_EQ(parameters.terms.size(), 4U);
  EXPECT_EQ(parameters.terms[0].value,
            static_cast<double>(model.expert_layers() * layer_parameter_count(model)));
  EXPECT_LT(parameters.terms[1].value / static_cast<double>(model.dense_layers()),
            static_cast<double>(layer_parameter_count(model)));
  EXPECT_GE(parameters.terms.back().value, 0);
  EXPECT_LT(parameters.terms.back().value, 0.01 * parameters.value);
  EXPECT_EQ(find(all, "model.active_parameters").value,
            static_cast<double>(active_parameter_count(model)));
}

// Full recomputation runs every forward product twice: HFU has what MFU leaves out.
TEST(Explanation, FlopOfTheJobAreThoseOfTheModelAndRecomputation) {
  Pins pins;
  pins.set("/recompute", std::vector<RecomputeRun>{{Recompute::kFull}});
  const Explanations all = explained("tiny-gpt", pins);
  double recomputed = 0;
  for (const Term& phase : find(all, "flop.hardware").terms)
    if (phase.name == "recompute") recomputed = phase.value;
  const double model = find(all, "flop.model").value;
  EXPECT_GT(recomputed, 0.15 * model);
  EXPECT_LT(recomputed, model / 3);
  // The head's rows are padded.
  EXPECT_NEAR(find(all, "flop.hardware").value - recomputed, model, 0.05 * model);
}

}  // namespace
}  // namespace zplan
