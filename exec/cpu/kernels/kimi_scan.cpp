#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/delta_rule.h"
#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/state_gates.h"
#include "exec/cpu/kernels/state_scan.h"

namespace zplan::exec::cpu {
namespace {

struct KimiPlaces {
  std::int64_t q, k, v, b, decay, y;
};
KimiPlaces kimi_places(const KimiScanShape& s, std::int64_t sequence, std::int64_t head,
                       std::int64_t t) {
  const std::int64_t row = sequence * s.sequence + t, x = row * s.columns();
  return {x + head * s.key_size,
          x + s.keys() + head * s.key_size,
          x + 2 * s.keys() + head * s.value_size,
          row * s.wide + s.wide - s.heads + head,
          row * s.keys() + head * s.key_size,
          row * s.values() + head * s.value_size};
}

// A token does this to a state: each channel decays, and it learns so much.
template <typename C>
struct KimiStep {
  C rate, beta;
  C raw[kMostSize], decay[kMostSize];
};
template <typename C, typename Of>
void set_step(const KimiScanShape& s, const Of& x, std::int64_t head, const KimiPlaces& at,
              KimiStep<C>& step) {
  step.rate = std::exp(static_cast<C>(x.a_log[head]));
  step.beta = sigmoid(static_cast<C>(x.in[at.b]));
  for (std::int64_t i = 0; i < s.key_size; ++i) {
    step.raw[i] =
        static_cast<C>(x.decay[at.decay + i]) + static_cast<C>(x.dt_bias[head * s.key_size + i]);
    step.decay[i] = std::exp(-step.rate * softplus(step.raw[i]));
  }
}

// What a token does to a state; `missing`: what of its value the state lacked.
template <typename C, typename Of>
void learn_token(const KimiScanShape& s, const Of& x, const KimiPlaces& at, const KimiStep<C>& step,
                 const C* k, C* state, C* missing) {
  const auto decay = [&](std::int64_t i) { return step.decay[i]; };
  learn(s, state, decay, step.beta, k, x.x + at.v, missing);
}

template <typename T>
void kimi_forward_head(const KimiScanShape& s, const KimiScanForward<T>& x, std::int64_t sequence,
                       std::int64_t head, Compute<T>* state) {
  using C = Compute<T>;
  const C scale = static_cast<C>(1) / std::sqrt(static_cast<C>(s.key_size));
  Unit<C> q, k;
  KimiStep<C> step;
  C missing[kMostSize];
  std::fill_n(state, s.state(), static_cast<C>(0));
  for (std::int64_t t = 0; t < s.sequence; ++t) {
    const KimiPlaces at = kimi_places(s, sequence, head, t);
    divide_by_length(x.x + at.q, s.key_size, q);
    divide_by_length(x.x + at.k, s.key_size, k);
    set_step(s, x, head, at, step);
    learn_token(s, x, at, step, k.values, state, missing);
    C y[kMostSize] = {};
    for (std::int64_t i = 0; i < s.key_size; ++i)
      for (std::int64_t j = 0; j < s.value_size; ++j)
        y[j] += state[i * s.value_size + j] * q.values[i];
    for (std::int64_t j = 0; j < s.value_size; ++j) x.y[at.y + j] = static_cast<T>(y[j] * scale);
  }
}

// A head works with this scratch.
template <typename C>
struct KimiScratch {
  WalkScratch<C> walk;
  C* dstate;   // [d, v]
  C* vectors;  // [d + 1]: gradients of dt_bias and a_log
};

// Takes the gradients of a query and of the state behind a token to what it has learned with:
// adds to the gradient of the state what the query gives, and gives those of key, b and value.
template <typename T, typename G>
void kimi_backward_learned(const KimiScanShape& s, const KimiScanBackward<T, G>& x,
                           const KimiPlaces& at, const KimiStep<Compute<T>>& step,
                           const KimiScratch<Compute<T>>& work, const Unit<Compute<T>>& q,
                           const Unit<Compute<T>>& k, const Compute<T>* missing, Compute<T>* dk,
                           Compute<T>* dmissing) {
  using C = Compute<T>;
  const std::int64_t d = s.key_size, v = s.value_size;
  const C scale = static_cast<C>(1) / std::sqrt(static_cast<C>(d));
  C dq[kMostSize] = {}, given[kMostSize] = {}, dbeta = 0;
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
  length_backward(q, dq, d, given);
  for (std::int64_t i = 0; i < d; ++i) x.dx[at.q + i] = static_cast<T>(given[i]);
  for (std::int64_t j = 0; j < v; ++j) x.dx[at.v + j] = static_cast<T>(dmissing[j]);
  x.din[at.b] = static_cast<T>(dbeta * step.beta * (static_cast<C>(1) - step.beta));
}

// The gradients at a token, whose state before it is `before`; that of the state after it becomes
// that of `before`.
template <typename T, typename G>
void kimi_backward_token(const KimiScanShape& s, const KimiScanBackward<T, G>& x, std::int64_t head,
                         const KimiPlaces& at, const Compute<T>* before,
                         const KimiScratch<Compute<T>>& work) {
  using C = Compute<T>;
  const std::int64_t d = s.key_size, v = s.value_size;
  KimiStep<C> step;
  Unit<C> q, k;
  C missing[kMostSize], dk[kMostSize], dmissing[kMostSize] = {}, given[kMostSize] = {};
  set_step(s, x, head, at, step);
  divide_by_length(x.x + at.q, d, q);
  divide_by_length(x.x + at.k, d, k);
  std::copy_n(before, s.state(), work.walk.state);
  learn_token(s, x, at, step, k.values, work.walk.state, missing);
  kimi_backward_learned(s, x, at, step, work, q, k, missing, dk, dmissing);
  for (std::int64_t i = 0; i < d; ++i) {
    C ddecay = 0;
    for (std::int64_t j = 0; j < v; ++j) {
      C& ds = work.dstate[i * v + j];
      dk[i] -= step.decay[i] * before[i * v + j] * dmissing[j];
      ds -= k.values[i] * dmissing[j];
      ddecay += ds * before[i * v + j];
      ds *= step.decay[i];
    }
    const C dlog = ddecay * step.decay[i];  // of -rate softplus(raw)
    const C draw = -step.rate * dlog * sigmoid(step.raw[i]);
    x.ddecay[at.decay + i] = static_cast<T>(draw);
    work.vectors[i] += draw;
    work.vectors[d] -= step.rate * softplus(step.raw[i]) * dlog;
  }
  length_backward(k, dk, d, given);
  for (std::int64_t i = 0; i < d; ++i) x.dx[at.k + i] = static_cast<T>(given[i]);
}

template <typename T, typename G>
void kimi_backward_head(const KimiScanShape& s, const KimiScanBackward<T, G>& x,
                        std::int64_t sequence, std::int64_t head,
                        const KimiScratch<Compute<T>>& work) {
  using C = Compute<T>;
  KimiStep<C> step;
  Unit<C> k;
  C missing[kMostSize];
  const auto advance_over = [&](C* state, std::int64_t t) {
    const KimiPlaces at = kimi_places(s, sequence, head, t);
    divide_by_length(x.x + at.k, s.key_size, k);
    set_step(s, x, head, at, step);
    learn_token(s, x, at, step, k.values, state, missing);
  };
  std::fill_n(work.dstate, s.state(), static_cast<C>(0));
  std::fill_n(work.vectors, s.key_size + 1, static_cast<C>(0));
  walk_back(s, work.walk, advance_over, [&](std::int64_t t, const C* before) {
    kimi_backward_token(s, x, head, kimi_places(s, sequence, head, t), before, work);
  });
}

// The gradients of vectors, of which each head of each sequence has given a part.
template <typename T, typename G>
void give_vectors(const KimiScanShape& s, const KimiScanBackward<T, G>& x,
                  const Compute<T>* vectors) {
  using C = Compute<T>;
  const std::int64_t each = s.key_size + 1;
  for (std::int64_t head = 0; head < s.heads; ++head)
    for (std::int64_t i = 0; i < each; ++i) {
      C sum = 0;
      for (std::int64_t b = 0; b < s.batch; ++b) sum += vectors[(b * s.heads + head) * each + i];
      if (i < s.key_size)
        give(x.ddt_bias[head * s.key_size + i], sum, x.accumulate_dt_bias);
      else
        give(x.da_log[head], sum, x.accumulate_a_log);
    }
}

}  // namespace

template <typename T>
void kimi_scan_forward(const KimiScanShape& s, const KimiScanForward<T>& x, Scratch scratch) {
  ZPLAN_ASSERT(s.key_size <= kMostSize && s.value_size <= kMostSize);
  auto* states = ScratchCutter(scratch).take<Compute<T>>(s.batch * s.heads * s.state());
  for_blocks(s.batch * s.heads, 1, s.batch * s.sequence * s.heads * s.state(),
             [&](std::int64_t at, std::int64_t) {
               kimi_forward_head(s, x, at / s.heads, at % s.heads, states + at * s.state());
             });
}

template <typename T, typename G>
void kimi_scan_backward(const KimiScanShape& s, const KimiScanBackward<T, G>& x, Scratch scratch) {
  using C = Compute<T>;
  ZPLAN_ASSERT(s.key_size <= kMostSize && s.value_size <= kMostSize);
  const std::int64_t heads = s.batch * s.heads, state = s.state();
  ScratchCutter cutter(scratch);
  C* begins = cutter.take<C>(heads * s.chunks() * state);
  C* inside = cutter.take<C>(heads * s.chunk * state);
  C* states = cutter.take<C>(heads * 2 * state);
  C* vectors = cutter.take<C>(heads * (s.key_size + 1));
  std::fill_n(x.din, s.batch * s.sequence * s.wide, static_cast<T>(0));
  for_blocks(heads, 1, s.batch * s.sequence * s.heads * state, [&](std::int64_t at, std::int64_t) {
    kimi_backward_head(
        s, x, at / s.heads, at % s.heads,
        {{begins + at * s.chunks() * state, inside + at * s.chunk * state, states + at * 2 * state},
         states + (at * 2 + 1) * state,
         vectors + at * (s.key_size + 1)});
  });
  give_vectors(s, x, vectors);
}

#define ZPLAN_INSTANTIATE(T) \
  template void kimi_scan_forward<T>(const KimiScanShape&, const KimiScanForward<T>&, Scratch);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G)                                                               \
  template void kimi_scan_backward<T, G>(const KimiScanShape&, const KimiScanBackward<T, G>&, \
                                         Scratch);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
