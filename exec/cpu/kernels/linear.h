// Linear layers and the output head as products of GemmCache. T = b s tokens.
// Weights are stored [in, out] (y = x W, the Conv1D layout of GPT-2 checkpoints), the token
// embedding wte [V, h]. Work: 2 T in out flop each for forward, dgrad and wgrad (head: 2 T h V).
// Before the first step, the caller prepares the *_gemm shapes it will run in its GemmCache; the
// scratch of a call is what the cache reports for that shape.
// Left out: fused activation, the gradient of wte as an embedding (embedding.h).
#pragma once

#include "exec/cpu/kernels/gemm.h"

namespace zplan::exec::cpu {

struct LinearShape {
  std::int64_t tokens, in, out;
};

// Adding forwards sum over the tiles of an operator, adding dgrads over its column pieces.
GemmShape linear_forward_gemm(const LinearShape& shape, bool bias, bool accumulate);
GemmShape linear_dgrad_gemm(const LinearShape& shape, bool accumulate);
GemmShape linear_wgrad_gemm(const LinearShape& shape, bool accumulate);

template <typename T>
struct LinearForward {
  T* y;                     // [T, out]
  const T* x;               // [T, in]
  const T* w;               // [in, out]
  const T* bias;            // [out]; null: none
  bool accumulate = false;  // false overwrites, true adds
};

template <typename T>
struct LinearDgrad {
  T* dx;        // [T, in]
  const T* dy;  // [T, out]
  const T* w;   // [in, out]
  bool accumulate = false;
};

template <typename T, typename G = T>
struct LinearWgrad {
  G* dw;     // [in, out]
  G* dbias;  // [out]; null: none
  const T* dy;
  const T* x;
  bool accumulate;  // of both
};

// y (+)= x W + bias
template <typename T>
void linear_forward(GemmCache& cache, const LinearShape& shape, const LinearForward<T>& x,
                    Scratch scratch);
// dx (+)= dy W^T
template <typename T>
void linear_dgrad(GemmCache& cache, const LinearShape& shape, const LinearDgrad<T>& x,
                  Scratch scratch);
// dW (+)= x^T dy, dbias (+)= column sums of dy
template <typename T, typename G = T>
void linear_wgrad(GemmCache& cache, const LinearShape& shape, const LinearWgrad<T, G>& x,
                  Scratch scratch);

// Rows of logits are padded_vocab long; the columns from vocab on are padding: forward writes zeros
// there, dgrad and wgrad do not read them. wte has vocab rows.
struct HeadShape {
  std::int64_t tokens, hidden, vocab, padded_vocab;
};

GemmShape head_forward_gemm(const HeadShape& shape);
GemmShape head_dgrad_gemm(const HeadShape& shape);
GemmShape head_wgrad_gemm(const HeadShape& shape, bool accumulate);

template <typename T>
struct HeadForward {
  T* logits;     // [T, Vp], overwritten
  const T* x;    // [T, h]
  const T* wte;  // [V, h]
};

template <typename T>
struct HeadDgrad {
  T* dx;             // [T, h], overwritten
  const T* dlogits;  // [T, Vp]
  const T* wte;      // [V, h]
};

template <typename T, typename G = T>
struct HeadWgrad {
  G* dwte;           // [V, h]
  const T* dlogits;  // [T, Vp]
  const T* x;        // [T, h]
  bool accumulate;
};

// logits = x wte^T
template <typename T>
void head_forward(GemmCache& cache, const HeadShape& shape, const HeadForward<T>& x,
                  Scratch scratch);
// dx = dlogits wte
template <typename T>
void head_dgrad(GemmCache& cache, const HeadShape& shape, const HeadDgrad<T>& x, Scratch scratch);
// dwte (+)= dlogits^T x
template <typename T, typename G = T>
void head_wgrad(GemmCache& cache, const HeadShape& shape, const HeadWgrad<T, G>& x,
                Scratch scratch);

}  // namespace zplan::exec::cpu
