// Why the families that lost did: one line each, from the best plan of the family.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "planner/search/leaf.h"
#include "planner/search/worker_pool.h"

namespace zplan {

class Rejections {
 public:
  Rejections(std::vector<Leaf>& leaves, const Evaluator& evaluator, WorkerPool& pool);

  // Finds the representative of each family but the winner's: the plan with the least time (or
  // bound) of those that fit, else the one least over. Lowers what it takes to know; returns how
  // many leaves that was.
  std::int64_t settle(std::optional<std::size_t> winner);

  // In family order. `best` is the winner as it is answered.
  std::vector<Rejected> lines(std::optional<std::size_t> winner,
                              const std::optional<Candidate>& best) const;

  // Fills smallest_change of those that do not fit.
  void suggest(std::vector<Rejected>& lines, const ModelConfig& model, const Cluster& cluster);

 private:
  std::size_t representative(const std::vector<std::size_t>& members) const;

  std::vector<Leaf>& leaves_;
  const Evaluator& evaluator_;
  WorkerPool& pool_;
  std::map<Family, std::vector<std::size_t>> families_;  // indices of leaves
};

}  // namespace zplan
