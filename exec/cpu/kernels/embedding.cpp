#include "exec/cpu/kernels/embedding.h"

#include <algorithm>
#include <span>

#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {
namespace {

std::int64_t token_of(const EmbeddingShape& s, const std::int32_t* tokens, std::int64_t t) {
  const std::int64_t stride = s.token_stride == 0 ? s.sequence : s.token_stride;
  return tokens[t / s.sequence * stride + t % s.sequence];
}

bool holds(const EmbeddingShape& s, std::int64_t token) {
  return token >= s.first && token < s.first + s.rows;
}

template <typename T>
void look_up(const EmbeddingShape& s, const EmbeddingForward<T>& x, std::int64_t t) {
  using C = Compute<T>;
  const std::int64_t token = token_of(s, x.tokens, t);
  const T* from = holds(s, token) ? x.wte + (token - s.first) * s.hidden : nullptr;
  const T* position = x.wpe != nullptr ? x.wpe + t % s.sequence * s.hidden : nullptr;
  T* out = x.x + t * s.hidden;
  if (s.scale != 1) {
    const C scale = static_cast<C>(s.scale);
    for (std::int64_t j = 0; j < s.hidden; ++j) {
      const C own = from != nullptr ? scale * static_cast<C>(from[j]) : 0;
      out[j] = static_cast<T>(position != nullptr ? own + static_cast<C>(position[j]) : own);
    }
    return;
  }
  if (from != nullptr && position != nullptr) {
    for (std::int64_t j = 0; j < s.hidden; ++j)
      out[j] = static_cast<T>(static_cast<C>(from[j]) + static_cast<C>(position[j]));
    return;
  }
  const T* only = from != nullptr ? from : position;
  if (only != nullptr) {
    std::copy_n(only, s.hidden, out);
  } else {
    std::fill_n(out, s.hidden, static_cast<T>(0));
  }
}

// A place of a token of the piece: row of the table, then place in the batch, so that places sort
// by row and keep their order.
using Place = std::uint64_t;
constexpr int kRowShift = 32;
std::int64_t row_of(Place place) { return static_cast<std::int64_t>(place >> kRowShift); }
std::int64_t token_of(Place place) {
  return static_cast<std::int64_t>(place & ((Place{1} << kRowShift) - 1));
}

std::span<const Place> sorted_places(const EmbeddingShape& s, const std::int32_t* tokens,
                                     Scratch scratch) {
  const std::int64_t all = s.batch * s.sequence;
  ZPLAN_ASSERT(embedding_scratch_bytes(s).value <= std::ssize(scratch));
  auto* const places = reinterpret_cast<Place*>(scratch.data());
  std::int64_t count = 0;
  for (std::int64_t t = 0; t < all; ++t) {
    const std::int64_t token = token_of(s, tokens, t);
    if (!holds(s, token)) continue;
    places[count++] = static_cast<Place>(token - s.first) << kRowShift | static_cast<Place>(t);
  }
  std::sort(places, places + count);
  return {places, static_cast<std::size_t>(count)};
}

// A thread owns columns, not tokens. A row is read and written once, whatever its token occurs.
template <typename T, typename G>
void add_tokens(const EmbeddingShape& s, const EmbeddingBackward<T, G>& x,
                std::span<const Place> places, std::int64_t begin, std::int64_t end) {
  using C = Compute<T>;
  const C scale = static_cast<C>(s.scale);
  for (std::size_t i = 0; i < places.size();) {
    const std::int64_t number = row_of(places[i]);
    G* row = x.dwte + number * s.hidden;
    C sum[kColumnBlock];
    for (std::int64_t j = begin; j < end; ++j) sum[j - begin] = static_cast<C>(row[j]);
    for (; i < places.size() && row_of(places[i]) == number; ++i) {
      const T* dx = x.dx + token_of(places[i]) * s.hidden;
      for (std::int64_t j = begin; j < end; ++j) sum[j - begin] += scale * static_cast<C>(dx[j]);
    }
    for (std::int64_t j = begin; j < end; ++j) row[j] = static_cast<G>(sum[j - begin]);
  }
}

template <typename T, typename G>
void add_positions(const EmbeddingShape& s, const EmbeddingBackward<T, G>& x, std::int64_t begin,
                   std::int64_t end) {
  using C = Compute<T>;
  for (std::int64_t i = 0; i < s.sequence; ++i) {
    C sum[kColumnBlock] = {};
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const T* dx = x.dx + (b * s.sequence + i) * s.hidden;
      for (std::int64_t j = begin; j < end; ++j) sum[j - begin] += static_cast<C>(dx[j]);
    }
    G* row = x.dwpe + i * s.hidden;
    for (std::int64_t j = begin; j < end; ++j) {
      const C before = x.accumulate_wpe ? static_cast<C>(row[j]) : static_cast<C>(0);
      row[j] = static_cast<G>(before + sum[j - begin]);
    }
  }
}

}  // namespace

template <typename T>
void embedding_forward(const EmbeddingShape& shape, const EmbeddingForward<T>& x) {
  for_rows(shape.batch * shape.sequence, shape.hidden, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) look_up(shape, x, t);
  });
}

Bytes embedding_scratch_bytes(const EmbeddingShape& shape) {
  return {shape.batch * shape.sequence * static_cast<std::int64_t>(sizeof(Place))};
}

template <typename T, typename G>
void embedding_backward(const EmbeddingShape& shape, const EmbeddingBackward<T, G>& x,
                        Scratch scratch) {
  const std::span<const Place> places = sorted_places(shape, x.tokens, scratch);
  if (!x.accumulate_wte) fill_zero(x.dwte, shape.rows * shape.hidden);
  for_columns(shape.batch * shape.sequence, shape.hidden,
              [&](std::int64_t begin, std::int64_t end) {
                add_tokens(shape, x, places, begin, end);
                if (x.dwpe != nullptr) add_positions(shape, x, begin, end);
              });
}

#define ZPLAN_INSTANTIATE(T) \
  template void embedding_forward<T>(const EmbeddingShape&, const EmbeddingForward<T>&);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G)                                                                 \
  template void embedding_backward<T, G>(const EmbeddingShape&, const EmbeddingBackward<T, G>&, \
                                         Scratch);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
