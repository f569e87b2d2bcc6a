#include "tests/crosscheck/verify_mutations.h"

namespace zplan::mutation {

Changes at_nodes(const Job& job, const std::function<bool(const Program&, const Node&)>& applies,
                 const std::function<void(Program&, NodeIndex)>& change) {
  Changes result;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const Program& p = job.classes[c].program;
    for (NodeIndex n = 0; n < p.nodes.size(); ++n)
      if (applies(p, p.nodes[n]))
        result.push_back([=](Job& j) { change(j.classes[c].program, n); });
  }
  return result;
}

Changes at_kind(const Job& job, OpKind kind, const std::function<void(Program&, NodeIndex)>& f) {
  return at_nodes(
      job, [=](const Program&, const Node& n) { return n.kind == kind; }, f);
}

Changes at_views(const Job& job, const std::function<bool(const Program&, const View&)>& applies,
                 const std::function<void(Program&, View&)>& change) {
  Changes result;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const Program& p = job.classes[c].program;
    for (std::size_t v = 0; v < p.views.size(); ++v)
      if (applies(p, p.views[v]))
        result.push_back(
            [=](Job& j) { change(j.classes[c].program, j.classes[c].program.views[v]); });
  }
  return result;
}

Changes at_edges(const Job& job, const std::function<bool(const Edge&)>& applies,
                 const std::function<void(Edge&)>& change) {
  Changes result;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const Program& p = job.classes[c].program;
    for (std::size_t e = 0; e < p.edges.size(); ++e)
      if (applies(p.edges[e]))
        result.push_back([=](Job& j) { change(j.classes[c].program.edges[e]); });
  }
  return result;
}

Changes at_buffers(const Job& job, const std::function<bool(const RankClass&, BufferId)>& applies,
                   const std::function<void(RankClass&, BufferId)>& change) {
  Changes result;
  for (std::size_t c = 0; c < job.classes.size(); ++c)
    for (BufferId b = 0; b < job.classes[c].program.buffers.size(); ++b)
      if (applies(job.classes[c], b)) result.push_back([=](Job& j) { change(j.classes[c], b); });
  return result;
}

void become_mark(Program& p, NodeIndex n) {
  p.nodes[n].kind = OpKind::kMark;
  p.nodes[n].operands_end = p.nodes[n].operands_begin;
}

View& operand(Program& p, NodeIndex n, std::uint32_t i) {
  return p.views[p.nodes[n].operands_begin + i];
}

void halve(View& v) { v.shape = {v.shape.elements() / 2}; }

}  // namespace zplan::mutation
