// The search against a loop over the whole space that lowers, places and simulates every plan and
// knows neither bounds nor an order: same plan, same step time, and no plan beats the gap.
#include <gtest/gtest.h>

#include <map>

#include "planner/search/search.h"
#include "tests/support/kernels_alone.h"

namespace zplan {
namespace {

struct Case {
  std::string name;
  ModelConfig model;
  Cluster cluster;
  Pins pins;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

struct Best {
  std::optional<Plan> plan;
  double step = 0, fastest = 0;
};

Best brute_force(const ModelConfig& model, const Cluster& cluster, const Pins& pins) {
  const Evaluator evaluator = make_evaluator(model, cluster);
  struct Entry {
    Plan plan;
    Bytes gpu;
    double step;
  };
  std::vector<Entry> fitting;
  Best best;
  for (Plan plan : enumerate(model, cluster, pins)) {
    const Fit fit = evaluator.fit(plan);
    if (fit.infeasible) continue;
    plan.slack = fit.slack;
    fitting.push_back({plan, fit.gpu, evaluator.simulate(plan).value});
    const double step = fitting.back().step;
    best.fastest = fitting.size() == 1 ? step : std::min(best.fastest, step);
  }
  const auto key = [](const Entry& e) { return std::pair(tiers_used(family_of(e.plan)), e.gpu); };
  const Entry* winner = nullptr;
  for (const Entry& e : fitting) {
    if (e.step > best.fastest * (1 + kTieTolerance)) continue;
    if (winner == nullptr || key(e) < key(*winner)) winner = &e;
  }
  if (winner != nullptr) {
    best.plan = winner->plan;
    best.step = winner->step;
  }
  return best;
}

class SearchBruteForce : public testing::TestWithParam<Case> {};

TEST_P(SearchBruteForce, AgreeOnPlanTimeAndGap) {
  const ModelConfig& model = GetParam().model;
  const Cluster& cluster = GetParam().cluster;
  Pins pins = GetParam().pins;
  pins.prefetch = 1;  // tuning is outside the space
  const Best expected = brute_force(model, cluster, pins);
  for (const bool exhaustive : {false, true}) {
    SearchOptions options;
    options.exhaustive = exhaustive;
    options.threads = exhaustive ? 2 : 3;
    const SearchResult result =
        search(model, cluster, pins, make_evaluator(model, cluster), options);
    ASSERT_EQ(result.best.has_value(), expected.plan.has_value());
    EXPECT_EQ(result.stats.gap, 0);
    if (!expected.plan) continue;
    EXPECT_EQ(to_json(result.best->plan), to_json(*expected.plan));
    EXPECT_EQ(result.best->step->value, expected.step);
    EXPECT_LE(result.best->bound, *result.best->step);
    for (const Rejected& line : result.rejected) {
      if (line.best.infeasible) continue;
      EXPECT_GE(line.best.step.value_or(Seconds{expected.fastest}).value, expected.fastest);
    }
  }
}

// The question that the program is judged by, in a space too large for the loop above.
TEST(SearchExhaustively, FindsTheSamePlanFor1TOn32Nodes) {
  const ModelConfig model = load_model("1T");
  const Cluster cluster = load_cluster("dgx2x32");
  const Evaluator evaluator = make_evaluator(model, cluster);
  const SearchResult pruned = search(model, cluster, {}, evaluator, {.threads = 2});
  const SearchResult full =
      search(model, cluster, {}, evaluator, {.threads = 2, .exhaustive = true});
  ASSERT_TRUE(pruned.best);
  EXPECT_EQ(to_json(pruned.best->plan), to_json(full.best->plan));
  EXPECT_EQ(*pruned.best->step, *full.best->step);
  EXPECT_EQ(pruned.stats.gap, 0);
  EXPECT_EQ(full.stats.gap, 0);
  EXPECT_EQ(pruned.stats.space, full.stats.space);
}

Case make(std::string name, const char* model, const char* cluster, auto pin) {
  Case c{std::move(name), load_model(model), load_cluster(cluster), {}};
  pin(c.pins);
  return c;
}

// Time is that of the kernels, and much of theirs is the traffic of gradients.
Case wide_model() {
  Case c{"wide_model_on_fast_links", load_model("tiny"), kernels_alone(load_cluster("dgx2")), {}};
  c.model.layers = 2;
  c.model.hidden = 4096;
  c.model.ffn = 16384;
  c.model.vocab = 1 << 18;
  c.pins.global_batch = 64;
  return c;
}

INSTANTIATE_TEST_SUITE_P(
    Spaces, SearchBruteForce,
    testing::Values(
        make("tiny", "tiny", "workstation", [](Pins&) {}),
        make("tiny_two_replicas", "tiny", "workstation", [](Pins& p) { p.dp = 2; }),
        make("tiny_two_stages", "tiny", "workstation", [](Pins& p) { p.pp = 2; }),
        make("tiny_fp64", "tiny", "workstation", [](Pins& p) { p.kernel_set = "cpu.f64"; }),
        make("tiny_one_step", "tiny", "workstation", [](Pins& p) { p.global_batch = 4; }),
        make("tiny_two_nodes", "tiny", "workstationx2", [](Pins&) {}),
        make("gpt2_micro_batch_8", "gpt2-124m", "dgx2", [](Pins& p) { p.micro_batch = 8; }),
        make("gpt2_one_stage", "gpt2-124m", "dgx2",
             [](Pins& p) {
               p.pp = 1;
               p.global_batch = 64;
             }),
        make("gpt2_short_of_memory", "gpt2-124m", "workstation",
             [](Pins& p) {
               p.global_batch = 16;
               p.sequence = 512;
             }),
        make("gpt2_fits_nowhere", "gpt2-124m", "workstation",
             [](Pins& p) {
               p.global_batch = 16;
               p.zero_stage = 0;
             }),
        wide_model()),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace zplan
