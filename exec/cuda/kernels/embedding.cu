#include "exec/cuda/kernels/embedding.cuh"

#include "exec/cuda/kernels/embedding.h"
#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/sort.h"

namespace zplan::exec::cuda {

template <typename T>
void embedding_forward(cudaStream_t stream, const EmbeddingShape& s, const EmbeddingForward<T>& x) {
  const bool wide = is_aligned({x.x, x.wte, x.wpe}) && s.hidden % kWidthOf<T> == 0;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "embedding_forward", grid_of_rows(s.batch * s.sequence, s.hidden, w),
           embedding_forward_kernel<T, w>, x, s);
  });
}

namespace {

// Keys and places, and both in order, then what sorting them takes.
struct SortedPlaces {
  SortedPlaces(const EmbeddingShape& s, DeviceScratch scratch) {
    const std::int64_t n = s.batch * s.sequence;
    auto* const begin = reinterpret_cast<std::uint32_t*>(scratch.data);
    keys = begin;
    places = begin + n;
    pairs = {keys, places, begin + 2 * n, begin + 3 * n, n, static_cast<std::uint32_t>(s.rows)};
    const Bytes own = round_up(Bytes{4 * n * static_cast<std::int64_t>(sizeof *begin)}, kAligned);
    rest = {scratch.data + own.value / static_cast<std::int64_t>(sizeof(float)),
            scratch.size - own};
  }

  static constexpr Bytes kAligned{256};
  std::uint32_t *keys, *places;
  Pairs pairs;
  DeviceScratch rest;
};

// Of tokens whose keys and places are there.
SortedTokens sort_tokens(cudaStream_t stream, const SortedPlaces& sorted, std::int64_t inputs) {
  std::uint32_t* const ranks = sorted.places;  // these are as they were before sorting
  const Pairs& pairs = sorted.pairs;
  if (inputs <= kMostCounted) {
    launch(stream, "embedding_backward", grid_of(inputs * kWarp, kCountingTokens),
           embedding_count_kernel, pairs.sorted_keys, pairs.sorted_values, ranks, pairs.keys,
           static_cast<int>(inputs));
  } else {
    sort_pairs(stream, pairs, sorted.rest);
    launch(stream, "embedding_backward", grid_of(inputs, 1), embedding_ranks_kernel, ranks,
           pairs.sorted_values, inputs);
  }
  return {pairs.sorted_keys, pairs.sorted_values, ranks, static_cast<std::uint32_t>(inputs)};
}

}  // namespace

Bytes embedding_scratch_bytes(const EmbeddingShape& s) {
  const SortedPlaces sorted(s, {nullptr, Bytes{0}});
  return sort_scratch_bytes(sorted.pairs) - sorted.rest.size;
}

template <typename T, typename G>
void embedding_backward(cudaStream_t stream, const EmbeddingShape& s,
                        const EmbeddingBackward<T, G>& x, DeviceScratch scratch) {
  const std::int64_t inputs = s.batch * s.sequence;
  const SortedPlaces sorted(s, scratch);
  launch(stream, "embedding_backward", grid_of(inputs, 1), embedding_keys_kernel<T, G>, x, s,
         sorted.keys, sorted.places);
  const SortedTokens tokens = sort_tokens(stream, sorted, inputs);
  const bool wide = is_aligned({x.dwte, x.dwpe, x.dx}) && s.hidden % kWidthOf<T> == 0;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "embedding_backward", grid_of_rows(s.sequence + s.rows, s.hidden, w),
           embedding_backward_kernel<T, G, w>, x, s, tokens);
  });
}

#define ZPLAN_INSTANTIATE(T)                                              \
  template void embedding_forward<T>(cudaStream_t, const EmbeddingShape&, \
                                     const EmbeddingForward<T>&);
ZPLAN_FOR_CUDA_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G)                                               \
  template void embedding_backward<T, G>(cudaStream_t, const EmbeddingShape&, \
                                         const EmbeddingBackward<T, G>&, DeviceScratch);
ZPLAN_FOR_CUDA_GRADIENTS(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
