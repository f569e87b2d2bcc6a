// What the blocks of a layer are emitted through: the values of the layer, the operators that are
// replayed, tiles, the ranks of a tensor parallel group.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "planner/lower/blocks/emission.h"
#include "planner/lower/blocks/value.h"
#include "planner/lower/ranks.h"
#include "planner/lower/tensor_parallel.h"

namespace zplan {

// Rows of x, which are its last dimension, and their codes.
inline Shape rows_of(const Shape& shape) {
  const std::int64_t columns = shape[shape.rank - 1];
  return {shape.elements() / columns, columns};
}
inline View as_rows(View x) {
  x.shape = rows_of(x.shape);
  return x;
}
inline Shape codes_of(const KernelSet& kernels, const Shape& shape) {
  const Shape rows = rows_of(shape);
  return {rows[0], kernels.codes.row_bytes(rows[1]).value};
}

// A forward needs this parameter, and a replay of these operators needs it again.
struct Use {
  OperatorSet of;
  Param param;
};

class LayerPass : public Emission {
 public:
  explicit LayerPass(Stage& stage) : Emission(stage), ranks_(stage) {}

  // Returns whether this forward, or replay, computes what one of these operators gives. What
  // belongs to none is computed only when the whole layer is.
  virtual bool emits(OperatorSet of) const = 0;
  // Whether it computes the whole layer.
  bool emits_all() const { return emits({}); }
  virtual bool replays_selectively() const = 0;
  // The layer that is emitted; in a loop the first that it stands for: all have the same turn.
  virtual std::int64_t layer() const = 0;
  // Whether two parameters can be read by one kernel: a ring keeps one unit.
  virtual bool are_together(Param a, Param b) const = 0;
  // A tensor that the gradients of weights are taken from. It is scratch; where backward comes in
  // two parts, the first part leaves it for the second, and `part` and `name` tell it from others.
  virtual View handed(Part part, const char* name, const Shape& shape, bool tiled) = 0;
  // In the second part of a backward: brings the gradient of a parameter that the first part has
  // given to where gradients are added up.
  virtual void take_gradient(Part part, Param param, bool is_bias) = 0;
  // Keeps the gradients of this parameter's unit open, whatever says that it is done, until the
  // end: a branch without a gain of its norm writes some behind those of its first product.
  virtual void hold(Param /*param*/) {}
  virtual void end_hold() {}
  bool in_tiles() const { return s_.tiles() > 1; }
  // Emits a loop over the tiles, each of which needs these parameters.
  virtual void each_tile(const std::vector<Use>& uses, const std::function<void()>& emit) = 0;

  const View& operator[](Value value) const { return views_[value.index()]; }
  // An empty view where the layer has no such value.
  View maybe(Value value) const { return value ? views_[value.index()] : View{}; }

  // [T, width] of all tokens and one tile.
  View handed_tokens(Part part, const char* name, std::int64_t width) {
    return handed(part, name, {s_.tokens(), width}, true);
  }
  // [T, width] of all tokens.
  View scratch_tokens(const char* name, std::int64_t width) {
    return scratch(name, {s_.tokens(), width});
  }
  // Tiles add to what the ones before them left, or to what is there.
  View add_tiles(const View& sum) const {
    if (sum.access == Access::kUpdate) return sum;
    return access(sum, s_.tiles() > 1 ? Access::kUpdate : Access::kWrite);
  }
  void clear_for_tiles(Part part, const View& sum) {
    if (s_.tiles() > 1) kernel(part, Action::kZero, KernelId::kFillZero, {write(sum)});
  }
  // The same of a gradient of what is not cut.
  View add_tiles(Param param) {
    const View sum = gradient(param);
    return s_.tiles() > 1 ? access(sum, Access::kUpdate) : sum;
  }
  void clear_for_tiles(Part part, Param param) {
    if (s_.tiles() == 1) return;
    const View sum = gradient(param);
    if (sum.access == Access::kWrite) clear_for_tiles(part, sum);
  }
  // Emits nodes of a backward that compute something again.
  void again(const std::function<void()>& emit) {
    const Backward apart = backward_part();
    enter(Phase::kRecompute);
    emit();
    enter(Phase::kBackward, apart);
  }
  View gathered(Part part, const View& x, const char* name) {
    return ranks_.gathered(phase(), part, x, name);
  }
  // Returns whether tensor parallel ranks have other tokens each, outside of their joint work.
  bool gathers_tokens() const { return s_.sequence_parallel(); }
  // Emits the cast of x to codes (planner/plan/low_precision.h), and what codes stand for.
  void quantize(Part part, const View& x, const View& codes) {
    kernel(part, Action::kEncode, KernelId::kQuantizeRows, {read(as_rows(x)), write(codes)},
           {s_.kernels.codes.block});
  }
  View dequantized(Part part, const View& codes, const std::string& name, const Shape& shape,
                   DType dtype) {
    const View x = scratch(name, shape, dtype);
    kernel(part, Action::kDecode, KernelId::kDequantizeRows, {read(codes), write(as_rows(x))},
           {s_.kernels.codes.block});
    return x;
  }
  // The same as gathered() of a gradient: its codes move where the plan keeps codes.
  View gathered_gradient(Part part, const View& dy, const char* name) {
    if (!s_.plan.low_precision.keeps_codes || !gathers_tokens()) return gathered(part, dy, name);
    const std::string base = name;
    const View own = scratch(base + ".codes", codes_of(s_.kernels, dy.shape), DType::kU8);
    quantize(part, dy, own);
    const View codes = gathered(part, own, (base + ".all").c_str());
    return dequantized(part, codes, base, {codes.shape[0], dy.shape[1]}, dy.dtype);
  }
  View summed(Part part, const View& partial, const std::string& name) {
    return ranks_.summed(phase(), part, partial, name.c_str());
  }
  // The same into a view of the rank's tokens.
  void sum_into(Part part, const View& partial, const View& target) {
    ranks_.sum_into(phase(), part, partial, target);
  }
  // What each tensor parallel rank has in `from`, of all of them one after the other.
  void gather_parts(Part part, const View& from, const View& to) {
    s_.out.collective({phase(), part, Action::kGatherRanks}, Lane::kCommTensor,
                      CollectiveKind::kAllGather, s_.tensor_group(), from, to);
  }
  // Adds up over the tensor parallel ranks, in place, what each of them has.
  void add_up(Part part, const View& sums) {
    if (s_.tp() == 1) return;
    s_.out.collective({phase(), part, Action::kSumRanks}, Lane::kCommTensor,
                      CollectiveKind::kAllReduce, s_.tensor_group(), sums, sums);
  }
  // Each tensor parallel rank gets its part of the sum of what they have in `from`.
  void sum_parts(Part part, const View& from, const View& to) {
    s_.out.collective({phase(), part, Action::kSumRanks}, Lane::kCommTensor,
                      CollectiveKind::kReduceScatter, s_.tensor_group(), from, to);
  }
  // Each rank along the axis gives every other one an equal part of `from`, in the order of their
  // places, and has what it gets in `to`, in that order.
  void exchange(Part part, std::string_view axis, const View& from, const View& to) {
    exchange(part, s_.mesh.named(axis), from, to);
  }
  // The same of ranks that have other experts.
  void exchange_rows(Part part, const View& from, const View& to, const Attributes& choices = {}) {
    exchange(part, expert_axes(s_.plan, s_.mesh), from, to, choices);
  }
  // Each rank of an expert group has in `to` what all of them have in `from`, one after the other.
  void gather_rows(Part part, const View& from, const View& to) {
    s_.out.collective({phase(), part, Action::kGatherTokens}, Lane::kCommTensor,
                      CollectiveKind::kAllGather, {expert_axes(s_.plan, s_.mesh)}, from, to);
  }
  // Each of these ranks gets its part of the sum of what they have in `from`.
  void sum_rows(Part part, const View& from, const View& to) {
    s_.out.collective({phase(), part, Action::kSumTokens}, Lane::kCommTensor,
                      CollectiveKind::kReduceScatter, {expert_axes(s_.plan, s_.mesh)}, from, to);
  }
  // Tokens are on their way between experts: what follows waits for them or stands beside that.
  void launched() { s_.out.end_part(); }
  // The rank's place among them.
  Attribute place_among_experts() const {
    return {0, s_.mesh.steps_over(expert_axes(s_.plan, s_.mesh), 1)};
  }
  // Each rank along the axis gives the next one what it has in `from`, the last one the first.
  void shift(Part part, std::string_view axis, const View& from, const View& to) {
    s_.out.collective({phase(), part, Action::kExchange}, Lane::kCommTensor, CollectiveKind::kShift,
                      {s_.mesh.named(axis)}, from, to);
  }
  // One of several steps of a block, which count as tiles.
  void step(std::int32_t i, const std::function<void()>& emit) {
    s_.out.repeat({.count = 1, .var = Var::kTile, .first = i}, emit);
  }

 protected:
  ValueViews views_;

 private:
  void exchange(Part part, AxisSet axes, const View& from, const View& to,
                const Attributes& attributes = {}) {
    s_.out.collective({phase(), part, Action::kExchange}, Lane::kCommTensor,
                      CollectiveKind::kAllToAll, {axes}, from, to, attributes);
  }
  TensorParallel ranks_;
};

}  // namespace zplan
