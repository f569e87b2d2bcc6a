#include "planner/place/allocator_replay.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "planner/place/caching_allocator.h"
#include "planner/program/instances/cursor.h"
#include "planner/program/verify/shorten.h"

namespace zplan {
namespace {

constexpr std::int64_t kBeforeStep = -1, kNever = -1;
constexpr std::size_t kClosed = ~std::size_t{0};

Bytes scaled(double bytes_each, std::int64_t count) {
  return {std::llround(bytes_each * static_cast<double>(count))};
}

// From the instance before which it is made to the one after which it is given back.
struct Request {
  Bytes size;
  std::int64_t first, last;
  Holder holder;
};

// The requests of one step, in order of their first instance.
class RequestList {
 public:
  RequestList(const Program& program, const HeldBesides& besides)
      : p_(program), besides_(besides), first_slot_(program.buffers.size()) {
    std::size_t slots = 0;
    for (std::size_t b = 0; b < p_.buffers.size(); ++b) {
      first_slot_[b] = slots;
      slots += static_cast<std::size_t>(p_.buffers[b].slots);
    }
    slots_.resize(slots);
  }

  std::vector<Request> collect(std::int64_t updated) {
    const ProgramIndex index(p_);
    const std::int64_t count = index.all_nodes();
    add(besides_.always, kBeforeStep, count, Holder::kAlways);
    for (const Buffer& buffer : p_.buffers)
      if (counts(buffer) && stays(buffer)) add(buffer.size(), kBeforeStep, count);
    Cursor at(index, std::nullopt, false);
    for (now_ = 0; now_ < count; ++now_, at.advance()) walk(*at);
    hold_for_update(scaled(besides_.update, updated));
    std::stable_sort(list_.begin(), list_.end(),
                     [](const Request& a, const Request& b) { return a.first < b.first; });
    return std::move(list_);
  }

 private:
  using Range = std::pair<std::int64_t, std::int64_t>;
  struct Slot {
    std::size_t request = kClosed, companion = kClosed;
    std::vector<Range> written;
  };

  std::size_t add(Bytes size, std::int64_t first, std::int64_t last, Holder holder = Holder::kJob) {
    if (size.value <= 0) return kClosed;
    list_.push_back({size, first, last, holder});
    return list_.size() - 1;
  }
  void extend(std::size_t request) {
    if (request != kClosed) list_[request].last = now_;
  }

  bool counts(const Buffer& buffer) const {
    return buffer.tier == Tier::kGpu &&
           (besides_.own_workspace || buffer.category != Category::kWorkspace);
  }
  bool stays(const Buffer& buffer) const {
    return buffer.persistent ||
           (besides_.gradients_stay && buffer.category == Category::kGradients);
  }

  void walk(const Instance& at) {
    const Node& node = p_.nodes[at.node];
    const auto operands = p_.operands(node);
    for (const View& view : operands) use(view, at.env);
    hold_for_loss(node, operands);
    see_update(node);
    const auto [beside, holder] = beside_result(node);
    if (beside <= 0) return;
    const auto result = std::find_if(operands.begin(), operands.end(),
                                     [](const View& v) { return v.access == Access::kWrite; });
    if (result == operands.end() || stays(p_.buffers[result->buffer])) return;
    Slot& slot = slot_of(*result, at.env);
    if (slot.companion == kClosed)
      slot.companion = add(scaled(beside, result->shape.elements()), now_, now_, holder);
  }

  // Per element of what the node gives.
  std::pair<double, Holder> beside_result(const Node& node) const {
    const bool forward = node.role.phase == Phase::kForward || node.role.phase == Phase::kRecompute;
    if (!forward || node.role.action != Action::kCompute) return {0, Holder::kJob};
    if (node.role.part == Part::kMlpNorm) return {besides_.residual, Holder::kResidual};
    const bool fused = node.kernel == KernelId::kAttentionForward;
    return {fused ? besides_.attention : 0, Holder::kAttention};
  }

  Slot& slot_of(const View& view, const Env& env) {
    const auto slot = static_cast<std::size_t>(view.slot.at(env, p_.buffers[view.buffer].slots));
    return slots_[first_slot_[view.buffer] + slot];
  }

  void use(const View& view, const Env& env) {
    const Buffer& buffer = p_.buffers[view.buffer];
    if (!counts(buffer) || stays(buffer)) return;
    Slot& slot = slot_of(view, env);
    const Range range{view.offset.value, (view.offset + view.bytes()).value};
    if (slot.request == kClosed || starts_anew(slot, view.access, range)) {
      slot.request = add(buffer.slot_size, now_, now_);
      slot.companion = kClosed;
      slot.written.clear();
    }
    if (writes(view.access)) slot.written.push_back(range);
    extend(slot.request);
    extend(slot.companion);
  }

  // New content over what was there.
  bool starts_anew(const Slot& slot, Access access, const Range& range) const {
    if (access != Access::kWrite && access != Access::kScratch) return false;
    if (list_[slot.request].first == now_) return false;
    return std::any_of(slot.written.begin(), slot.written.end(), [&](const Range& other) {
      return range.first < other.second && other.first < range.second;
    });
  }

  void see_update(const Node& node) {
    if (node.role.phase != Phase::kNorm && node.role.phase != Phase::kUpdate) return;
    if (update_first_ == kNever) update_first_ = now_;
    update_last_ = now_;
  }

  // The copy of the logits lives from the first kernel of the loss to the last.
  void hold_for_loss(const Node& node, std::span<const View> operands) {
    const bool last =
        node.kernel == KernelId::kCrossEntropy || node.kernel == KernelId::kCrossEntropyParallel;
    const bool any = last || node.kernel == KernelId::kCrossEntropyStatistics;
    if (node.kind != OpKind::kKernel || !any) return;
    if (loss_ == kClosed)
      loss_ = add(scaled(besides_.loss, operands[0].shape.elements()), now_, now_, Holder::kLoss);
    extend(loss_);
    if (last) loss_ = kClosed;
  }

  void hold_for_update(Bytes size) {
    if (update_last_ != kNever) add(size, update_first_, update_last_, Holder::kUpdate);
  }

  const Program& p_;
  const HeldBesides& besides_;
  std::vector<std::size_t> first_slot_;  // of each buffer, in slots_
  std::vector<Slot> slots_;
  std::vector<Request> list_;
  std::int64_t now_ = 0;
  std::size_t loss_ = kClosed;
  std::int64_t update_first_ = kNever, update_last_ = kNever;
};

ReplayedMemory replay(const std::vector<Request>& requests, bool expandable_segments) {
  std::vector<std::size_t> by_last(requests.size());
  std::iota(by_last.begin(), by_last.end(), std::size_t{0});
  std::stable_sort(by_last.begin(), by_last.end(), [&](std::size_t a, std::size_t b) {
    return requests[a].last < requests[b].last;
  });
  CachingAllocator allocator(expandable_segments);
  std::vector<CachingAllocator::Handle> handles(requests.size());
  ReplayedMemory result;
  result.requests = static_cast<std::int64_t>(requests.size());
  std::array<Bytes, kHolderCount> held{};
  const auto of = [&](std::size_t i) -> Bytes& {
    return held[static_cast<std::size_t>(requests[i].holder)];
  };
  Bytes live{0};
  std::size_t ended = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (; requests[by_last[ended]].last < requests[i].first; ++ended) {
      allocator.release(handles[by_last[ended]]);
      live -= requests[by_last[ended]].size;
      of(by_last[ended]) -= requests[by_last[ended]].size;
    }
    handles[i] = allocator.allocate(requests[i].size);
    live += requests[i].size;
    of(i) += requests[i].size;
    if (live <= result.live) continue;
    result.live = live;
    result.at_peak = held;
  }
  result.allocated = allocator.most_allocated();
  result.reserved = allocator.most_reserved();
  return result;
}

}  // namespace

std::int64_t updated_parameters(const RankClass& rank_class) {
  const auto& buffers = rank_class.program.buffers;
  std::int64_t elements = 0;
  for (const UnitHome& home : rank_class.homes) {
    if (home.is_frozen) continue;
    for (const BufferId id : home.updated().buffers())
      if (const Buffer& states = buffers[id]; states.tier == Tier::kGpu)
        elements += states.size().value / size_of(states.dtype).value;
  }
  return elements;
}

std::optional<ReplayedMemory> replay_allocator(const Job& job, std::size_t rank_class,
                                               const HeldBesides& besides,
                                               bool expandable_segments) {
  const RankClass& own = job.classes[rank_class];
  const std::int64_t period = micro_period(own.program);
  const Program program = shorten(own.program, period, 2 * period + kKeptMicros);
  if (ProgramIndex(program).all_nodes() > kMostReplayed) return std::nullopt;
  return replay(RequestList(program, besides).collect(updated_parameters(own)),
                expandable_segments);
}

}  // namespace zplan
