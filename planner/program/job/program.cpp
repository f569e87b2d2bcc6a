#include "planner/program/job/program.h"

#include "planner/core/error.h"

namespace zplan {

Bytes size_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {8};
    case DType::kF32:
    case DType::kI32:
      return {4};
    case DType::kF16:
    case DType::kBf16:
      return {2};
    case DType::kU8:
      return {1};
  }
  ZPLAN_ASSERT(!"a DType");
  return {0};
}

void set_edges(Program& program, const std::vector<std::vector<Edge>>& per_node) {
  ZPLAN_ASSERT(per_node.size() == program.nodes.size());
  program.edges.clear();
  for (std::size_t i = 0; i < per_node.size(); ++i) {
    Node& node = program.nodes[i];
    node.edges_begin = static_cast<std::uint32_t>(program.edges.size());
    program.edges.insert(program.edges.end(), per_node[i].begin(), per_node[i].end());
    node.edges_end = static_cast<std::uint32_t>(program.edges.size());
  }
}

}  // namespace zplan
