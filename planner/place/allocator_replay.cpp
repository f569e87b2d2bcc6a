#include "planner/place/allocator_replay.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "planner/place/held_besides.h"
#include "planner/place/request_replay.h"
#include "planner/program/instances/cursor.h"
#include "planner/program/job/model_end.h"
#include "planner/program/verify/shorten.h"

namespace zplan {
namespace {

constexpr std::size_t kClosed = ~std::size_t{0};

Bytes scaled(double bytes_each, std::int64_t count) {
  return {std::llround(bytes_each * static_cast<double>(count))};
}

// What stands beside an operand of a kernel of forward as long as that is kept: its result, or what
// it reads and changes first.
struct KeptRow {
  KernelId kernel;
  double HeldBesides::*each;
  Holder holder;
  bool of_first = false;
};
constexpr KeptRow kKept[] = {
    {KernelId::kAttentionForward, &HeldBesides::attention, Holder::kAttention},
    {KernelId::kRmsNormForward, &HeldBesides::rms_norm, Holder::kRmsNorm},
    {KernelId::kResidualRmsNormForward, &HeldBesides::rms_norm, Holder::kRmsNorm},
    {KernelId::kSwigluForward, &HeldBesides::gated, Holder::kGated},
    {KernelId::kGeluForward, &HeldBesides::gelu, Holder::kGelu},
    {KernelId::kLinearGeluForward, &HeldBesides::gelu, Holder::kGelu},
    {KernelId::kSoftmaxForward, &HeldBesides::scores, Holder::kScores, true},
};

// The requests of one step, in order of their first instance.
class RequestList {
 public:
  RequestList(const Program& program, const HeldBesides& besides)
      : p_(program),
        besides_(besides),
        first_slot_(program.buffers.size()),
        end_(program.buffers.size()),
        has_rows_(program.buffers.size()) {
    find_rows();
    std::size_t slots = 0;
    for (std::size_t b = 0; b < p_.buffers.size(); ++b) {
      first_slot_[b] = slots;
      slots += static_cast<std::size_t>(p_.buffers[b].slots);
    }
    slots_.resize(slots);
  }

  // Parameters that the rank updates, and gathered ones outside the layers, in elements.
  Requests collect(std::int64_t updated, std::int64_t ends) {
    const ProgramIndex index(p_);
    if (besides_.ends_stay) find_ends();
    const std::int64_t count = index.all_nodes();
    if (besides_.gather_buffers > 0) share_gathered(count);
    add(besides_.always, kBeforeStep, count, Holder::kAlways);
    for (BufferId id = 0; id < p_.buffers.size(); ++id)
      if (counts(id) && stays(p_.buffers[id])) add(p_.buffers[id].size(), kBeforeStep, count);
    Cursor at(index, std::nullopt, false);
    for (now_ = 0; now_ < count; ++now_, at.advance()) walk(*at);
    if (!launched_.empty()) launched_.push_back(launches_);  // after the last instance
    hold_for_update(scaled(besides_.update, updated));
    add(scaled(besides_.update_gather, gathered_), count - 1, count - 1, Holder::kUpdate);
    if (besides_.ends_stay) hold_ends(ends);
    std::stable_sort(list_.begin(), list_.end(),
                     [](const Request& a, const Request& b) { return a.first < b.first; });
    return {std::move(list_), std::move(launched_), update_first_};
  }

 private:
  using Range = std::pair<std::int64_t, std::int64_t>;
  struct Slot {
    std::size_t request = kClosed;
    std::vector<std::size_t> companions;  // as long as the request
    std::vector<Range> written;
  };
  // Bytes beside what an operand of the node holds.
  struct Beside {
    const View* operand = nullptr;
    Bytes size{0};
    Holder holder = Holder::kJob;
  };

  std::size_t add(Bytes size, std::int64_t first, std::int64_t last, Holder holder = Holder::kJob) {
    if (size.value <= 0) return kClosed;
    list_.push_back({size, first, last, holder});
    return list_.size() - 1;
  }
  void extend(std::size_t request) {
    if (request != kClosed) list_[request].last = now_;
  }

  bool counts(BufferId id) const {
    const Buffer& buffer = p_.buffers[id];
    return buffer.tier == Tier::kGpu && end_[id] != End::kReplaced &&
           (besides_.own_workspace || buffer.category != Category::kWorkspace);
  }
  bool stays(const Buffer& buffer) const {
    return buffer.persistent ||
           (besides_.gradients_stay && buffer.category == Category::kGradients);
  }

  void walk(const Instance& at) {
    const Node& node = p_.nodes[at.node];
    const auto operands = p_.operands(node);
    for (const View& view : operands)
      if (!is_given_early(node, operands, view)) use(view, at.env);
    count_launches(at, operands);
    hold_for_loss(node, operands);
    see_update(node);
    hold_on_its_way(node, operands, at.env);
    if (node.kind != OpKind::kKernel) return;
    for (const Beside& beside : besides_of(node, operands)) hold_beside(beside, at.env);
    if (node.kernel == KernelId::kSoftmaxBackward)
      add(scaled(besides_.passes, operands[0].shape.elements()), now_, now_, Holder::kPasses);
  }

  void count_launches(const Instance& at, std::span<const View> operands) {
    if (besides_.launches.empty()) return;
    launched_.push_back(launches_);
    launches_ += besides_.launches[at.node];
    if (p_.nodes[at.node].kind != OpKind::kCollective) return;
    for (const View& view : operands)
      if (const std::size_t request = slot_of(view, at.env).request; request != kClosed)
        list_[request].lags = true;
  }

  // All activations that tensor parallel ranks gather come into the same few buffers.
  void share_gathered(std::int64_t count) {
    Bytes most{0};
    for (const Node& node : p_.nodes) {
      if (node.kind != OpKind::kCollective || node.role.action != Action::kGatherRanks) continue;
      const View* result = result_of(p_.operands(node));
      if (result == nullptr) continue;
      end_[result->buffer] = End::kReplaced;
      most = std::max(most, p_.buffers[result->buffer].slot_size);
    }
    for (std::int32_t i = 0; i < besides_.gather_buffers; ++i) add(most, kBeforeStep, count);
  }

  // The first that the node writes.
  static const View* result_of(std::span<const View> operands) {
    const auto result = std::find_if(operands.begin(), operands.end(),
                                     [](const View& v) { return v.access == Access::kWrite; });
    return result == operands.end() ? nullptr : &*result;
  }

  std::vector<Beside> besides_of(const Node& node, std::span<const View> operands) const {
    const bool forward = node.role.phase == Phase::kForward || node.role.phase == Phase::kRecompute;
    if (!forward || node.role.action != Action::kCompute) return {};
    std::vector<Beside> all;
    const auto per_element = [&](double each, const View* of, Holder holder) {
      if (of != nullptr) all.push_back({of, scaled(each, of->shape.elements()), holder});
    };
    const View* result = result_of(operands);
    if (node.role.part == Part::kMlpNorm) per_element(besides_.residual, result, Holder::kResidual);
    for (const KeptRow& row : kKept)
      if (row.kernel == node.kernel)
        per_element(besides_.*row.each, row.of_first ? operands.data() : result, row.holder);
    if (node.kernel == KernelId::kAttentionForward && besides_.fused_qkv > 0)
      all.push_back({result, queries_and_keys(operands[0], *result), Holder::kFusedQkv});
    if (node.kernel == KernelId::kAttentionContext && besides_.repeated > 0)
      all.push_back({operands.data(), repeated(operands[0], operands[1]), Holder::kRepeated});
    return all;
  }

  // Of queries, keys and values [b, s, g, (a / g + 2) d] and the output [b, s, a, d].
  Bytes queries_and_keys(const View& by_group, const View& out) const {
    const std::int64_t tokens = by_group.shape[0] * by_group.shape[1];
    return scaled(besides_.fused_qkv, tokens * (out.shape[2] + by_group.shape[2]) * out.shape[3]);
  }

  // Of probabilities [b, a, s, s] and queries, keys and values [b, s, g, (a / g + 2) d].
  Bytes repeated(const View& probabilities, const View& by_group) const {
    const std::int64_t queries = probabilities.shape[1], keys = by_group.shape[2];
    const std::int64_t size = by_group.shape[3] / (queries / keys + 2);
    const std::int64_t tokens = by_group.shape[0] * by_group.shape[1];
    return scaled(besides_.repeated, 2 * tokens * (queries - keys) * size);
  }

  void hold_beside(const Beside& beside, const Env& env) {
    if (beside.size.value <= 0 || stays(p_.buffers[beside.operand->buffer])) return;
    std::vector<std::size_t>& companions = slot_of(*beside.operand, env).companions;
    const bool is_held = std::any_of(companions.begin(), companions.end(), [&](std::size_t other) {
      return list_[other].holder == beside.holder;
    });
    if (!is_held) companions.push_back(add(beside.size, now_, now_, beside.holder));
  }

  Slot& slot_of(const View& view, const Env& env) {
    const auto slot = static_cast<std::size_t>(view.slot.at(env, p_.buffers[view.buffer].slots));
    return slots_[first_slot_[view.buffer] + slot];
  }

  void use(const View& view, const Env& env) {
    const Buffer& buffer = p_.buffers[view.buffer];
    if (!counts(view.buffer) || stays(buffer)) return;
    Slot& slot = slot_of(view, env);
    const Range range{view.offset.value, (view.offset + view.bytes()).value};
    if (slot.request == kClosed || starts_anew(slot, view.access, range)) {
      const Holder holder = has_rows_[view.buffer] ? Holder::kExperts : Holder::kJob;
      slot.request = add(buffer.slot_size, now_, now_, holder);
      slot.companions.clear();
      slot.written.clear();
    }
    if (end_[view.buffer] == End::kGradients) end_gradients_[view.buffer] = slot.request;
    if (writes(view.access)) slot.written.push_back(range);
    extend(slot.request);
    for (const std::size_t companion : slot.companions) extend(companion);
  }

  // The buffers between the products of experts.
  void find_rows() {
    for (const Node& node : p_.nodes) {
      const bool forward = node.kernel == KernelId::kGroupedForward ||
                           node.kernel == KernelId::kGroupedLinearForward;
      if (node.kind != OpKind::kKernel || !forward) continue;
      const auto operands = p_.operands(node);
      has_rows_[operands[0].buffer] = true;
      if (const View* given = result_of(operands)) has_rows_[given->buffer] = true;
    }
  }

  // Returns whether backward reads rows that experts gave and that are not kept.
  bool is_given_early(const Node& node, std::span<const View> operands, const View& view) const {
    constexpr std::size_t kRows = 1;
    return besides_.early_weights && node.kind == OpKind::kKernel &&
           node.kernel == KernelId::kCombineRowsBackward && &view == &operands[kRows];
  }

  // New content over what was there.
  bool starts_anew(const Slot& slot, Access access, const Range& range) const {
    if (access != Access::kWrite && access != Access::kScratch) return false;
    if (list_[slot.request].first == now_) return false;
    return std::any_of(slot.written.begin(), slot.written.end(), [&](const Range& other) {
      return range.first < other.second && other.first < range.second;
    });
  }

  // Of each unit outside the layers: what it is gathered into and its gradients are cast into is
  // held otherwise; its gradients before that cast.
  enum class End : std::uint8_t { kNone, kReplaced, kGradients };
  void find_ends() {
    for (const Node& node : p_.nodes) {
      if (model_end_of(node.role.part) == ModelEnd::kNone) continue;
      const auto operands = p_.operands(node);
      const View* result = result_of(operands);
      if (result == nullptr || !(is_gather(node) || is_cast(node))) continue;
      end_[result->buffer] = End::kReplaced;
      if (is_cast(node)) end_[operands[0].buffer] = End::kGradients;
    }
  }
  static bool is_gather(const Node& node) {
    return node.kind == OpKind::kCollective && node.role.action == Action::kGather;
  }
  // Of whole gradients, before they are reduced; not of what goes home.
  bool is_cast(const Node& node) const {
    if (node.role.action != Action::kCastGradient) return false;
    const View* result = result_of(p_.operands(node));
    return result != nullptr && p_.buffers[result->buffer].category == Category::kGathered;
  }

  void hold_ends(std::int64_t elements) {
    if (first_gather_ == kNever || elements == 0) return;
    const std::int64_t end = update_first_ == kNever ? now_ : update_first_ - 1;
    add(size_of(gathered_dtype_) * elements, first_gather_, end, Holder::kEnds);
    add(size_of(DType::kF32) * elements, end, end, Holder::kEnds);
    for (const auto& [buffer, request] : end_gradients_) list_[request].last = end;
  }

  // Units of layers: where one is gathered into or reduced from stays until the next one's is.
  void hold_on_its_way(const Node& node, std::span<const View> operands, const Env& env) {
    if (!is_gather(node) && !is_cast(node)) return;
    const View* result = result_of(operands);
    if (result == nullptr) return;
    if (is_gather(node) && first_gather_ == kNever) {
      first_gather_ = now_;
      gathered_dtype_ = result->dtype;
    }
    if (model_end_of(node.role.part) != ModelEnd::kNone) return;
    if (is_gather(node)) {
      extend(gathering_);
      gathering_ =
          add(scaled(besides_.gather, result->shape.elements()), now_, now_, Holder::kGather);
    } else if (besides_.reduced_stay) {
      extend(reducing_);
      reducing_ = slot_of(*result, env).request;
    }
  }

  void see_update(const Node& node) {
    if (node.role.phase != Phase::kNorm && node.role.phase != Phase::kUpdate) return;
    if (update_first_ == kNever) update_first_ = now_;
    update_last_ = now_;
    if (!is_gather(node)) return;
    if (const View* result = result_of(p_.operands(node))) gathered_ += result->shape.elements();
  }

  // Copies of the logits, each in fp32 or less, live from the first kernel of the loss to the last.
  void hold_for_loss(const Node& node, std::span<const View> operands) {
    constexpr double kCopy = 4;  // bytes per logit
    const bool last =
        node.kernel == KernelId::kCrossEntropy || node.kernel == KernelId::kCrossEntropyParallel;
    const bool any = last || node.kernel == KernelId::kCrossEntropyStatistics;
    if (node.kind != OpKind::kKernel || !any) return;
    if (loss_.empty())
      for (double rest = besides_.loss; rest > 0; rest -= kCopy)
        loss_.push_back(add(scaled(std::min(rest, kCopy), operands[0].shape.elements()), now_, now_,
                            Holder::kLoss));
    for (const std::size_t copy : loss_) extend(copy);
    if (last) loss_.clear();
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
  std::vector<std::size_t> loss_;
  std::size_t gathering_ = kClosed, reducing_ = kClosed;
  std::vector<End> end_;                           // by buffer
  std::vector<bool> has_rows_;                     // of experts, by buffer
  std::map<BufferId, std::size_t> end_gradients_;  // the last request of each buffer
  std::int64_t first_gather_ = kNever;
  DType gathered_dtype_ = DType::kF32;
  std::int64_t update_first_ = kNever, update_last_ = kNever;
  std::int64_t gathered_ = 0;  // parameters, after the update
  double launches_ = 0;
  std::vector<double> launched_;
};

std::int64_t parameters_outside_layers(const Job& job, const RankClass& own) {
  std::int64_t elements = 0;
  for (const UnitHome& home : own.homes)
    if (const Unit& unit = job.units[home.unit]; !unit.per_layer) elements += unit.flat_elements;
  return elements;
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
  const Requests requests =
      RequestList(program, besides)
          .collect(updated_parameters(own), parameters_outside_layers(job, own));
  const RequestReplay replay(requests, besides.queue, besides.gives_back ? kReplayedSteps : 1,
                             expandable_segments);
  std::optional<ReplayedMemory> memory = replay.run(RequestReplay::kNoLimit);
  if (besides.gives_back) memory->least = replay.least(*memory);
  return memory;
}

}  // namespace zplan
