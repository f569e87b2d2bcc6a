// A mixer of tokens with a state that goes through the sequence [Dao24 sec 7], [Yang24b sec 3]: one
// product gives a gate z, what is convolved, and some numbers of each head, side by side in this
// order; a causal convolution of each channel with SiLU follows, then the recurrence of a mixer of
// its own (mamba.h, gated_delta.h), a norm with the gate, and the last product.
//
// Tensor parallel ranks cut heads, and the groups or key heads that these share, each part of the
// first product for itself. What is kept for backward is as [Mamba] keeps it: the first product,
// what the recurrence gives, and the result of the norm; the convolution is computed again.
#pragma once

#include <vector>

#include "planner/lower/blocks/body.h"
#include "planner/lower/blocks/channel_convolution.h"
#include "planner/lower/blocks/column_factors.h"

namespace zplan {

// A vector with a number of each head, which ranks cut as they cut heads.
struct HeadVector {
  const char* tensor;
  Init init = Init::kZero;
};

struct StateShape {
  const char* prefix;                 // of the names of its tensors
  std::vector<std::int64_t> columns;  // of the first product: z, what is convolved, of heads
  std::int64_t heads = 0;
  std::vector<HeadVector> vectors;
  std::int64_t inner = 0;      // columns of z and of the result
  std::int64_t convolved = 0;  // columns that are convolved
  std::int64_t taps = 0;       // tokens of the convolution
  bool conv_bias = false;
  bool keeps_convolved = false;  // for backward
  std::int64_t norms = 1;        // equal parts of the result that are normalised; 0: the gate alone
  bool gate_last = false;        // the gate comes behind the norm, with one gain of all parts
  std::int64_t epsilon = kUsualNormEpsilon;
  std::vector<ColumnFactor> factors{};          // of the columns of a rank
  std::int64_t out_factor = PartFactors::kOne;  // of what the last product reads
};

class StateMixer : public Body {
 public:
  std::vector<Use> uses() const override { return {in_.use(), out_.linear.use()}; }
  BodyResult result() const override { return out_; }
  void forward(LayerPass& to, const View& x) const override;
  void backward(LayerPass& to, const View& x, const View& dy, const View& dx) const override;

 protected:
  StateMixer(LayerMaker& maker, const StateShape& shape);

  Param vector(std::size_t i) const { return vectors_[i]; }
  // Scratch of a kernel, of so many elements of 32 bit or more.
  static View scan_scratch(LayerPass& to, std::int64_t elements);

  // Computes y [b, s, v] from x and the columns of heads, the last of `in`.
  virtual void scan(LayerPass& to, const View& x, const View& in, const View& y) const = 0;
  // Computes dx and those columns of din from dy, and the gradients of its vectors.
  virtual void scan_backward(LayerPass& to, const View& dy, const View& x, const View& in,
                             const View& dx, const View& din) const = 0;

 private:
  View mix_backward(LayerPass& to, const View& dnormed) const;
  void gate(LayerPass& to) const;
  void gate_backward(LayerPass& to, const View& dnormed, const View& d, const View& din) const;
  void scale_result(LayerPass& to, const View& of) const;
  void take_gradients(LayerPass& to) const;

  std::int64_t epsilon_;
  bool gate_last_, keeps_convolved_;
  std::int64_t gate_width_;  // of a rank, as all below
  ColumnFactors factors_;
  std::int64_t out_factor_;
  Linear in_;                // [h, w]
  ChannelConvolution conv_;  // [k, c], [c]
  std::vector<Param> vectors_;
  Param gain_;  // [v] or that of one part
  Value in_out_, convolved_, y_, normed_,
      rstd_;         // [b, s, w], [b, s, c], [b, s, v] twice, [b, s, m]
  LastProduct out_;  // [v, h]
};

}  // namespace zplan
