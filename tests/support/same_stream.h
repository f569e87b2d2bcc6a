// Expects of two Programs that they issue the same operations: same ids, lanes, slots and waits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "planner/program/instances/cursor.h"
#include "planner/program/job/job.h"
#include "planner/program/text/text.h"

namespace zplan {

using Wait = std::tuple<Lane, std::int64_t, bool>;

inline std::vector<Wait> waits(const ProgramIndex& index, const Instance& instance) {
  std::vector<Wait> result;
  const Node& node = index.program().nodes[instance.node];
  for (const Edge& edge : index.program().after(node)) {
    if (const auto t = index.resolve(edge, instance.iterations)) {
      result.emplace_back(t->lane, t->completed, t->reuse);
    }
  }
  std::sort(result.begin(), result.end());
  return result;
}

inline void expect_same_stream(const Program& a, const Program& b, std::int64_t steps) {
  const ProgramIndex index_a(a), index_b(b);
  ASSERT_EQ(index_a.all_nodes(), index_b.all_nodes());
  if (index_a.all_nodes() == 0) return;
  Cursor cursor_a(index_a, std::nullopt), cursor_b(index_b, std::nullopt);
  for (; cursor_a->step() < steps; cursor_a.advance(), cursor_b.advance()) {
    const Node& node_a = a.nodes[cursor_a->node];
    const Node& node_b = b.nodes[cursor_b->node];
    ASSERT_EQ(op_id(node_a.role, cursor_a->env), op_id(node_b.role, cursor_b->env));
    ASSERT_EQ(node_a.lane, node_b.lane);
    ASSERT_EQ(cursor_a->lane_sequence, cursor_b->lane_sequence);
    ASSERT_EQ(waits(index_a, *cursor_a), waits(index_b, *cursor_b)) << name(node_a.role);
    const auto views_a = a.operands(node_a), views_b = b.operands(node_b);
    ASSERT_EQ(views_a.size(), views_b.size());
    for (std::size_t i = 0; i < views_a.size(); ++i) {
      ASSERT_EQ(views_a[i].buffer, views_b[i].buffer);
      const std::int32_t slots = a.buffers[views_a[i].buffer].slots;
      ASSERT_EQ(views_a[i].slot.at(cursor_a->env, slots), views_b[i].slot.at(cursor_b->env, slots));
    }
  }
}

}  // namespace zplan
