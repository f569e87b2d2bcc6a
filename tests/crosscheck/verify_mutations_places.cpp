#include "tests/crosscheck/verify_mutations.h"

namespace zplan::mutation {

namespace {

// A change of the job for each thing of each class that `applies` to.
Changes for_each(const Job& job, const std::function<std::size_t(const RankClass&)>& count_in,
                 const std::function<bool(const RankClass&, std::size_t)>& applies,
                 const std::function<void(RankClass&, std::size_t)>& change) {
  Changes result;
  for (std::size_t c = 0; c < job.classes.size(); ++c)
    for (std::size_t i = 0; i < count_in(job.classes[c]); ++i)
      if (applies(job.classes[c], i)) result.push_back([=](Job& j) { change(j.classes[c], i); });
  return result;
}

}  // namespace

Places at_nodes(const NodeTest& applies, const NodeChange& change) {
  return [=](const Job& job) {
    return for_each(
        job, [](const RankClass& c) { return c.program.nodes.size(); },
        [=](const RankClass& c, std::size_t n) { return applies(c.program, c.program.nodes[n]); },
        [=](RankClass& c, std::size_t n) { change(c.program, static_cast<NodeIndex>(n)); });
  };
}

Places at_kind(OpKind kind, const NodeChange& change) {
  return at_nodes([=](const Program&, const Node& n) { return n.kind == kind; }, change);
}

Places at_views(const ViewTest& applies, const std::function<void(Program&, View&)>& change) {
  return [=](const Job& job) {
    return for_each(
        job, [](const RankClass& c) { return c.program.views.size(); },
        [=](const RankClass& c, std::size_t v) { return applies(c.program, c.program.views[v]); },
        [=](RankClass& c, std::size_t v) { change(c.program, c.program.views[v]); });
  };
}

Places at_edges(const std::function<bool(const Edge&)>& applies,
                const std::function<void(Edge&)>& change) {
  return [=](const Job& job) {
    return for_each(
        job, [](const RankClass& c) { return c.program.edges.size(); },
        [=](const RankClass& c, std::size_t e) { return applies(c.program.edges[e]); },
        [=](RankClass& c, std::size_t e) { change(c.program.edges[e]); });
  };
}

Places at_buffers(const BufferTest& applies,
                  const std::function<void(RankClass&, BufferId)>& change) {
  return [=](const Job& job) {
    return for_each(
        job, [](const RankClass& c) { return c.program.buffers.size(); },
        [=](const RankClass& c, std::size_t b) { return applies(c, static_cast<BufferId>(b)); },
        [=](RankClass& c, std::size_t b) { change(c, static_cast<BufferId>(b)); });
  };
}

Places where(const std::function<bool(const Job&)>& applies, const Places& places) {
  return [=](const Job& job) { return applies(job) ? places(job) : Changes{}; };
}

void become_mark(Program& p, NodeIndex n) {
  p.nodes[n].kind = OpKind::kMark;
  p.nodes[n].group = {};
  p.nodes[n].operands_end = p.nodes[n].operands_begin;
}

View& operand(Program& p, NodeIndex n, std::uint32_t i) {
  return p.views[p.nodes[n].operands_begin + i];
}

void halve(View& v) { v.shape = {v.shape.elements() / 2}; }

}  // namespace zplan::mutation
