// How many plans of a space one core bounds per second: bytes of each tier and the floor of the
// time, of leaves and of their variants (planner/search/variants.h), as the search asks for them.
// Prints a table; asserts nothing.
//
//   perf_bound_speed MOST
//
// Goal: a million a second. CPU seconds of one thread over the first MOST (2,000,000 where it is
// not given) plans of each space in its order: first from nothing known, so that the Jobs that
// floors rest on are lowered on the way, then once more, when they are known.
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/search/search.h"
#include "planner/search/variants.h"

namespace zplan {
namespace {

constexpr double kGoalRate = 1e6;  // per second

struct Question {
  const char *model, *cluster;
};
constexpr Question kQuestions[] = {{"gpt3-175b", "dgx-a100x8"},
                                   {"llama3-405b", "dgx-h100x2048"},
                                   {"1T", "dgx2x32"},
                                   {"10B", "dgx2"}};

struct Counted {
  std::int64_t plans = 0, out = 0;  // bounded; of them those that cannot fit
  double seconds = 0;
  double per_second() const { return static_cast<double>(plans) / seconds; }
};

Counted bound_all(const std::vector<Plan>& plans, const Evaluator& evaluator) {
  Counted result;
  const std::clock_t begin = std::clock();
  for (const Plan& plan : plans) result.out += evaluator.estimate(plan).infeasible ? 1 : 0;
  result.seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  result.plans = static_cast<std::int64_t>(plans.size());
  return result;
}

std::vector<Plan> variants_of(const std::vector<Plan>& leaves, const Variants& variants,
                              std::size_t most) {
  std::vector<Plan> result;
  for (const Plan& leaf : leaves) {
    for (Plan& plan : variants.of(leaf)) result.push_back(std::move(plan));
    if (result.size() >= most) break;
  }
  return result;
}

void report(const Question& question, const char* what, const std::vector<Plan>& plans) {
  const Evaluator evaluator =
      make_evaluator(load_model(question.model), load_cluster(question.cluster));
  const Counted first = bound_all(plans, evaluator), again = bound_all(plans, evaluator);
  fmt::print("{:12} {:14} {:9} {:>9} {:>9} {:9.2f} {:9.2f}  {}\n", question.model, question.cluster,
             what, first.plans, first.out, first.per_second() / 1e6, again.per_second() / 1e6,
             again.per_second() >= kGoalRate ? "met" : "missed");
}

int run(std::size_t most) {
  fmt::print("{:12} {:14} {:9} {:>9} {:>9} {:>9} {:>9}  goal {}\n", "model", "cluster", "plans",
             "bounded", "out", "million/s", "again", kGoalRate / 1e6);
  for (const Question& question : kQuestions) {
    const ModelConfig model = load_model(question.model);
    const Cluster cluster = load_cluster(question.cluster);
    std::vector<Plan> leaves = enumerate(model, cluster, {});
    if (leaves.size() > most) leaves.resize(most);
    const std::vector<Plan> variants = variants_of(leaves, Variants(model, cluster, {}), most);
    report(question, "leaves", leaves);
    report(question, "variants", variants);
  }
  return 0;
}

}  // namespace
}  // namespace zplan

int main(int argc, char** argv) {
  return zplan::run(argc > 1 ? static_cast<std::size_t>(std::atoll(argv[1])) : 2'000'000);
}
