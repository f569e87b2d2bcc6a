#include "exec/cpu/kernels/embedding.h"

#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {

template <typename T>
void embedding_forward(const EmbeddingShape& shape, const EmbeddingForward<T>& x) {
  const std::int64_t h = shape.hidden;
  for_rows(shape.batch * shape.sequence, h, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const T* token = x.wte + static_cast<std::int64_t>(x.tokens[t]) * h;
      const T* position = x.wpe + (t % shape.sequence) * h;
      T* out = x.x + t * h;
      for (std::int64_t j = 0; j < h; ++j) out[j] = token[j] + position[j];
    }
  });
}

// A thread owns columns, not tokens: repeated tokens then need no locks and keep their order.
template <typename T>
void embedding_backward(const EmbeddingShape& shape, const EmbeddingBackward<T>& x) {
  const std::int64_t h = shape.hidden;
  if (!x.accumulate_wte) fill_zero(x.dwte, shape.vocab * h);
  if (!x.accumulate_wpe) fill_zero(x.dwpe, shape.sequence * h);
  for_columns(shape.batch * shape.sequence, h, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = 0; t < shape.batch * shape.sequence; ++t) {
      const T* dx = x.dx + t * h;
      T* token = x.dwte + static_cast<std::int64_t>(x.tokens[t]) * h;
      T* position = x.dwpe + (t % shape.sequence) * h;
      for (std::int64_t j = begin; j < end; ++j) {
        token[j] += dx[j];
        position[j] += dx[j];
      }
    }
  });
}

template void embedding_forward<float>(const EmbeddingShape&, const EmbeddingForward<float>&);
template void embedding_forward<double>(const EmbeddingShape&, const EmbeddingForward<double>&);
template void embedding_backward<float>(const EmbeddingShape&, const EmbeddingBackward<float>&);
template void embedding_backward<double>(const EmbeddingShape&, const EmbeddingBackward<double>&);

}  // namespace zplan::exec::cpu
