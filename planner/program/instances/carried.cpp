#include "planner/program/instances/carried.h"

#include <algorithm>

#include "planner/program/job/tree.h"

namespace zplan {
namespace {

std::vector<bool> homes(const RankClass& rank_class) {
  std::vector<bool> result(rank_class.program.buffers.size(), false);
  for (const UnitHome& home : rank_class.homes)
    for (const BufferId id : home.buffers()) result[id] = true;
  return result;
}

// Goes through one step in program order, as long as there are buffers to decide.
class FirstAccesses {
 public:
  FirstAccesses(const Program& program, const std::vector<bool>& among)
      : p_(program),
        open_(among),
        read_(among.size(), false),
        unwritten_(among.size(), 0),
        written_(among.size()),
        has_uses_(program.blocks.size(), false) {
    for (BufferId id = 0; id < among.size(); ++id) {
      if (!among[id]) continue;
      ++left_;
      unwritten_[id] = p_.buffers[id].slots;
      written_[id].resize(static_cast<std::size_t>(p_.buffers[id].slots), false);
    }
    for (const Node& node : p_.nodes)
      for (const View& v : p_.operands(node))
        if (among[v.buffer]) mark_blocks(node.block);
  }

  std::vector<bool> run() {
    if (!p_.nodes.empty()) block(0, {});
    return std::move(read_);
  }

 private:
  void mark_blocks(BlockIndex at) {
    for (; !has_uses_[at]; at = p_.blocks[at].parent) {
      has_uses_[at] = true;
      if (at == 0) return;
    }
  }

  void block(BlockIndex index, const Env& outer) {
    const Block& own = p_.blocks[index];
    for (std::int64_t i = 0; i < own.count && left_ > 0; ++i) {
      const Env env = bind(own, outer, i);
      for (const Block::Item& item : own.items) {
        if (!item.is_block) {
          node(p_.nodes[item.index], env);
        } else if (has_uses_[item.index]) {
          block(item.index, env);
        }
      }
    }
  }

  void node(const Node& node, const Env& env) {
    for (const View& v : p_.operands(node))
      if (open_[v.buffer] && reads(v.access) && !slot(v, env)) decide(v.buffer, true);
    for (const View& v : p_.operands(node)) {
      if (!open_[v.buffer] || !writes(v.access)) continue;
      auto written = slot(v, env);
      if (written) continue;
      written = true;
      if (--unwritten_[v.buffer] == 0) decide(v.buffer, false);
    }
  }

  std::vector<bool>::reference slot(const View& v, const Env& env) {
    return written_[v.buffer][static_cast<std::size_t>(v.slot.at(env, p_.buffers[v.buffer].slots))];
  }

  void decide(BufferId buffer, bool is_read) {
    read_[buffer] = is_read;
    open_[buffer] = false;
    --left_;
  }

  const Program& p_;
  std::vector<bool> open_, read_;
  std::vector<std::int32_t> unwritten_;
  std::vector<std::vector<bool>> written_;
  std::vector<bool> has_uses_;
  std::size_t left_ = 0;
};

}  // namespace

std::vector<bool> read_before_written(const Program& program, const std::vector<bool>& among) {
  return FirstAccesses(program, among).run();
}

std::vector<bool> state_changes(const RankClass& rank_class) {
  const Program& p = rank_class.program;
  std::vector<bool> kept = homes(rank_class);
  for (const BufferId id : carried_buffers(rank_class)) kept[id] = true;
  std::vector<bool> result;
  for (const Node& node : p.nodes) {
    const auto views = p.operands(node);
    result.push_back(node.kind != OpKind::kMark &&
                     std::any_of(views.begin(), views.end(), [&](const View& v) {
                       return writes(v.access) && kept[v.buffer];
                     }));
  }
  return result;
}

std::vector<BufferId> carried_buffers(const RankClass& rank_class) {
  const Program& p = rank_class.program;
  std::vector<bool> among = homes(rank_class);
  for (BufferId id = 0; id < among.size(); ++id) among[id] = !among[id] && p.buffers[id].persistent;
  const std::vector<bool> carried = read_before_written(p, among);
  std::vector<BufferId> result;
  for (BufferId id = 0; id < carried.size(); ++id)
    if (carried[id]) result.push_back(id);
  return result;
}

}  // namespace zplan
