// The norm of several heads together takes these arguments on every device: of x [b, s, n, d] so
// many heads side by side, from a first one on, with a gain of each element. Ranks may share the
// heads: then the sums that the second steps take are those of all of them.
#pragma once

#include "exec/kernels/head_norm.h"

namespace zplan::exec {

template <typename T>
struct WholeNormSquares {
  const T* x;        // [b, s, n, d]
  T* kept;           // [b, s, m, d] its heads, overwritten
  Compute<T>* sums;  // [b s] of their squares, overwritten
};

template <typename T>
struct WholeNormForward {
  T* x;                    // [b, s, n, d], its heads overwritten
  const T* kept;           // [b, s, m, d]
  const Compute<T>* sums;  // [b s]
  const T* gain;           // [m, d]
  std::int64_t width;      // elements that were added up
  double epsilon;
};

template <typename T>
struct WholeNormProducts {
  const T* dx;       // [b, s, n, d], of its heads the gradient of the result
  const T* x;        // [b, s, m, d] as kept
  const T* gain;     // [m, d]
  Compute<T>* sums;  // [b s] of dx gain x, overwritten
};

template <typename T, typename G = T>
struct WholeNormBackward {
  T* dx;       // [b, s, n, d], its heads: the gradient of the result becomes that of x
  G* dgain;    // [m, d]
  const T* x;  // [b, s, m, d] as kept
  const Compute<T>* squares;   // [b s]
  const Compute<T>* products;  // [b s]
  const T* gain;               // [m, d]
  std::int64_t width;
  double epsilon;
  bool accumulate_dgain;  // false overwrites, true adds
};

}  // namespace zplan::exec
