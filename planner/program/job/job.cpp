#include "planner/program/job/job.h"

namespace zplan {

std::vector<BufferId> StateHome::buffers() const {
  return rest ? std::vector{buffer, *rest} : std::vector{buffer};
}

std::vector<const StateHome*> UnitHome::states() const {
  std::vector<const StateHome*> all{&param, &master};
  for (const StateHome& moment : moments) all.push_back(&moment);
  return all;
}

std::vector<BufferId> UnitHome::buffers() const {
  std::vector<BufferId> all;
  for (const StateHome* state : states())
    for (const BufferId id : state->buffers()) all.push_back(id);
  return all;
}

}  // namespace zplan
