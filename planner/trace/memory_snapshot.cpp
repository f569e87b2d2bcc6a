#include "planner/trace/memory_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "planner/trace/pickle.h"
#include "planner/trace/rank_trace.h"

namespace zplan {
namespace {

constexpr std::int64_t kBase = std::int64_t{1} << 40;  // of the slab: any address, not 0

struct Event {
  BufferId buffer = 0;
  bool allocates = true;
  OpId op = 0;
  std::int64_t time_us = 0;
};

bool covers(const Program& program, const Lifetime& life, BlockIndex block) {
  for (const std::size_t n : {std::size_t{life.first} - 1, std::size_t{life.last} + 1}) {
    if (n >= program.nodes.size()) continue;
    BlockIndex at = program.nodes[n].block;
    while (at != block && at != 0) at = program.blocks[at].parent;
    if (at == block) return false;
  }
  return true;
}

// The block of which each iteration has the buffer once: the innermost one around its life, or, of
// a life that is all of a loop, what is around the loop.
BlockIndex scope_of(const Program& program, const Lifetime& life) {
  BlockIndex a = program.nodes[life.first].block, b = program.nodes[life.last].block;
  while (a != b) {
    BlockIndex& deeper = program.blocks[a].depth < program.blocks[b].depth ? b : a;
    deeper = program.blocks[deeper].parent;
  }
  while (a != 0 && covers(program, life, a)) a = program.blocks[a].parent;
  return a;
}

// What begins or ends with an instance of a node.
struct Border {
  BufferId buffer = 0;
  std::size_t depth = 0;  // of the scope
};

class StepWalk {
 public:
  StepWalk(const RankSpans& rank, const std::vector<Lifetime>& lives)
      : rank_(rank),
        program_(rank.program()),
        begins_(program_.nodes.size()),
        ends_(program_.nodes.size()) {
    for (BufferId b = 0; b < lives.size(); ++b) {
      const Buffer& buffer = program_.buffers[b];
      if (buffer.tier != Tier::kGpu || !lives[b].used()) continue;
      if (buffer.persistent) {
        events_.push_back({b, true, 0, 0});
        continue;
      }
      const auto depth =
          static_cast<std::size_t>(program_.blocks[scope_of(program_, lives[b])].depth);
      begins_[lives[b].first].push_back({b, depth});
      ends_[lives[b].last].push_back({b, depth});
    }
  }

  std::vector<Event> walk(SimTime zero) {
    const TimelineFold fold(program_);
    std::int32_t step = 0;
    for (const Span& span : rank_.timeline().spans) step = std::max(step, span.step);
    Cursor cursor(rank_.index(), std::nullopt);
    for (; cursor->step() < step; cursor.advance()) {
    }
    for (; cursor->step() == step; cursor.advance())
      if (!fold.hidden_by(*cursor)) visit(*cursor, zero);
    return std::move(events_);
  }

 private:
  // Whether the loops below the scope are in their first, or their last, iteration.
  bool is_outermost(const Instance& at, std::size_t depth, bool last) const {
    BlockIndex block = program_.nodes[at.node].block;
    for (; static_cast<std::size_t>(program_.blocks[block].depth) > depth;
         block = program_.blocks[block].parent) {
      const Block& b = program_.blocks[block];
      const std::int64_t wanted = last ? b.count - 1 : 0;
      if (at.iterations[static_cast<std::size_t>(b.depth)] != wanted) return false;
    }
    return true;
  }

  void visit(const Instance& at, SimTime zero) {
    const Node& node = program_.nodes[at.node];
    if (const LaneSpan* span = rank_.find(node.lane, at.lane_sequence))
      now_ns_ = std::max(now_ns_, nanoseconds(span->span->start, zero));
    const OpId op = op_id(program_, node, at.env);
    for (const Border& b : begins_[at.node])
      if (is_outermost(at, b.depth, false)) events_.push_back({b.buffer, true, op, now_ns_ / 1000});
    for (const Border& b : ends_[at.node])
      if (is_outermost(at, b.depth, true)) events_.push_back({b.buffer, false, op, now_ns_ / 1000});
  }

  const RankSpans& rank_;
  const Program& program_;
  std::vector<std::vector<Border>> begins_, ends_;  // by node
  std::vector<Event> events_;
  std::int64_t now_ns_ = 0;
};

class Snapshot {
 public:
  explicit Snapshot(const Job& job) : job_(job) {}

  void event(int device, const Event& e) {
    const RankClass& c = job_.classes[static_cast<std::size_t>(device)];
    const Buffer& buffer = c.program.buffers[e.buffer];
    if (!e.allocates) entry(c, e, "free_requested", buffer);
    entry(c, e, e.allocates ? "alloc" : "free_completed", buffer);
  }
  void segment_event(const RankClass& c) {
    out.begin_dict();
    out.entry("action", "segment_alloc");
    out.entry("addr", kBase);
    out.entry("size", slab(c));
    out.entry("stream", std::int64_t{0});
    out.entry("time_us", std::int64_t{0});
    out.put("frames");
    out.begin_list();
    out.end_list();
    out.end_dict();
  }
  // As it is after the step: what is persistent.
  void segment(int device) {
    const RankClass& c = job_.classes[static_cast<std::size_t>(device)];
    std::vector<BufferId> kept;
    std::int64_t active = 0;
    for (BufferId b = 0; b < c.program.buffers.size(); ++b) {
      const Buffer& buffer = c.program.buffers[b];
      if (buffer.tier != Tier::kGpu || !buffer.persistent) continue;
      kept.push_back(b);
      active += buffer.size().value;
    }
    std::sort(kept.begin(), kept.end(), [&](BufferId a, BufferId b) {
      return c.placement.offset[a] < c.placement.offset[b];
    });
    out.begin_dict();
    out.entry("device", std::int64_t{device});
    out.entry("address", kBase);
    out.entry("total_size", slab(c));
    out.entry("allocated_size", active);
    out.entry("active_size", active);
    out.entry("requested_size", active);
    out.entry("stream", std::int64_t{0});
    out.entry("segment_type", "large");
    out.put("frames");
    out.begin_list();
    out.end_list();
    out.put("blocks");
    out.begin_list();
    blocks(c, kept);
    out.end_list();
    out.end_dict();
  }

  PickleWriter out;

 private:
  static std::int64_t slab(const RankClass& c) {
    return c.placement.slab[static_cast<std::size_t>(Tier::kGpu)].value;
  }
  static std::int64_t address(const RankClass& c, BufferId buffer) {
    return kBase + c.placement.offset[buffer].value;
  }

  void blocks(const RankClass& c, const std::vector<BufferId>& kept) {
    std::int64_t at = kBase;
    for (const BufferId b : kept) {
      const Buffer& buffer = c.program.buffers[b];
      if (buffer.size().value == 0) continue;
      if (at < address(c, b)) block(at, address(c, b) - at, "inactive", nullptr);
      block(address(c, b), buffer.size().value, "active_allocated", &buffer);
      at = address(c, b) + buffer.size().value;
    }
    if (at < kBase + slab(c)) block(at, kBase + slab(c) - at, "inactive", nullptr);
  }

  void block(std::int64_t at, std::int64_t size, std::string_view state, const Buffer* buffer) {
    out.begin_dict();
    out.entry("address", at);
    out.entry("size", size);
    out.entry("requested_size", buffer != nullptr ? size : 0);
    out.entry("state", state);
    out.put("frames");
    out.begin_list();
    if (buffer != nullptr) frame(buffer->name, name(buffer->category), 0);
    out.end_list();
    out.end_dict();
  }

  void frame(std::string_view what, std::string_view where, std::int64_t line) {
    out.begin_dict();
    out.entry("name", what);
    out.entry("filename", where);
    out.entry("line", line);
    out.end_dict();
  }

  void entry(const RankClass& c, const Event& e, std::string_view action, const Buffer& buffer) {
    out.begin_dict();
    out.entry("action", action);
    out.entry("addr", address(c, e.buffer));
    out.entry("size", buffer.size().value);
    out.entry("stream", std::int64_t{0});
    out.entry("time_us", e.time_us);
    out.put("frames");
    out.begin_list();
    frame(buffer.name, name(buffer.category), 0);
    if (!buffer.persistent)
      frame(op_name(e.op), name(role_of(e.op)), static_cast<std::int64_t>((e.op >> 28) & 0xffff));
    out.end_list();
    out.end_dict();
  }

  const Job& job_;
};

}  // namespace

std::string memory_snapshot(const Job& job, const JobLifetimes& lives, const Timeline& timeline) {
  std::vector<RankSpans> ranks;
  for (const RankTimeline& rank : timeline.ranks) {
    if (static_cast<std::size_t>(rank.stage) != ranks.size()) continue;
    ranks.emplace_back(job.classes[ranks.size()].program, rank, TraceScope::kOneStep);
  }
  const SimTime zero = first_start(ranks);
  Snapshot snapshot(job);
  PickleWriter& out = snapshot.out;
  out.begin_dict();
  out.put("segments");
  out.begin_list();
  for (std::size_t s = 0; s < ranks.size(); ++s) snapshot.segment(static_cast<int>(s));
  out.end_list();
  out.put("device_traces");
  out.begin_list();
  for (std::size_t s = 0; s < ranks.size(); ++s) {
    out.begin_list();
    snapshot.segment_event(job.classes[s]);
    for (const Event& e : StepWalk(ranks[s], lives[s]).walk(zero))
      snapshot.event(static_cast<int>(s), e);
    out.end_list();
  }
  out.end_list();
  out.end_dict();
  return out.finish();
}

}  // namespace zplan
