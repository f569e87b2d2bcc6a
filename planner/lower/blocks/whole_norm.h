// RMSNorm [Zhang19] of queries and of keys, each over all of their heads together, with a gain of
// each element [OLMo24 sec 3.1], in place in what the product of queries, keys and values
// gives, before context parallel ranks exchange it. A tensor parallel rank has some of the heads:
// sums of squares, and in backward those of products, are added up over these ranks.
#pragma once

#include <array>

#include "planner/lower/blocks/attention_core.h"

namespace zplan {

class WholeNorm {
 public:
  // `all`: heads of the model; `own`: those of a rank.
  WholeNorm(LayerMaker& maker, const Heads& all, const Heads& own, std::int64_t epsilon);

  // qkv [T, (a + g) d + g v] of the rank.
  void forward(LayerPass& to, const View& qkv) const;
  // The gradient of the result becomes that of qkv.
  void backward(LayerPass& to, const View& dqkv) const;
  // Takes, in the second part of a backward, the gradients of the gains that the first has given.
  void take_gradients(LayerPass& to) const;

 private:
  struct Side {
    Part part;
    std::int64_t first, heads;  // of the rank
    std::int64_t width;         // of all ranks
    Param gain;
    Value kept;  // [b, s, m, d]
  };
  Side side(LayerMaker& maker, Part part, const char* tensor, std::int64_t first,
            std::int64_t heads, std::int64_t width) const;
  View by_head(View qkv) const;
  View gain_of(const Side& side, View vector) const;
  static View sums_of(View both, std::int64_t which);

  std::int64_t size_, epsilon_;
  Shape by_head_;              // [b, s, n, d]
  std::array<Side, 2> sides_;  // of queries and of keys
  Value squares_;              // [2, T], of both
};

}  // namespace zplan
