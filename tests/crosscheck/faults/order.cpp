// Faults in the order of passes, of messages and of single operations; on unrolled Jobs, where each
// pass of a micro-batch is a block of its own.
#include <algorithm>
#include <set>
#include <utility>

#include "tests/crosscheck/faults/seeded_faults.h"

namespace zplan::seeded {
namespace {

bool has(const Program& p, const std::vector<NodeIndex>& nodes, const auto& test) {
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeIndex n) { return test(p.nodes[n]); });
}
bool loads(const Node& n) { return n.kernel == KernelId::kLoadBatch && n.kind == OpKind::kKernel; }

bool same_work(const Program& p, const std::vector<NodeIndex>& a, const std::vector<NodeIndex>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](NodeIndex x, NodeIndex y) {
    return p.nodes[x].role == p.nodes[y].role && p.nodes[x].member == p.nodes[y].member;
  });
}

// The operand of a transfer with the slot that it takes there.
View pinned(const Program& p, NodeIndex n) {
  View v = p.operands(p.nodes[n])[0];
  const auto slot = v.slot.at(env_at(p, p.nodes[n]), p.buffers[v.buffer].slots);
  v.slot = {.base = static_cast<std::int32_t>(slot)};
  return v;
}
bool same_bytes(const View& a, const View& b) {
  return a.buffer == b.buffer && a.slot == b.slot && a.offset == b.offset;
}

// Whether what the node sends has been made within the pass.
bool sends_its_own(const Program& p, const std::vector<NodeIndex>& pass, NodeIndex n) {
  if (p.nodes[n].kind != OpKind::kSend) return false;
  const View sent = pinned(p, n);
  return std::any_of(pass.begin(), pass.end(), [&](NodeIndex other) {
    const auto operands = p.operands(p.nodes[other]);
    return std::any_of(operands.begin(), operands.end(),
                       [&](const View& v) { return writes(v.access) && v.buffer == sent.buffer; });
  });
}

// Whether two passes without a batch of their own take turns in the same slots, but for what they
// make and send: to exchange them is to rename them.
bool take_turns(const Program& p, const std::vector<NodeIndex>& a,
                const std::vector<NodeIndex>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (loads(p.nodes[a[i]])) return false;
    if (is_transfer(p.nodes[a[i]].kind) && !sends_its_own(p, a, a[i]) &&
        !same_bytes(pinned(p, a[i]), pinned(p, b[i])))
      return false;
  }
  return true;
}

// Each two blocks over `var` that do the same for different values of it and that `applies` to.
Changes exchanged_blocks(
    const Job& job, Var var, bool siblings,
    const std::function<bool(const Program&, const std::vector<NodeIndex>&)>& applies) {
  Changes result;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const Program& p = job.classes[c].program;
    std::vector<std::pair<BlockIndex, std::vector<NodeIndex>>> blocks;
    for (BlockIndex b = 0; b < p.blocks.size(); ++b)
      if (p.blocks[b].var == var) blocks.emplace_back(b, nodes_within(p, b));
    for (std::size_t x = 0; x < blocks.size(); ++x)
      for (std::size_t y = x + 1; y < blocks.size(); ++y) {
        const BlockIndex a = blocks[x].first, b = blocks[y].first;
        if (siblings && p.blocks[a].parent != p.blocks[b].parent) continue;
        if (p.blocks[a].first == p.blocks[b].first || !applies(p, blocks[x].second) ||
            !same_work(p, blocks[x].second, blocks[y].second) ||
            (var == Var::kMicro && take_turns(p, blocks[x].second, blocks[y].second)))
          continue;
        result.push_back([=](Job& j) {
          auto& all = j.classes[c].program.blocks;
          std::swap(all[a].first, all[b].first);
        });
      }
  }
  return result;
}

// One pass, forward or backward, of two micro-batches. A pass without messages, as that of the
// weight gradients, may come in any order; and where a block has both passes of a piece that reads
// no batch, to exchange them is to rename the micro-batches.
Changes exchanged_passes(const Job& job) {
  return exchanged_blocks(job, Var::kMicro, false, [](const Program& p, const auto& nodes) {
    const auto of = [](Phase phase) {
      return [=](const Node& n) { return n.role.phase == phase; };
    };
    const bool both = has(p, nodes, of(Phase::kForward)) && has(p, nodes, of(Phase::kBackward));
    return has(p, nodes, [](const Node& n) { return is_transfer(n.kind); }) &&
           (!both || has(p, nodes, loads));
  });
}

// Two layers of a pass, each of which takes what the other gives: forward products, or gradients of
// inputs. Layers that are only zeroed, updated or given weight gradients may come in any order.
Changes exchanged_layers(const Job& job) {
  return exchanged_blocks(job, Var::kLayer, true, [](const Program& p, const auto& nodes) {
    return has(p, nodes, [](const Node& n) {
      return n.kind == OpKind::kKernel &&
             (n.kernel == KernelId::kLinearForward || n.kernel == KernelId::kLinearInputGradient);
    });
  });
}

// Two micro-batches in all that one stage does with them. It reads batches, and so does another
// stage, which gets the wrong ones: else the exchange would only name them otherwise.
Changes exchanged_micro_batches(const Job& job) {
  const auto reads_batches = [](const RankClass& c) {
    return std::any_of(c.program.nodes.begin(), c.program.nodes.end(), loads);
  };
  Changes result;
  if (std::count_if(job.classes.begin(), job.classes.end(), reads_batches) < 2) return result;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    if (!reads_batches(job.classes[c])) continue;
    for (std::int32_t a = 0; a < job.micro_steps; ++a)
      for (std::int32_t b = a + 1; b < job.micro_steps; ++b)
        result.push_back([=](Job& j) {
          for (Block& block : j.classes[c].program.blocks) {
            if (block.var != Var::kMicro) continue;
            block.first = block.first == a ? b : block.first == b ? a : block.first;
          }
        });
  }
  return result;
}

bool overlap(const View& a, const View& b) {
  return a.buffer == b.buffer && a.slot == b.slot && a.offset < b.offset + b.bytes() &&
         b.offset < a.offset + a.bytes();
}

// Whether the second takes what the first gives. A gather of parameters may give what an earlier
// one has left; kernels and sums over several ranks give something new.
bool feeds(const Job& job, const Program& p, const Node& first, const Node& second) {
  const bool gives = first.kind == OpKind::kKernel ||
                     (first.kind == OpKind::kCollective && job.mesh.size(first.group) > 1 &&
                      first.collective == CollectiveKind::kAllReduce);
  if (!gives || second.kind == OpKind::kMark) return false;
  for (const View& a : p.operands(first))
    for (const View& b : p.operands(second))
      if (writes(a.access) && a.access != Access::kScratch && reads(b.access) && overlap(a, b))
        return true;
  return false;
}

// Whether anyone reads what the node gives: nobody does for the output of a layer that is replayed.
bool matters(const Program& p, const Node& node) {
  std::set<BufferId> given;
  for (const View& v : p.operands(node))
    if (writes(v.access) && v.access != Access::kScratch) given.insert(v.buffer);
  return given.empty() || std::any_of(p.views.begin(), p.views.end(), [&](const View& v) {
           return reads(v.access) && given.contains(v.buffer);
         });
}

// Neighbours of which the second takes what the first gives.
Changes consumer_before_producer(const Job& job) {
  Changes result;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const Program& p = job.classes[c].program;
    for (NodeIndex n = 0; n + 1 < p.nodes.size(); ++n)
      if (p.nodes[n].block == p.nodes[n + 1].block && matters(p, p.nodes[n + 1]) &&
          feeds(job, p, p.nodes[n], p.nodes[n + 1]))
        result.push_back([=](Job& j) {
          auto& nodes = j.classes[c].program.nodes;
          std::swap(nodes[n], nodes[n + 1]);
        });
  }
  return result;
}

// Two messages of a lane, each of which takes the place of the other at one end. Those that take
// turns in one slot are left out.
Changes exchanged_messages(const Job& job, OpKind kind) {
  Changes result;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const Program& p = job.classes[c].program;
    for (NodeIndex a = 0; a < p.nodes.size(); ++a)
      for (NodeIndex b = a + 1; b < p.nodes.size(); ++b) {
        if (p.nodes[a].kind != kind || p.nodes[b].kind != kind) continue;
        if (p.nodes[a].lane != p.nodes[b].lane) continue;
        const View x = pinned(p, a), y = pinned(p, b);
        if (same_bytes(x, y)) continue;
        result.push_back([=](Job& j) {
          own_operand(j.classes[c].program, a, 0) = y;
          own_operand(j.classes[c].program, b, 0) = x;
        });
      }
  }
  return result;
}

Places messages_of(OpKind kind) {
  return [kind](const Job& job) { return exchanged_messages(job, kind); };
}

}  // namespace

std::vector<Kind> order_kinds() {
  const auto kind = [](std::string_view name, int seeds, const Places& places) {
    return Kind{Class::kOrder, name, seeds, Form::kUnrolled, places};
  };
  return {
      kind("two micro-batches of a stage exchanged", 3, exchanged_micro_batches),
      kind("two passes of a stage exchanged", 5, exchanged_passes),
      kind("two layers of a pass exchanged", 3, exchanged_layers),
      kind("a consumer before its producer", 5, consumer_before_producer),
      kind("two receives exchanged", 3, messages_of(OpKind::kReceive)),
      kind("two sends exchanged", 3, messages_of(OpKind::kSend)),
  };
}

}  // namespace zplan::seeded
