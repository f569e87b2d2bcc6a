// Device code of sgd.h.
#pragma once

#include "exec/cuda/kernels/adamw.cuh"

namespace zplan::exec::cuda {

// What of Sgd the kernel needs, with types.
template <typename P, typename S, typename G>
struct SgdStates {
  P* master;
  S* m;  // null: no momentum
  const G* grad;
  Elements param;
  const double* scalars;
  const double* clip;
  std::int64_t n, flat_offset, decay_elements;
  std::uint32_t key0, key1, place;
};

template <int kWidth, typename P, typename S, typename G>
__device__ inline void descend(const SgdStates<P, S, G>& x, float rate, float decay, float clip,
                               float momentum, std::uint32_t step, bool skip, std::int64_t i) {
  auto p = load<kWidth>(x.master + i);
  if (!skip) {
    auto g = load<kWidth>(x.grad + i);
    const std::int64_t flat = x.flat_offset + i;
    Draws<kWidth> draws{};
    if constexpr (sizeof(P) == 2 || sizeof(S) == 2)
      draws = draws_of<kWidth>(static_cast<std::uint64_t>(flat), step, x.place, x.key0, x.key1);
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      g.at[k] = g.at[k] * clip + (flat + k < x.decay_elements ? decay * p.at[k] : 0.0f);
    if (x.m != nullptr) {
      auto m = load<kWidth>(x.m + i);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) g.at[k] = m.at[k] = momentum * m.at[k] + g.at[k];
      store_state<kWidth, 16>(x.m + i, m, draws.first);
    }
#pragma unroll
    for (int k = 0; k < kWidth; ++k) p.at[k] -= rate * g.at[k];
    store_state<kWidth, 0>(x.master + i, p, draws.first);
  }
  store_param<kWidth>(x.param, i, p);
}

// All arrays [n]; a pack begins at an even flat index unless kWidth is 1.
template <typename P, typename S, typename G, int kWidth>
__global__ void sgd_kernel(SgdStates<P, S, G> x) {
  const auto rate = static_cast<float>(x.scalars[kLearningRate]);
  const auto decay = static_cast<float>(x.scalars[kWeightDecay]);
  const auto momentum = static_cast<float>(x.scalars[kBeta1]);
  const auto clip = static_cast<float>(x.clip[kClipFactor]);
  const auto step = static_cast<std::uint32_t>(x.scalars[kUpdateNumber]);
  const bool skip = x.clip[kClipFactor] < 0 || x.scalars[kInactive] != 0;
  for_packs<kWidth>(x.n, [&](auto width, std::int64_t i) {
    descend<decltype(width)::value>(x, rate, decay, clip, momentum, step, skip, i);
  });
}

}  // namespace zplan::exec::cuda
