// Faults in kernels, copies, roles and the tree.
#include <utility>

#include "tests/crosscheck/verify_mutations.h"

namespace zplan::mutation {
namespace {

const std::vector<std::string> kHazard{"without waiting for", "before it is written",
                                       "which shares its bytes"};

}  // namespace

std::vector<Mutation> operation_mutations() {
  const auto is_kernel = [](const Program&, const Node& n) { return n.kind == OpKind::kKernel; };
  const auto is_file_copy = [](const Program&, const Node& n) {
    return n.lane == Lane::kIoRead || n.lane == Lane::kIoWrite;
  };
  const auto on_compute = [](const Program&, const Node& n) {
    return n.kind == OpKind::kKernel && n.lane == Lane::kCompute;
  };
  return {
      {kind("first writer missing"),
       {"before it is written", "which shares its bytes"},
       at_nodes(
           [](const Program&, const Node& n) {
             return n.kernel == KernelId::kEmbeddingForward ||
                    n.kernel == KernelId::kLinearForward || n.kernel == KernelId::kStepScalars;
           },
           become_mark)},
      {kind("read where a write belongs"),
       {"expected '"},
       at_nodes(is_kernel,
                [](Program& p, NodeIndex n) {
                  View& v = operand(p, n, 0);
                  v.access = v.access == Access::kRead ? Access::kWrite : Access::kRead;
                })},
      {kind("kernel operands swapped"),
       {"expected '"},
       at_nodes(
           [](const Program& p, const Node& n) {
             return n.kind == OpKind::kKernel && n.operands_end > n.operands_begin + 1 &&
                    p.operands(n).front().access != p.operands(n).back().access;
           },
           [](Program& p, NodeIndex n) {
             std::swap(operand(p, n, 0), p.views[p.nodes[n].operands_end - 1]);
           })},
      {kind("kernel operand missing"),
       {"operands, got"},
       at_nodes(is_kernel, [](Program& p, NodeIndex n) { --p.nodes[n].operands_end; })},
      {kind("matrix of another shape"),
       {"takes x[T,k]"},
       at_nodes([](const Program&, const Node& n) { return n.kernel == KernelId::kLinearForward; },
                [](Program& p, NodeIndex n) {
                  auto& dims = operand(p, n, 1).shape.dims;
                  dims[0] *= 2;
                  dims[1] /= 2;
                })},
      {kind("kernel on a copy lane"),
       {"a kernel on lane h2d"},
       at_nodes(is_kernel, [](Program& p, NodeIndex n) { p.nodes[n].lane = Lane::kH2d; })},
      {kind("GPU kernel on the CPU"),
       {"cannot reach"},
       at_nodes(on_compute, [](Program& p, NodeIndex n) { p.nodes[n].lane = Lane::kCpu; })},
      {kind("kernel on another lane of the GPU"), kHazard,
       at_nodes(on_compute, [](Program& p, NodeIndex n) { p.nodes[n].lane = Lane::kCommReduce; })},
      {kind("copy on the lane of the other direction"),
       {"belongs on lane"},
       at_kind(OpKind::kCopy,
               [](Program& p, NodeIndex n) {
                 Lane& lane = p.nodes[n].lane;
                 lane = lane == Lane::kH2d ? Lane::kD2h : Lane::kH2d;
               })},
      {kind("copy of half the bytes"),
       {"copies "},
       at_nodes(
           [](const Program& p, const Node& n) {
             return n.kind == OpKind::kCopy && p.operands(n)[0].shape.elements() > 1;
           },
           [](Program& p, NodeIndex n) { halve(operand(p, n, 1)); })},
      {kind("copy between a drive and the middle of a slot"),
       {"starts within a slot", "reaches from"},
       at_nodes(is_file_copy,
                [](Program& p, NodeIndex n) { operand(p, n, 1).offset += Bytes{512}; })},
      {kind("role given twice"),
       {"have the id"},
       at_nodes([](const Program& p,
                   const Node& n) { return &n != &p.nodes[0] && (&n - 1)->block == n.block; },
                [](Program& p, NodeIndex n) { p.nodes[n].role = p.nodes[n - 1].role; })},
      {kind("nodes out of program order"),
       {"was due", "hang in the tree"},
       [](const Job& j) {
         Changes result;
         for (std::size_t c = 0; c < j.classes.size(); ++c)
           for (BlockIndex b = 0; b < j.classes[c].program.blocks.size(); ++b)
             if (j.classes[c].program.blocks[b].items.size() > 1)
               result.push_back([=](Job& k) {
                 auto& items = k.classes[c].program.blocks[b].items;
                 std::swap(items[0], items[1]);
               });
         return result;
       }},
  };
}

}  // namespace zplan::mutation
