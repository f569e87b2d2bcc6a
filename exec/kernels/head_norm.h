// What the norm of heads takes on every device: of x [b, s, n, d] so many heads side by side, from
// a first one on, are normalised in place, each over its d elements, with one gain for all of them.
// T is the compute type of the kernel set, G that of gradients.
#pragma once

#include "exec/kernels/arguments.h"

namespace zplan::exec {

struct HeadNormShape {
  std::int64_t tokens, heads, head_dim;  // of the array
  std::int64_t first, normed;            // the heads that are normalised

  std::int64_t rows() const { return tokens * normed; }
};

template <typename T>
struct HeadNormForward {
  T* x;              // [b, s, n, d], its heads overwritten
  T* kept;           // [b, s, m, d] what they were, overwritten
  Compute<T>* rstd;  // [b, s, m], overwritten
  const T* gain;     // [d]
  double epsilon = epsilon_of(0);
};

template <typename T, typename G = T>
struct HeadNormBackward {
  T* dx;                   // [b, s, n, d], its heads: the gradient of the result becomes that of x
  G* dgain;                // [d]
  const T* x;              // [b, s, m, d] as kept
  const Compute<T>* rstd;  // [b, s, m]
  const T* gain;           // [d]
  bool accumulate_dgain;   // false overwrites, true adds
};

}  // namespace zplan::exec
