// The search against a loop over the whole space that lowers, places and simulates every plan and
// knows neither bounds nor an order: same plan, same step time, and no plan beats the gap. What the
// search sets aside (planner/search/siblings.h) the loop leaves out by its own rule.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/search/search.h"
#include "planner/search/simplicity.h"
#include "tests/support/kernels_alone.h"
#include "tests/support/pinned.h"

namespace zplan {
namespace {

using testing_support::pinned;

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

// Whether `a` keeps each state as close to the GPU as `b` or closer, and is the same otherwise.
bool is_closer(Plan a, const Plan& b) {
  const StatePlacement &x = a.placement, &y = b.placement;
  const bool closer = x.params <= y.params && x.grads <= y.grads && x.optimizer <= y.optimizer &&
                      x.activations <= y.activations &&
                      a.partition_activations <= b.partition_activations;
  const bool same = x == y && a.partition_activations == b.partition_activations;
  a.placement = b.placement;
  a.partition_activations = b.partition_activations;
  return closer && !same && a == b;
}

Best brute_force(const ModelConfig& model, const Cluster& cluster, const Pins& pins) {
  const Evaluator evaluator = make_evaluator(model, cluster);
  struct Entry {
    Plan plan;
    Bytes gpu;
    double step;
  };
  std::vector<Entry> fitting;
  std::vector<Plan> original;
  Best best;
  for (Plan plan : enumerate(model, cluster, pins)) {
    const auto closer = [&](const Plan& other) { return is_closer(other, plan); };
    if (std::any_of(original.begin(), original.end(), closer)) continue;
    const Fit fit = evaluator.fit(plan);
    if (fit.infeasible) continue;
    original.push_back(plan);
    plan.slack = fit.slack;
    fitting.push_back({plan, fit.gpu, evaluator.simulate(plan).value});
    const double step = fitting.back().step;
    best.fastest = fitting.size() == 1 ? step : std::min(best.fastest, step);
  }
  const auto key = [](const Entry& e) { return std::pair(simplicity_of(e.plan), e.gpu); };
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
  pins.set("/gather/prefetch", 1);
  pins.tunes_units = false;  // knobs are outside the space
  if (!pins.has("/recompute"))
    pins.set("/recompute", std::vector<RecomputeRun>{{Recompute::kFull}});
  const Parallel& shape = pins.values().parallel;
  if (!pins.has("/parallel/dp")) pins.set("/parallel/dp", cluster.devices() / shape.tp / shape.pp);
  if (!pins.has("/zero_stage") || pins.values().zero_stage != 0)
    pins.set("/parallel/shards", shape.dp);
  const Best expected = brute_force(model, cluster, pins);
  const SearchResult result =
      search(model, cluster, pins, make_evaluator(model, cluster), {.threads = 3});
  ASSERT_EQ(result.best.has_value(), expected.plan.has_value());
  // Ties are ranked within the tolerance.
  EXPECT_LE(result.stats.gap, kSimulationTolerance * (1 + 1e-9));
  if (!expected.plan) return;
  // Outside the space farther homes of what was found are tried: only for the better.
  EXPECT_LE(result.best->step->value, expected.step);
  EXPECT_LE(result.best->bound, *result.best->step);
  const double fastest = result.fastest.value_or(*result.best).step->value;
  EXPECT_LE(fastest, expected.fastest);
  if (fastest == expected.fastest) {
    EXPECT_EQ(to_json(result.best->plan), to_json(*expected.plan));
    EXPECT_EQ(result.best->step->value, expected.step);
  }
  for (const Rejected& line : result.rejected) {
    if (line.best.infeasible || line.standing == Standing::kSetAside) continue;
    EXPECT_GE(line.best.step.value_or(Seconds{fastest}).value, fastest);
  }
}

Case make(std::string name, const char* model, const char* cluster, Pins pins) {
  return {std::move(name), load_model(model), load_cluster(cluster), std::move(pins)};
}

Pins two_stages() {
  Pins pins = pinned({{"/parallel/tp", "1"}, {"/parallel/pp", "2"}});
  pins.set("/parallel/stage_layers", std::vector<std::int32_t>{2, 2});
  return pins;
}

Pins any_recipe() {
  Pins pins = pinned({{"/parallel/tp", "1"},
                      {"/parallel/pp", "1"},
                      {"/kernel_set", "cpu.bf16"},
                      {"/batch/global_batch", "4"}});
  pins.recipes = {std::string(kAnyRecipe)};
  return pins;
}

// Time is that of the kernels, and much of theirs is the traffic of gradients.
Case wide_model() {
  Case c{"wide_model_on_fast_links", load_model("tiny"), kernels_alone(load_cluster("dgx2")),
         pinned({{"/batch/global_batch", "64"}, {"/parallel/tp", "1"}, {"/parallel/pp", "1"}})};
  c.model.layers = 2;
  c.model.hidden = 4096;
  c.model.ffn = 16384;
  c.model.vocab = 1 << 18;
  return c;
}

INSTANTIATE_TEST_SUITE_P(
    Spaces, SearchBruteForce,
    testing::Values(
        make("tiny_replicas", "tiny", "workstation",
             pinned({{"/parallel/tp", "1"}, {"/parallel/pp", "1"}})),
        make("tiny_kept_activations", "tiny", "workstation",
             pinned({{"/parallel/tp", "2"}, {"/parallel/pp", "1"}, {"/recompute", "none"}})),
        make("tiny_two_stages", "tiny", "workstation", two_stages()),
        make("tiny_tensor_parallel", "tiny", "workstation",
             pinned({{"/parallel/tp", "2"}, {"/parallel/pp", "1"}})),
        make("tiny_fp64", "tiny", "workstation",
             pinned({{"/parallel/tp", "1"},
                     {"/parallel/pp", "1"},
                     {"/kernel_set", "cpu.f64"},
                     {"/batch/global_batch", "4"}})),
        make("tiny_any_recipe", "tiny", "workstation", any_recipe()),
        make("gpt2_micro_batch_8", "gpt2-124m", "dgx2",
             pinned({{"/parallel/tp", "1"}, {"/parallel/pp", "1"}, {"/batch/micro_batch", "8"}})),
        make("gpt2_short_of_memory", "gpt2-124m", "workstation",
             pinned({{"/parallel/tp", "1"},
                     {"/parallel/pp", "1"},
                     {"/batch/global_batch", "16"},
                     {"/batch/sequence", "512"}})),
        make("gpt2_fits_nowhere", "gpt2-124m", "workstation",
             pinned({{"/parallel/tp", "1"},
                     {"/parallel/pp", "1"},
                     {"/batch/global_batch", "16"},
                     {"/zero_stage", "0"}})),
        wide_model()),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace zplan
