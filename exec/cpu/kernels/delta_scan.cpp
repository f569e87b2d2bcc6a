#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/delta_rule.h"
#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/state_gates.h"
#include "exec/cpu/kernels/state_scan.h"

namespace zplan::exec::cpu {
namespace {

struct DeltaPlaces {
  std::int64_t q, k, v, b, a, y;
};
DeltaPlaces places_of(const DeltaScanShape& s, std::int64_t sequence, std::int64_t head,
                      std::int64_t t) {
  const std::int64_t row = sequence * s.sequence + t, key = head / (s.heads / s.key_heads);
  const std::int64_t x = row * s.columns(), in = row * s.wide + s.wide - 2 * s.heads + head;
  return {x + key * s.key_size,
          x + s.keys() + key * s.key_size,
          x + 2 * s.keys() + head * s.value_size,
          in,
          in + s.heads,
          row * s.values() + head * s.value_size};
}

template <typename C>
struct DeltaStep {
  C raw, rate, decay, beta;
};
template <typename C, typename Of>
DeltaStep<C> delta_step_of(const Of& x, std::int64_t head, const DeltaPlaces& at) {
  const C raw = static_cast<C>(x.in[at.a]) + static_cast<C>(x.dt_bias[head]);
  const C rate = std::exp(static_cast<C>(x.a_log[head]));
  return {raw, rate, std::exp(-rate * softplus(raw)), sigmoid(static_cast<C>(x.in[at.b]))};
}

// What a token does to a state; `missing`: what of its value the state lacked.
template <typename C, typename Of>
void learn_token(const DeltaScanShape& s, const Of& x, const DeltaPlaces& at,
                 const DeltaStep<C>& step, const C* k, C* state, C* missing) {
  const auto decay = [&](std::int64_t) { return step.decay; };
  learn(s, state, decay, step.beta, k, x.x + at.v, missing);
}

template <typename T>
void delta_forward_head(const DeltaScanShape& s, const DeltaScanForward<T>& x,
                        std::int64_t sequence, std::int64_t head, Compute<T>* state) {
  using C = Compute<T>;
  const C scale = static_cast<C>(1) / std::sqrt(static_cast<C>(s.key_size));
  Unit<C> q, k;
  C missing[kMostSize];
  std::fill_n(state, s.state(), static_cast<C>(0));
  for (std::int64_t t = 0; t < s.sequence; ++t) {
    const DeltaPlaces at = places_of(s, sequence, head, t);
    divide_by_length(x.x + at.q, s.key_size, q);
    divide_by_length(x.x + at.k, s.key_size, k);
    learn_token(s, x, at, delta_step_of<C>(x, head, at), k.values, state, missing);
    C y[kMostSize] = {};
    for (std::int64_t i = 0; i < s.key_size; ++i)
      for (std::int64_t j = 0; j < s.value_size; ++j)
        y[j] += state[i * s.value_size + j] * q.values[i];
    for (std::int64_t j = 0; j < s.value_size; ++j) x.y[at.y + j] = static_cast<T>(y[j] * scale);
  }
}

// The heads that share a key work with this scratch.
template <typename C>
struct DeltaScratch {
  WalkScratch<C> walk;
  C* dstate;   // [d, v]
  C* shared;   // [s, 2 d]: gradients of queries and keys
  C* vectors;  // [heads, 2]: gradients of dt_bias and a_log
};

// The gradients at a token, whose state before it is `before`; that of the state after it becomes
// that of `before`.
template <typename T, typename G>
void delta_backward_token(const DeltaScanShape& s, const DeltaScanBackward<T, G>& x,
                          std::int64_t head, std::int64_t t, const DeltaPlaces& at,
                          const Compute<T>* before, const DeltaScratch<Compute<T>>& work,
                          Compute<T>* vectors) {
  using C = Compute<T>;
  const std::int64_t d = s.key_size, v = s.value_size;
  const C scale = static_cast<C>(1) / std::sqrt(static_cast<C>(d));
  const DeltaStep<C> step = delta_step_of<C>(x, head, at);
  Unit<C> q, k;
  C missing[kMostSize], dq[kMostSize] = {}, dk[kMostSize] = {}, dmissing[kMostSize] = {};
  divide_by_length(x.x + at.q, d, q);
  divide_by_length(x.x + at.k, d, k);
  std::copy_n(before, s.state(), work.walk.state);
  learn_token(s, x, at, step, k.values, work.walk.state, missing);
  C dbeta = 0, ddecay = 0;
  for (std::int64_t i = 0; i < d; ++i) {
    C *ds = work.dstate + i * v, along = 0;
    for (std::int64_t j = 0; j < v; ++j) {
      const C dy = static_cast<C>(x.dy[at.y + j]) * scale;
      dq[i] += work.walk.state[i * v + j] * dy;
      ds[j] += q.values[i] * dy;
      along += ds[j] * missing[j];
      dmissing[j] += step.beta * k.values[i] * ds[j];
    }
    dbeta += k.values[i] * along;
    dk[i] = step.beta * along;
  }
  for (std::int64_t i = 0; i < d; ++i)
    for (std::int64_t j = 0; j < v; ++j) {
      C& ds = work.dstate[i * v + j];
      dk[i] -= step.decay * before[i * v + j] * dmissing[j];
      ds -= k.values[i] * dmissing[j];
      ddecay += ds * before[i * v + j];
      ds *= step.decay;
    }
  for (std::int64_t j = 0; j < v; ++j) x.dx[at.v + j] = static_cast<T>(dmissing[j]);
  length_backward(q, dq, d, work.shared + 2 * t * d);
  length_backward(k, dk, d, work.shared + (2 * t + 1) * d);
  const C dlog = ddecay * step.decay;  // of -rate softplus(raw)
  const C draw = -step.rate * dlog * sigmoid(step.raw);
  x.din[at.a] = static_cast<T>(draw);
  x.din[at.b] = static_cast<T>(dbeta * step.beta * (static_cast<C>(1) - step.beta));
  vectors[0] += draw;
  vectors[1] -= step.rate * softplus(step.raw) * dlog;
}

template <typename T, typename G>
void delta_backward_head(const DeltaScanShape& s, const DeltaScanBackward<T, G>& x,
                         std::int64_t sequence, std::int64_t head,
                         const DeltaScratch<Compute<T>>& work, Compute<T>* vectors) {
  using C = Compute<T>;
  Unit<C> k;
  C missing[kMostSize];
  const auto advance_over = [&](C* state, std::int64_t t) {
    const DeltaPlaces at = places_of(s, sequence, head, t);
    divide_by_length(x.x + at.k, s.key_size, k);
    learn_token(s, x, at, delta_step_of<C>(x, head, at), k.values, state, missing);
  };
  std::fill_n(work.dstate, s.state(), static_cast<C>(0));
  std::fill_n(vectors, 2, static_cast<C>(0));
  walk_back(s, work.walk, advance_over, [&](std::int64_t t, const C* before) {
    delta_backward_token(s, x, head, t, places_of(s, sequence, head, t), before, work, vectors);
  });
}

template <typename T, typename G>
void delta_backward_key(const DeltaScanShape& s, const DeltaScanBackward<T, G>& x,
                        std::int64_t sequence, std::int64_t key,
                        const DeltaScratch<Compute<T>>& work) {
  const std::int64_t heads = s.heads / s.key_heads;
  std::fill_n(work.shared, 2 * s.sequence * s.key_size, static_cast<Compute<T>>(0));
  for (std::int64_t i = 0; i < heads; ++i)
    delta_backward_head(s, x, sequence, key * heads + i, work, work.vectors + 2 * i);
  for (std::int64_t t = 0; t < s.sequence; ++t) {
    const DeltaPlaces at = places_of(s, sequence, key * heads, t);
    for (std::int64_t i = 0; i < s.key_size; ++i) {
      x.dx[at.q + i] = static_cast<T>(work.shared[2 * t * s.key_size + i]);
      x.dx[at.k + i] = static_cast<T>(work.shared[(2 * t + 1) * s.key_size + i]);
    }
  }
}

}  // namespace

template <typename T>
void delta_scan_forward(const DeltaScanShape& s, const DeltaScanForward<T>& x, Scratch scratch) {
  ZPLAN_ASSERT(s.key_size <= kMostSize && s.value_size <= kMostSize);
  auto* states = ScratchCutter(scratch).take<Compute<T>>(s.batch * s.heads * s.state());
  for_blocks(s.batch * s.heads, 1, s.batch * s.sequence * s.heads * s.state(),
             [&](std::int64_t at, std::int64_t) {
               delta_forward_head(s, x, at / s.heads, at % s.heads, states + at * s.state());
             });
}

template <typename T, typename G>
void delta_scan_backward(const DeltaScanShape& s, const DeltaScanBackward<T, G>& x,
                         Scratch scratch) {
  using C = Compute<T>;
  ZPLAN_ASSERT(s.key_size <= kMostSize && s.value_size <= kMostSize);
  const std::int64_t keys = s.batch * s.key_heads, state = s.state();
  ScratchCutter cutter(scratch);
  C* begins = cutter.take<C>(keys * s.chunks() * state);
  C* inside = cutter.take<C>(keys * s.chunk * state);
  C* states = cutter.take<C>(keys * 2 * state);
  C* shared = cutter.take<C>(keys * s.sequence * 2 * s.key_size);
  C* vectors = cutter.take<C>(s.batch * s.heads * 2);
  for_blocks(keys, 1, s.batch * s.sequence * s.heads * state, [&](std::int64_t at, std::int64_t) {
    delta_backward_key(
        s, x, at / s.key_heads, at % s.key_heads,
        {{begins + at * s.chunks() * state, inside + at * s.chunk * state, states + at * 2 * state},
         states + (at * 2 + 1) * state,
         shared + at * s.sequence * 2 * s.key_size,
         vectors + at * (s.heads / s.key_heads) * 2});
  });
  for (std::int64_t head = 0; head < s.heads; ++head) {
    C sums[2] = {};
    for (std::int64_t i = 0; i < s.batch; ++i)
      for (int k = 0; k < 2; ++k) sums[k] += vectors[(i * s.heads + head) * 2 + k];
    give(x.ddt_bias[head], sums[0], x.accumulate_dt_bias);
    give(x.da_log[head], sums[1], x.accumulate_a_log);
  }
}

#define ZPLAN_INSTANTIATE(T) \
  template void delta_scan_forward<T>(const DeltaScanShape&, const DeltaScanForward<T>&, Scratch);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G)                                                                  \
  template void delta_scan_backward<T, G>(const DeltaScanShape&, const DeltaScanBackward<T, G>&, \
                                          Scratch);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
