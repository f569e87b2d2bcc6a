// The faults that verify_mutation_test.cpp seeds, and the places of a job where each can be.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/program/job.h"

namespace zplan::mutation {

using Change = std::function<void(Job&)>;
using Changes = std::vector<Change>;

enum class Rejected { kAlways, kSometimes };

struct Mutation {
  std::string name;
  Rejected rejected = Rejected::kAlways;
  std::vector<std::string> messages;  // a finding contains one of them
  std::function<Changes(const Job&)> changes;
};

std::vector<Mutation> edge_mutations();
std::vector<Mutation> communication_mutations();
std::vector<Mutation> memory_mutations();
std::vector<Mutation> operation_mutations();

// One change for each node, view, edge or buffer of any class that `applies` to.
using NodeChange = std::function<void(Program&, NodeIndex)>;
Changes at_nodes(const Job& job, const std::function<bool(const Program&, const Node&)>& applies,
                 const NodeChange& change);
Changes at_kind(const Job& job, OpKind kind, const NodeChange& change);
Changes at_views(const Job& job, const std::function<bool(const Program&, const View&)>& applies,
                 const std::function<void(Program&, View&)>& change);
Changes at_edges(const Job& job, const std::function<bool(const Edge&)>& applies,
                 const std::function<void(Edge&)>& change);
Changes at_buffers(const Job& job, const std::function<bool(const RankClass&, BufferId)>& applies,
                   const std::function<void(RankClass&, BufferId)>& change);

// What the kinds of faults have in common.
void become_mark(Program& p, NodeIndex n);  // the node stays in the tree and does nothing
View& operand(Program& p, NodeIndex n, std::uint32_t i);
void halve(View& v);

}  // namespace zplan::mutation
