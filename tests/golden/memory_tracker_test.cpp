// What stacks of Hugging Face modules are predicted to hold, against PyTorch's MemTracker on the
// real modules: tests/data/memory_tracker.jsonl, made by tests/frameworks/memory_tracker.py.
// Compared is the peak up to the update, without the workspaces of libraries, which a tracker of
// tensors does not see. With ZPLAN_MEMORY_TRACKER=FILE the predictions are written there, a line
// each (tests/frameworks/memory_report.py reads them).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "hwprofiles/stack.h"
#include "models/model_config.h"
#include "planner/core/json_reader.h"
#include "planner/lower/lower.h"
#include "planner/place/held_besides.h"
#include "planner/place/place.h"
#include "planner/search/stack_memory_use.h"
#include "tests/support/source_dir.h"

namespace zplan {
namespace {

constexpr double kTolerance = 0.05;      // of the measured peak
constexpr double kWorst = 0.025;         // that is reached
constexpr std::size_t kLeastCases = 24;  // of which all are within it

struct Case {
  std::string name, model, attention;
  bool recompute = false;
  std::int32_t ranks = 1;
  std::int64_t micro_batch = 1, sequence = 1;
  double peak_bytes = 0;
};

std::int64_t positive(const JsonNode& node) { return node.integer(1, 1 << 20); }

Case read_case(const JsonNode& node) {
  JsonObject in = node.object();
  Case c;
  c.name = in.member("case").string();
  c.model = in.member("model").string();
  c.attention = in.member("attention").one_of({"sdpa", "eager"});
  c.recompute = in.member("recompute").boolean();
  c.ranks = static_cast<std::int32_t>(positive(in.member("ranks")));
  c.micro_batch = positive(in.member("micro_batch"));
  c.sequence = positive(in.member("sequence"));
  c.peak_bytes = in.member("peak_bytes").number(1, 1e15);
  return c;
}

std::vector<Case> read_cases() {
  std::ifstream file(ZPLAN_SOURCE_DIR "/tests/data/memory_tracker.jsonl");
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);)
    cases.push_back(read_case(parse_json(line, "memory_tracker.jsonl")));
  return cases;
}

std::string stack_of(const Case& c) {
  if (c.attention == "eager") return "hf_eager";
  return c.model == "phi3-mini" ? "hf_phi3" : "hf";
}

// One GPU has all in bf16, several share fp32 states.
Plan plan_of(const Case& c, const StackProfile& stack) {
  Plan plan;
  plan.model = c.model;
  plan.kernel_set = stack.fused ? "cuda.sm90.bf16" : "cuda.sm90.bf16.unfused";
  plan.precision = *find_recipe(c.ranks > 1 ? stack.recipe : "lean", plan.kernel_set);
  plan.gather = Gather::kLayer;
  plan.parallel.dp = c.ranks;
  plan.zero_stage = c.ranks > 1 ? 3 : 0;
  plan.batch = {.global_batch = c.micro_batch * c.ranks,
                .micro_batch = static_cast<std::int32_t>(c.micro_batch),
                .sequence = c.sequence};
  plan.recompute = {{c.recompute ? Recompute::kFull : Recompute::kNone}};
  return plan;
}

double predicted_bytes(const Case& c) {
  const StackProfile stack = load_stack(stack_of(c));
  Cluster cluster = load_cluster("dgx-h100");
  cluster.memory = stack.memory;
  const Plan plan = plan_of(c, stack);
  Job job = lower(plan, load_model(c.model));
  place(job, {.slack = plan.slack});
  const StackMemoryUse use = stack_memory_use(job, cluster);
  const Bytes libraries = use.replay->at_peak[static_cast<std::size_t>(Holder::kAlways)];
  return static_cast<double>((use.replay->before_update - libraries).value);
}

TEST(MemoryTracker, PeaksOfHuggingFaceModulesAreAsPredicted) {
  const std::vector<Case> cases = read_cases();
  ASSERT_GE(cases.size(), kLeastCases);
  std::ofstream out;
  if (const char* path = std::getenv("ZPLAN_MEMORY_TRACKER")) out.open(path);
  double worst = 0;
  for (const Case& c : cases) {
    const double predicted = predicted_bytes(c), error = predicted / c.peak_bytes - 1;
    worst = std::max(worst, std::abs(error));
    EXPECT_LE(std::abs(error), kTolerance)
        << c.name << ": " << predicted << " predicted, " << c.peak_bytes << " measured";
    out << c.name << ' ' << stack_of(c) << ' ' << std::llround(predicted) << '\n';
  }
  EXPECT_LE(worst, kWorst);
}

}  // namespace
}  // namespace zplan
