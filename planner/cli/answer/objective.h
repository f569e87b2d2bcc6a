// What --objective asks beside the search for the fastest plan: which decisions are settled before
// it, which plan is taken after it, and how the answer says so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/model_config.h"
#include "planner/cli/frame/sheet.h"
#include "planner/search/questions/longest_sequence.h"
#include "planner/search/questions/most_headroom.h"
#include "planner/search/questions/objective.h"
#include "planner/search/questions/rank_counts.h"
#include "planner/search/search.h"

namespace zplan {

// Of the objective asked for; nothing of the others.
struct ObjectiveAnswer {
  ObjectiveQuestion question;
  std::optional<CheapestRanks> cheapest;
  std::optional<FewestRanks> fewest;
  std::optional<LongestSequence> longest;
  std::optional<MostHeadroom> headroom;
};

// Pins what the objective is about: the number of ranks, the sequence. Nothing where no plan fits,
// so that the search says what is missing.
ObjectiveAnswer settle_objective(const ObjectiveQuestion& question, const ModelConfig& model,
                                 const Cluster& cluster, const Evaluator& evaluator,
                                 const SearchOptions& options, const QuestionRun& run, Pins& pins);
// Takes another plan of the search than the fastest, where that is asked for.
void take_best(ObjectiveAnswer& objective, const ModelConfig& model, const Cluster& cluster,
               const Pins& pins, const Evaluator& evaluator, const SearchOptions& options,
               SearchResult& search);

// What a step is, beside its plan.
struct ObjectiveStep {
  Seconds step{};
  std::int64_t ranks = 0, tokens = 0;  // of the step
  bool on_cpu = false;
  Bytes gpu_free{0};
};

// A share that nothing exceeds, as per cent: rounded up to the last digit that is printed.
std::string percent_at_most(double share);

// Nothing: no plan was found. A sheet for every objective.
Sheet objective_sheet(const ObjectiveAnswer& objective, const std::optional<ObjectiveStep>& step,
                      double gap);
// What the plan has of what is asked for: "16 GPUs", "0.0267 GPU-hours a step".
std::string objective_value(const ObjectiveAnswer& objective, const ObjectiveStep& step);

}  // namespace zplan
