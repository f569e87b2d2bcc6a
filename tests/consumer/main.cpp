// A program of somebody else: plans the smallest model of the catalogue on one machine.
#include <cstdio>

#include "planner/search/search.h"

int main() {
  const zplan::ModelConfig model = zplan::load_model("tiny-gpt");
  const zplan::Cluster cluster = zplan::load_cluster("workstation");
  const zplan::Evaluator evaluator = zplan::make_evaluator(model, cluster);
  const auto found = zplan::search(model, cluster, {}, evaluator, {.max_simulated = 8});
  std::puts(found.best ? zplan::to_json(found.best->plan).c_str() : "nothing fits");
}
