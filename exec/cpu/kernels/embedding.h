// Token and position embedding, and its gradient. Token ids must lie in [0, V), s in the length of
// the position table. [Radford19]
// Left out: vocabulary-parallel tables, dropout.
#pragma once

#include <cstdint>

namespace zplan::exec::cpu {

struct EmbeddingShape {
  std::int64_t batch, sequence, hidden, vocab;
};

template <typename T>
struct EmbeddingForward {
  T* x;                        // [b, s, h], overwritten
  const std::int32_t* tokens;  // [b, s]
  const T* wte;                // [V, h]
  const T* wpe;                // [s, h], the first s rows of the table
};

template <typename T>
struct EmbeddingBackward {
  T* dwte;  // [V, h]
  T* dwpe;  // [s, h]
  const T* dx;
  const std::int32_t* tokens;
  bool accumulate_wte;  // false: overwritten, rows of absent tokens become zero; true: added
  bool accumulate_wpe;
};

// x = wte[token] + wpe[position]: b s h flop, 3 b s h elements moved.
template <typename T>
void embedding_forward(const EmbeddingShape& shape, const EmbeddingForward<T>& x);

// dwte[v] (+)= sum of dx where token = v, in token order; dwpe[i] (+)= sum over b of dx[b, i].
// 2 b s h flop; dx read once. Adding reads and writes the touched rows, at most b s of dwte;
// overwriting writes all V h and s h.
template <typename T>
void embedding_backward(const EmbeddingShape& shape, const EmbeddingBackward<T>& x);

}  // namespace zplan::exec::cpu
