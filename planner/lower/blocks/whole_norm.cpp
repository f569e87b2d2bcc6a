#include "planner/lower/blocks/whole_norm.h"

#include <string>

#include "planner/program/kernels/attribute_values.h"

namespace zplan {

WholeNorm::WholeNorm(LayerMaker& maker, const Heads& all, const Heads& own, std::int64_t epsilon)
    : size_(own.size),
      epsilon_(epsilon_attribute(epsilon)),
      by_head_{maker.b(), maker.s(), own.all(), own.size},
      sides_{side(maker, Part::kQueryNorm, "query_norm", 0, own.queries, all.queries * all.size),
             side(maker, Part::kKeyNorm, "key_norm", own.queries, own.keys, all.keys * all.size)},
      squares_(maker.values.add({.name = "qk_norm.squares",
                                 .shape = {2, maker.tokens()},
                                 .dtype = maker.kernels.statistics,
                                 .of = LayerOperator::kQkv})) {}

WholeNorm::Side WholeNorm::side(LayerMaker& maker, Part part, const char* tensor,
                                std::int64_t first, std::int64_t heads, std::int64_t width) const {
  const Param gain = maker.params.add({maker.naming.of(tensor, ".weight"),
                                       {width},
                                       {width},
                                       Init::kOne,
                                       0,
                                       false,
                                       {Split::Kind::kColumns, {width}}});
  const Value kept = maker.values.add({.name = std::string(tensor) + ".input",
                                       .shape = {maker.b(), maker.s(), heads, size_},
                                       .dtype = maker.compute(),
                                       .of = LayerOperator::kQkv});
  return {part, first, heads, width, gain, kept};
}

View WholeNorm::by_head(View qkv) const {
  qkv.shape = by_head_;
  return qkv;
}

View WholeNorm::gain_of(const Side& side, View vector) const {
  vector.shape = {side.heads, size_};
  return vector;
}

View WholeNorm::sums_of(View both, std::int64_t which) {
  both.shape = {both.shape[1]};
  both.offset = both.offset + both.bytes() * which;
  return both;
}

void WholeNorm::forward(LayerPass& to, const View& qkv) const {
  const View x = by_head(qkv), squares = to[squares_];
  for (std::int64_t i = 0; i < 2; ++i) {
    const Side& side = sides_[static_cast<std::size_t>(i)];
    to.kernel(side.part, Action::kReduce, KernelId::kWholeNormSquares,
              {read(x), write(to[side.kept]), write(sums_of(squares, i))}, {side.first});
  }
  to.add_up(Part::kQueryNorm, squares);
  for (std::int64_t i = 0; i < 2; ++i) {
    const Side& side = sides_[static_cast<std::size_t>(i)];
    to.kernel(side.part, KernelId::kWholeNormForward,
              {update(x), read(to[side.kept]), read(sums_of(squares, i)),
               gain_of(side, to.parameter(side.gain))},
              {side.first, side.width, epsilon_});
  }
}

void WholeNorm::backward(LayerPass& to, const View& dqkv) const {
  if (!to.emits_inputs()) return;
  const View dx = by_head(dqkv), squares = to[squares_];
  const View products = to.scratch("d.qk_norm", squares.shape, squares.dtype);
  for (std::int64_t i = 0; i < 2; ++i) {
    const Side& side = sides_[static_cast<std::size_t>(i)];
    to.kernel(side.part, Action::kReduce, KernelId::kWholeNormProducts,
              {read(dx), read(to[side.kept]), gain_of(side, to.parameter(side.gain)),
               write(sums_of(products, i))},
              {side.first});
  }
  to.add_up(Part::kQueryNorm, products);
  for (std::int64_t i = 0; i < 2; ++i) {
    const Side& side = sides_[static_cast<std::size_t>(i)];
    const View gain = gain_of(side, to.parameter(side.gain));
    to.kernel(
        side.part, KernelId::kWholeNormBackward,
        {update(dx), read(to[side.kept]), read(sums_of(squares, i)), read(sums_of(products, i)),
         gain, gain_of(side, to.gradient(side.gain)), to.workspace()},
        {side.first, side.width, epsilon_});
  }
}

void WholeNorm::take_gradients(LayerPass& to) const {
  if (to.emits_inputs()) return;
  for (const Side& side : sides_) to.take_gradient(side.part, side.gain, false);
}

}  // namespace zplan
