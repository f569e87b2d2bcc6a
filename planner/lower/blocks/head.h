// The output head: the product with its matrix, or with that of the token embedding when they are
// tied, and the loss of it. With tensor parallelism each rank has a piece of the vocabulary; the
// loss is taken from gathered statistics of all pieces [Shoeybi19 sec 3].
#pragma once

#include "planner/lower/blocks/embedding.h"
#include "planner/lower/blocks/emission.h"
#include "planner/lower/blocks/maker.h"

namespace zplan {

class Head {
 public:
  // `tied`: the table of the token embedding, if the head is that.
  // `cap`: c of logits c tanh(x / c); 0: none.
  Head(Maker& maker, const Vocabulary& vocabulary, Param tied, std::int64_t cap);

  void forward(Emission& to, const View& x, const View& logits) const;
  void weight_backward(Emission& to, const View& x, const View& dlogits, const View& dweight) const;
  void input_backward(Emission& to, const View& dlogits, const View& dx) const;

  bool is_tied() const { return tied_; }
  Param weight() const { return weight_; }
  std::int64_t width() const { return width_; }        // of a rank's logits
  std::int32_t tiles() const { return tiles_; }        // that these come in
  std::int64_t vocabulary() const { return tokens_; }  // without padding
  std::int64_t cap() const { return cap_; }

 private:
  bool tied_;
  std::int64_t tokens_, width_, cap_;
  std::int32_t tiles_;
  Param weight_;  // [V, h]
};

}  // namespace zplan
