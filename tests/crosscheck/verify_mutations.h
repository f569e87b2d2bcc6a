// The faults that verify_mutation_test.cpp seeds, and the places of a job where each can be.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "planner/program/job/job.h"

namespace zplan::mutation {

using Change = std::function<void(Job&)>;
using Changes = std::vector<Change>;

// Where each place of a kind must be rejected; kIffRacing: where tests/support/happens_before.h
// finds two accesses without order, and nowhere else; kSometimes: where the rest of the job does
// not make up for it, somewhere at least.
enum class Rejected { kAlways, kIffRacing, kSometimes };

struct Kind {
  std::string_view name;
  Rejected rejected;
};
inline constexpr Kind kKinds[] = {
    {"data edge dropped", Rejected::kIffRacing},
    {"reuse edge dropped", Rejected::kIffRacing},
    {"edge one iteration further back", Rejected::kIffRacing},
    {"edge to the node before", Rejected::kSometimes},
    {"edge to an iteration ahead", Rejected::kAlways},
    {"edge without a common block", Rejected::kAlways},
    {"edge to nowhere", Rejected::kAlways},
    {"edge onto itself", Rejected::kAlways},
    {"receive missing", Rejected::kAlways},
    {"send missing", Rejected::kAlways},
    {"send half as large", Rejected::kAlways},
    {"receive from the stage after the next", Rejected::kAlways},
    {"one micro-batch less on one stage", Rejected::kSometimes},
    {"collective of the wrong size", Rejected::kAlways},
    {"collective of another group", Rejected::kSometimes},
    {"collective of several stages on the lane of those within a layer", Rejected::kAlways},
    {"collective missing on one stage", Rejected::kSometimes},
    {"collective in place on another part", Rejected::kSometimes},
    {"collectives swapped on one stage", Rejected::kSometimes},
    {"view beyond its slot", Rejected::kAlways},
    {"shard of the last rank beyond its slot", Rejected::kAlways},
    {"part of the last tensor rank beyond its slot", Rejected::kAlways},
    {"view off its alignment", Rejected::kAlways},
    {"view of another type", Rejected::kSometimes},
    {"wrong slot expression", Rejected::kSometimes},
    {"slot that forgets the layer", Rejected::kSometimes},
    {"ring with one slot less", Rejected::kSometimes},
    {"two live buffers at one offset", Rejected::kSometimes},
    {"on the bytes of a persistent buffer", Rejected::kAlways},
    {"offset beyond the slab", Rejected::kAlways},
    {"offset off its alignment", Rejected::kAlways},
    {"host offset off the blocks of a drive", Rejected::kAlways},
    {"model state not persistent", Rejected::kAlways},
    {"model state with a slot more", Rejected::kAlways},
    {"two buffers of one name", Rejected::kAlways},
    {"first writer missing", Rejected::kSometimes},
    {"read where a write belongs", Rejected::kAlways},
    {"kernel operands swapped", Rejected::kAlways},
    {"kernel operand missing", Rejected::kSometimes},
    {"matrix of another shape", Rejected::kAlways},
    {"kernel on a copy lane", Rejected::kAlways},
    {"GPU kernel on the CPU", Rejected::kAlways},
    {"kernel on another lane of the GPU", Rejected::kSometimes},
    {"copy on the lane of the other direction", Rejected::kAlways},
    {"copy of half the bytes", Rejected::kAlways},
    {"copy between a drive and the middle of a slot", Rejected::kAlways},
    {"role given twice", Rejected::kAlways},
    {"nodes out of program order", Rejected::kAlways},
};
static_assert(std::count_if(std::begin(kKinds), std::end(kKinds),
                            [](const Kind& k) { return k.rejected == Rejected::kAlways; }) >= 20);

// A name that is not in the table does not compile.
consteval const Kind* kind(std::string_view name) {
  return &*std::find_if(std::begin(kKinds), std::end(kKinds),
                        [&](const Kind& k) { return k.name == name; });
}

// All places of a job where a fault can be, each as the change that makes it there.
using Places = std::function<Changes(const Job&)>;

struct Mutation {
  const Kind* kind;
  std::vector<std::string> messages;  // a finding contains one of them
  Places places;
};

std::vector<Mutation> edge_mutations();
std::vector<Mutation> communication_mutations();
std::vector<Mutation> memory_mutations();
std::vector<Mutation> operation_mutations();

// Each node, view, edge or buffer of any class that `applies` to.
using NodeTest = std::function<bool(const Program&, const Node&)>;
using NodeChange = std::function<void(Program&, NodeIndex)>;
using ViewTest = std::function<bool(const Program&, const View&)>;
using BufferTest = std::function<bool(const RankClass&, BufferId)>;
Places at_nodes(const NodeTest& applies, const NodeChange& change);
Places at_kind(OpKind kind, const NodeChange& change);
Places at_views(const ViewTest& applies, const std::function<void(Program&, View&)>& change);
Places at_edges(const std::function<bool(const Edge&)>& applies,
                const std::function<void(Edge&)>& change);
Places at_buffers(const BufferTest& applies,
                  const std::function<void(RankClass&, BufferId)>& change);
// Of the jobs that `applies` to.
Places where(const std::function<bool(const Job&)>& applies, const Places& places);

// What the kinds of faults have in common.
void become_mark(Program& p, NodeIndex n);  // the node stays in the tree and does nothing
View& operand(Program& p, NodeIndex n, std::uint32_t i);
void halve(View& v);

}  // namespace zplan::mutation
