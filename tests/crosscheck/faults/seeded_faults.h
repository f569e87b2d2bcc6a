// Faults that seeded_faults_test.cpp plants in Jobs. Each is a change of the Job alone, as a
// mistake of lower would have made it: edges and addresses are derived from the changed Job, which
// verify may thus accept although it computes something else. Edges themselves are dropped after
// that. Every place of a kind is a fault: what would leave an equivalent Job is left out by the
// conditions beside the kind.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/program/job/job.h"
#include "tests/crosscheck/verify_mutations.h"

namespace zplan::seeded {

using mutation::Change;
using mutation::Changes;
using mutation::Places;

enum class Class : std::uint8_t { kOrder, kGroup, kStride, kEdge, kSize };
inline constexpr std::string_view kClassNames[] = {
    "schedule order", "group membership", "stride of a view", "dropped edge", "size of a shard"};

enum class Form : std::uint8_t { kFolded, kUnrolled, kPlaced };

struct Kind {
  Class of;
  std::string_view name;
  int seeds;  // how many of it are drawn
  Form form;  // of the Job that it changes: as lowered, that unrolled, or placed
  Places places;
};

std::vector<Kind> order_kinds();
std::vector<Kind> group_kinds();
std::vector<Kind> stride_kinds();
std::vector<Kind> edge_kinds();
std::vector<Kind> size_kinds();

using NodeTest = std::function<bool(const Job&, const Program&, const Node&)>;
// Each operand of each node that `applies` to, in one class.
using OperandTest = std::function<bool(const Job&, const Program&, const Node&, const View&)>;
using OperandChange = std::function<void(const Job&, View&)>;
Places at_operands(const OperandTest& applies, const OperandChange& change);

// Each role that has nodes that `applies` to: the change is the same for all of them, in all
// classes, so that no two ranks contradict each other.
using NodeChange = std::function<void(const Job&, Program&, Node&)>;
Places at_roles(const NodeTest& applies, const NodeChange& change);

// Each group of each role's collectives, in all classes: `others` lists what it may become.
using Others = std::function<std::vector<Group>(const Mesh&, const Group&)>;
Places at_groups(const NodeTest& applies, const Others& others);

// The operand of a node; in an unrolled Program nodes share operands, and this one gets its own.
View& own_operand(Program& p, NodeIndex n, std::uint32_t i);
// The loop variables at a node of an unrolled Program.
Env env_at(const Program& p, const Node& node);
// All nodes within a block, in program order.
std::vector<NodeIndex> nodes_within(const Program& p, BlockIndex block);

}  // namespace zplan::seeded
