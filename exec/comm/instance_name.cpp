#include "exec/comm/instance_name.h"

#include <fmt/format.h>

#include "planner/program/job/job.h"

namespace zplan::exec {

std::string instance_name(const ProgramIndex& index, NodeIndex node, std::int64_t earlier) {
  const Program& program = index.program();
  const Lane lane = program.nodes[node].lane;
  std::int64_t per_step = 0;
  for (Cursor at(index, lane, false); at->step() == 0; at.advance())
    if (at->node == node) ++per_step;
  std::int64_t left = earlier % per_step;
  Cursor at(index, lane, false);
  while (at->node != node || left-- > 0) at.advance();
  return fmt::format("step {}, {}", earlier / per_step,
                     op_name(op_id(program, program.nodes[node], at->env)));
}

}  // namespace zplan::exec
