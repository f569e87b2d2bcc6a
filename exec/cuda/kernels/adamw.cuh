// Device code of adamw.h.
#pragma once

#include "exec/cuda/kernels/adamw.h"
#include "exec/cuda/kernels/device_support.cuh"
#include "exec/cuda/kernels/philox.cuh"
#include "planner/program/step_scalars.h"

namespace zplan::exec::cuda {

// The step's scalars in float.
struct UpdateFactors {
  float clip, keep, beta1, gain1, beta2, gain2, step_size, root_correction2, eps;
  std::uint32_t step;
  bool skip;
};

__device__ inline UpdateFactors update_factors(const double* s, const double* clip) {
  return {static_cast<float>(clip[kClipFactor]),
          static_cast<float>(1.0 - s[kLearningRate] * s[kWeightDecay]),
          static_cast<float>(s[kBeta1]),
          static_cast<float>(1.0 - s[kBeta1]),
          static_cast<float>(s[kBeta2]),
          static_cast<float>(1.0 - s[kBeta2]),
          static_cast<float>(s[kLearningRate] / s[kBiasCorrection1]),
          static_cast<float>(sqrt(s[kBiasCorrection2])),
          static_cast<float>(s[kEpsilon]),
          static_cast<std::uint32_t>(s[kUpdateNumber]),
          clip[kClipFactor] < 0 || s[kInactive] != 0};
}

// What of Adamw the kernel needs, with types.
template <typename P, typename S, typename G>
struct AdamwStates {
  P* master;
  S* m;
  S* v;
  const G* grad;
  Elements param;
  const double* scalars;
  const double* clip;
  std::int64_t n, flat_offset, decay_elements;
  std::uint32_t key0, key1, place;
};

// Of the pair of neighbours that flat element 2 * pair begins; two words for each of them. The top
// bit of the second counter keeps these draws apart from all others.
__device__ inline PhiloxWords draw(std::uint64_t pair, std::uint32_t step, std::uint32_t place,
                                   std::uint32_t key0, std::uint32_t key1) {
  constexpr std::uint32_t kDomain = 0x80000000u;
  return philox({{static_cast<std::uint32_t>(pair),
                  static_cast<std::uint32_t>(pair >> 32) | kDomain, step, place}},
                key0, key1);
}

template <int kWidth>
struct Draws {
  std::uint32_t first[kWidth], second[kWidth];  // of each element
};

// Of the elements from flat index `first` on, a multiple of 2 unless kWidth is 1.
template <int kWidth>
__device__ inline Draws<kWidth> draws_of(std::uint64_t first, std::uint32_t step,
                                         std::uint32_t place, std::uint32_t key0,
                                         std::uint32_t key1) {
  Draws<kWidth> draws;
  if constexpr (kWidth == 1) {
    const PhiloxWords words = draw(first / 2, step, place, key0, key1);
    const bool odd = first % 2 == 1;
    draws.first[0] = odd ? words.at[2] : words.at[0];
    draws.second[0] = odd ? words.at[3] : words.at[1];
  } else {
#pragma unroll
    for (int k = 0; k < kWidth; k += 2) {
      const PhiloxWords words = draw((first + k) / 2, step, place, key0, key1);
      draws.first[k] = words.at[0];
      draws.second[k] = words.at[1];
      draws.first[k + 1] = words.at[2];
      draws.second[k + 1] = words.at[3];
    }
  }
  return draws;
}

// Rounds stochastically to 16 bits by random[k] >> kShift; the values become those stored.
template <int kWidth, int kShift, typename T>
__device__ inline void store_state(T* to, Values<float, kWidth>& values,
                                   const std::uint32_t (&random)[kWidth]) {
  if constexpr (sizeof(T) == 2) {
    Pack<T, kWidth> pack;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      pack.at[k] = round_stochastically<T>(values.at[k], random[k] >> kShift);
      values.at[k] = widen(pack.at[k]);
    }
    *reinterpret_cast<Pack<T, kWidth>*>(to) = pack;
  } else {
    store<kWidth>(to, values);
  }
}

template <int kWidth>
__device__ inline void store_param(const Elements& param, std::int64_t i,
                                   const Values<float, kWidth>& p) {
  if (param.data == nullptr) return;
  if (param.type == DType::kBf16) {
    store<kWidth>(static_cast<__nv_bfloat16*>(param.data) + i, p);
  } else if (param.type == DType::kF16) {
    store<kWidth>(static_cast<__half*>(param.data) + i, p);
  } else {
    store<kWidth>(static_cast<float*>(param.data) + i, p);
  }
}

template <int kWidth, typename P, typename S, typename G>
__device__ inline void update(const AdamwStates<P, S, G>& x, const UpdateFactors& f,
                              std::int64_t i) {
  auto p = load<kWidth>(x.master + i);
  if (!f.skip) {
    auto m = load<kWidth>(x.m + i), v = load<kWidth>(x.v + i);
    const auto grad = load<kWidth>(x.grad + i);
    const std::int64_t flat = x.flat_offset + i;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const float g = grad.at[k] * f.clip;
      m.at[k] = f.beta1 * m.at[k] + f.gain1 * g;
      v.at[k] = f.beta2 * v.at[k] + f.gain2 * g * g;
      const float denominator = sqrtf(v.at[k]) / f.root_correction2 + f.eps;
      const float keep = flat + k < x.decay_elements ? f.keep : 1.0f;
      p.at[k] = p.at[k] * keep - f.step_size * (m.at[k] / denominator);
    }
    Draws<kWidth> draws{};
    if constexpr (sizeof(P) == 2 || sizeof(S) == 2)
      draws = draws_of<kWidth>(static_cast<std::uint64_t>(flat), f.step, x.place, x.key0, x.key1);
    store_state<kWidth, 0>(x.master + i, p, draws.first);
    store_state<kWidth, 16>(x.m + i, m, draws.first);
    store_state<kWidth, 0>(x.v + i, v, draws.second);
  }
  store_param<kWidth>(x.param, i, p);
}

// All arrays [n]; a pack begins at an even flat index unless kWidth is 1.
template <typename P, typename S, typename G, int kWidth>
__global__ void adamw_kernel(AdamwStates<P, S, G> x) {
  __shared__ UpdateFactors factors;
  if (threadIdx.x == 0) factors = update_factors(x.scalars, x.clip);
  __syncthreads();
  const UpdateFactors f = factors;
  for_packs<kWidth>(x.n,
                    [&](auto width, std::int64_t i) { update<decltype(width)::value>(x, f, i); });
}

}  // namespace zplan::exec::cuda
