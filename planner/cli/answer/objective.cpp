#include "planner/cli/answer/objective.h"

#include <algorithm>
#include <utility>

#include "hwprofiles/running.h"

namespace zplan {
namespace {

constexpr std::int64_t kShortSearch = 8;  // simulations of each number of devices

}  // namespace

ObjectiveAnswer settle_objective(const ObjectiveQuestion& question, const ModelConfig& model,
                                 const Cluster& cluster, const Evaluator& evaluator,
                                 const SearchOptions& options, const QuestionRun& run, Pins& pins) {
  ObjectiveAnswer answer{
      .question = question, .cheapest = {}, .fewest = {}, .longest = {}, .headroom = {}};
  if (question.what == Objective::kCheapest) {
    if (const auto price = gpu_hour_price(cluster.node); price && question.price < 0) {
      answer.question.price = price->value;
      answer.question.has_profile_price = true;
    }
    SearchOptions quick = options;
    quick.max_simulated = std::min(options.max_simulated, kShortSearch);
    quick.min_operations = 0;
    answer.cheapest = cheapest_ranks(model, cluster, pins, evaluator, quick, run);
    pins.ranks = answer.cheapest->ranks;
  } else if (question.what == Objective::kFewestGpus) {
    answer.fewest = fewest_ranks(model, cluster, pins, run);
    pins.ranks = answer.fewest->ranks;
  } else if (question.what == Objective::kLongestSequence) {
    answer.longest = longest_sequence(model, cluster, pins, run);
    if (answer.longest->tokens > 0) pins.set("/batch/sequence", answer.longest->tokens);
  }
  return answer;
}

void take_best(ObjectiveAnswer& objective, const ModelConfig& model, const Cluster& cluster,
               const Pins& pins, const Evaluator& evaluator, const SearchOptions& options,
               SearchResult& search) {
  if (objective.question.what != Objective::kMostHeadroom || !search.best) return;
  const double within = objective.question.within < 0 ? kUsualWithin : objective.question.within;
  objective.headroom =
      most_headroom(model, cluster, pins, evaluator, search.simulated, within, options);
  const Simulated& best = objective.headroom->best;
  if (!search.fastest) search.fastest = search.best;
  search.wins.reset();
  search.best = Candidate{best.plan, best.step, best.step, {}};
  if (search.fastest->step == search.best->step) search.fastest.reset();
}

}  // namespace zplan
