// Token and position embedding, and its gradient, of a piece of the vocabulary: tokens outside
// [first, first + rows) look up 0 and have no gradient here, so the pieces sum to the whole
// [Shoeybi19 sec 3]. s must not exceed the length of the position table. [Radford19]
// Left out: dropout.
#pragma once

#include <cstdint>

namespace zplan::exec::cpu {

struct EmbeddingShape {
  std::int64_t batch, sequence, hidden;
  std::int64_t rows;              // of the piece
  std::int64_t first = 0;         // token of its row 0
  std::int64_t token_stride = 0;  // from sequence to sequence; 0: dense
};

template <typename T>
struct EmbeddingForward {
  T* x;                        // [b, s, h], overwritten
  const std::int32_t* tokens;  // [b, s]
  const T* wte;                // [rows, h]
  const T* wpe;                // [s, h], the first s rows of the table; null: no positions
};

template <typename T, typename G = T>
struct EmbeddingBackward {
  G* dwte;  // [rows, h]
  G* dwpe;  // [s, h]; null: no positions
  const T* dx;
  const std::int32_t* tokens;
  bool accumulate_wte;  // false: overwritten, rows of absent tokens become zero; true: added
  bool accumulate_wpe;
};

// x = wte[token] + wpe[position]: b s h flop, 3 b s h elements moved.
template <typename T>
void embedding_forward(const EmbeddingShape& shape, const EmbeddingForward<T>& x);

// dwte[v] (+)= sum of dx where token = v, in token order; dwpe[i] (+)= sum over b of dx[b, i]. Each
// addition to dwte rounds to G.
// 2 b s h flop; dx read twice. Adding reads and writes the touched rows, at most b s of dwte;
// overwriting writes all of both.
template <typename T, typename G = T>
void embedding_backward(const EmbeddingShape& shape, const EmbeddingBackward<T, G>& x);

}  // namespace zplan::exec::cpu
