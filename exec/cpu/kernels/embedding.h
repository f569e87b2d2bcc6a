// Token and position embedding, and its gradient, of a piece of the vocabulary: tokens outside
// [first, first + rows) look up 0 and have no gradient here, so the pieces sum to the whole
// [Shoeybi19 sec 3]. s must not exceed the length of the position table. [Radford19]
// Left out: dropout.
#pragma once

#include <cstdint>

#include "exec/cpu/kernels/scratch.h"
#include "exec/kernels/arguments.h"

namespace zplan::exec::cpu {

// x = scale wte[token] + wpe[position]: b s h flop, 3 b s h elements moved.
template <typename T>
void embedding_forward(const EmbeddingShape& shape, const EmbeddingForward<T>& x);

// dwte[v] (+)= sum of scale dx where token = v, in token order, rounded once to G; dwpe[i] (+)= sum
// over b of dx[b, i]. 2 b s h flop; dx read twice. Adding reads and writes the touched rows, at
// most b s of dwte; overwriting writes all of both.
template <typename T, typename G = T>
void embedding_backward(const EmbeddingShape& shape, const EmbeddingBackward<T, G>& x,
                        Scratch scratch);
Bytes embedding_scratch_bytes(const EmbeddingShape& shape);

}  // namespace zplan::exec::cpu
