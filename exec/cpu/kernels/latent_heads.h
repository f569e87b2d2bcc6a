// Queries, keys and values of latent attention side by side, as attention.h takes them, from the
// products that give them [DeepSeek24 Eq.9-16], and their gradients. Ropes turn by the angles of
// rope.h; that of a key is one for all heads, so that its gradient is the sum of theirs.
#pragma once

#include "exec/cpu/kernels/half.h"
#include "exec/kernels/latent_heads.h"

namespace zplan::exec::cpu {

// 3 flop per element of a rope and the angles; each element is read once and written once.
template <typename T>
void latent_heads_forward(const LatentHeadsShape& shape, const LatentHeadsForward<T>& x);

template <typename T>
void latent_heads_backward(const LatentHeadsShape& shape, const LatentHeadsBackward<T>& x);

}  // namespace zplan::exec::cpu
