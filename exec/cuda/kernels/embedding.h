// Token and position embedding, and its gradient, of a piece of the vocabulary: tokens outside
// [first, first + rows) look up 0 and have no gradient here [Shoeybi19 sec 3]. Positions as in
// [Radford19]. T is float, __half or __nv_bfloat16, G of T or float.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace zplan::exec::cuda {

struct EmbeddingShape {
  std::int64_t batch, sequence, hidden;
  std::int64_t rows;          // of the piece
  std::int64_t first;         // token of its row 0
  std::int64_t token_stride;  // from sequence to sequence
};

template <typename T>
struct EmbeddingForward {
  T* x;                        // [b, s, h], overwritten
  const std::int32_t* tokens;  // [b, token_stride], the first s of each
  const T* wte;                // [rows, h]
  const T* wpe;                // [s, h]; null: no positions
};

template <typename T, typename G>
struct EmbeddingBackward {
  G* dwte;  // [rows, h]
  G* dwpe;  // [s, h]; null: no positions
  const T* dx;
  const std::int32_t* tokens;
  bool accumulate_wte;  // false: overwritten, rows of absent tokens become zero; true: added
  bool accumulate_wpe;
};

// x = wte[token] + wpe[position]: 3 b s h elements moved.
template <typename T>
void embedding_forward(cudaStream_t stream, const EmbeddingShape& shape,
                       const EmbeddingForward<T>& x);

// dwte[v] (+)= sum of dx where token = v, in token order, each addition rounded to G; dwpe[i] (+)=
// sum over b of dx[b, i]. A block per token: the block of a token's first occurrence adds them all.
// dx read twice; the touched rows of dwte read and written, overwriting also writes all of it once;
// the tokens are read b s times, from cache.
template <typename T, typename G>
void embedding_backward(cudaStream_t stream, const EmbeddingShape& shape,
                        const EmbeddingBackward<T, G>& x);

}  // namespace zplan::exec::cuda
