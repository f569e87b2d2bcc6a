#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/state_gates.h"
#include "exec/cpu/kernels/state_scan.h"

namespace zplan::exec::cpu {
namespace {

// A head at a token: where its input, B, C and step are.
struct HeadPlaces {
  std::int64_t u, b, c, dt, y;
};
HeadPlaces places_of(const MambaScanShape& s, std::int64_t sequence, std::int64_t head,
                     std::int64_t t) {
  const std::int64_t row = sequence * s.sequence + t, group = head / (s.heads / s.groups);
  const std::int64_t x = row * s.columns(), b = x + s.inner() + group * s.state;
  return {x + head * s.size, b, b + s.groups * s.state, row * s.wide + s.wide - s.heads + head,
          row * s.inner() + head * s.size};
}

// The step of a head, and by what it multiplies the state.
template <typename C>
struct Step {
  C raw, dt, rate;  // rate = exp(a_log)
  C decay() const { return std::exp(-rate * dt); }
};
template <typename C, typename Of>
Step<C> step_of(const Of& x, std::int64_t head, std::int64_t at) {
  const C raw = static_cast<C>(x.in[at]) + static_cast<C>(x.dt_bias[head]);
  return {raw, softplus(raw), std::exp(static_cast<C>(x.a_log[head]))};
}

// The state becomes that of the next token.
template <typename C, typename T>
void advance(const MambaScanShape& s, C* state, C decay, C dt, const T* u, const T* b) {
  for (std::int64_t p = 0; p < s.size; ++p) {
    const C given = dt * static_cast<C>(u[p]);
    C* row = state + p * s.state;
    for (std::int64_t n = 0; n < s.state; ++n)
      row[n] = decay * row[n] + given * static_cast<C>(b[n]);
  }
}

template <typename C, typename T>
C dot(const C* x, const T* y, std::int64_t n) {
  C sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] * static_cast<C>(y[i]);
  return sum;
}

template <typename T>
void forward_head(const MambaScanShape& s, const MambaScanForward<T>& x, std::int64_t sequence,
                  std::int64_t head, Compute<T>* state) {
  using C = Compute<T>;
  std::fill_n(state, s.size * s.state, static_cast<C>(0));
  const C d = static_cast<C>(x.d[head]);
  for (std::int64_t t = 0; t < s.sequence; ++t) {
    const HeadPlaces at = places_of(s, sequence, head, t);
    const Step<C> step = step_of<C>(x, head, at.dt);
    advance(s, state, step.decay(), step.dt, x.x + at.u, x.x + at.b);
    for (std::int64_t p = 0; p < s.size; ++p)
      x.y[at.y + p] = static_cast<T>(dot(state + p * s.state, x.x + at.c, s.state) +
                                     d * static_cast<C>(x.x[at.u + p]));
  }
}

// The heads of a group work with this scratch.
template <typename C>
struct GroupScratch {
  C* state;    // [p, n]
  C* shared;   // [s, 2 n]: gradients of B and C
  C* of_log;   // [s]: what the gradient of log a is a sum of
  C* vectors;  // [heads of the group, 3]: gradients of dt_bias, a_log, d
};

// Visits tokens in order and computes the gradient of C, and dy y, where y is without d u.
template <typename T, typename G>
void backward_upwards(const MambaScanShape& s, const MambaScanBackward<T, G>& x,
                      std::int64_t sequence, std::int64_t head,
                      const GroupScratch<Compute<T>>& work) {
  using C = Compute<T>;
  std::fill_n(work.state, s.size * s.state, static_cast<C>(0));
  for (std::int64_t t = 0; t < s.sequence; ++t) {
    const HeadPlaces at = places_of(s, sequence, head, t);
    const Step<C> step = step_of<C>(x, head, at.dt);
    advance(s, work.state, step.decay(), step.dt, x.x + at.u, x.x + at.b);
    C* dc = work.shared + (2 * t + 1) * s.state;
    C sum = 0;
    for (std::int64_t p = 0; p < s.size; ++p) {
      const C dy = static_cast<C>(x.dy[at.y + p]);
      const C* row = work.state + p * s.state;
      sum += dy * dot(row, x.x + at.c, s.state);
      for (std::int64_t n = 0; n < s.state; ++n) dc[n] += dy * row[n];
    }
    work.of_log[t] = sum;
  }
}

// Visits tokens in the other order and computes all other gradients from that of the state.
template <typename T, typename G>
void backward_downwards(const MambaScanShape& s, const MambaScanBackward<T, G>& x,
                        std::int64_t sequence, std::int64_t head,
                        const GroupScratch<Compute<T>>& work, Compute<T>* vectors) {
  using C = Compute<T>;
  std::fill_n(work.state, s.size * s.state, static_cast<C>(0));
  const C d = static_cast<C>(x.d[head]);
  C of_logs = 0, later = 1;  // the decay of the token behind
  std::fill_n(vectors, 3, static_cast<C>(0));
  for (std::int64_t t = s.sequence; t-- > 0;) {
    const HeadPlaces at = places_of(s, sequence, head, t);
    const Step<C> step = step_of<C>(x, head, at.dt);
    advance(s, work.state, later, static_cast<C>(1), x.dy + at.y, x.x + at.c);
    later = step.decay();
    C* db = work.shared + 2 * t * s.state;
    C given = 0;  // u times the gradient of dt u
    for (std::int64_t p = 0; p < s.size; ++p) {
      const C *row = work.state + p * s.state, u = static_cast<C>(x.x[at.u + p]);
      const C dy = static_cast<C>(x.dy[at.y + p]), own = dot(row, x.x + at.b, s.state);
      given += u * own;
      x.dx[at.u + p] = static_cast<T>(step.dt * own + d * dy);
      vectors[2] += dy * u;
      for (std::int64_t n = 0; n < s.state; ++n) db[n] += step.dt * u * row[n];
    }
    of_logs += work.of_log[t] - step.dt * given;
    const C dlog = of_logs;  // of -rate dt
    // The state that a token adds is not decayed by its own step.
    const C ddt = given - step.rate * dlog;
    const C draw = ddt * sigmoid(step.raw);
    x.din[at.dt] = static_cast<T>(draw);
    vectors[0] += draw;
    vectors[1] -= step.rate * step.dt * dlog;
  }
}

template <typename T, typename G>
void backward_group(const MambaScanShape& s, const MambaScanBackward<T, G>& x,
                    std::int64_t sequence, std::int64_t group,
                    const GroupScratch<Compute<T>>& work) {
  const std::int64_t heads = s.heads / s.groups;
  std::fill_n(work.shared, 2 * s.sequence * s.state, static_cast<Compute<T>>(0));
  for (std::int64_t head = group * heads; head < (group + 1) * heads; ++head) {
    backward_upwards(s, x, sequence, head, work);
    backward_downwards(s, x, sequence, head, work, work.vectors + 3 * (head - group * heads));
  }
  for (std::int64_t t = 0; t < s.sequence; ++t) {
    const HeadPlaces at = places_of(s, sequence, group * heads, t);
    for (std::int64_t n = 0; n < s.state; ++n) {
      x.dx[at.b + n] = static_cast<T>(work.shared[2 * t * s.state + n]);
      x.dx[at.c + n] = static_cast<T>(work.shared[(2 * t + 1) * s.state + n]);
    }
  }
}

}  // namespace

template <typename T>
void mamba_scan_forward(const MambaScanShape& s, const MambaScanForward<T>& x, Scratch scratch) {
  auto* states = ScratchCutter(scratch).take<Compute<T>>(s.batch * s.inner() * s.state);
  for_blocks(s.batch * s.heads, 1, s.batch * s.sequence * s.inner() * s.state,
             [&](std::int64_t begin, std::int64_t) {
               forward_head(s, x, begin / s.heads, begin % s.heads,
                            states + begin * s.size * s.state);
             });
}

template <typename T, typename G>
void mamba_scan_backward(const MambaScanShape& s, const MambaScanBackward<T, G>& x,
                         Scratch scratch) {
  using C = Compute<T>;
  const std::int64_t groups = s.batch * s.groups, all = s.batch * s.heads;
  ScratchCutter cutter(scratch);
  C* states = cutter.take<C>(groups * s.size * s.state);
  C* shared = cutter.take<C>(groups * s.sequence * 2 * s.state);
  C* of_log = cutter.take<C>(groups * s.sequence);
  C* vectors = cutter.take<C>(all * 3);
  for_blocks(
      groups, 1, s.batch * s.sequence * s.inner() * s.state, [&](std::int64_t at, std::int64_t) {
        backward_group(s, x, at / s.groups, at % s.groups,
                       {states + at * s.size * s.state, shared + at * s.sequence * 2 * s.state,
                        of_log + at * s.sequence, vectors + at * (s.heads / s.groups) * 3});
      });
  for (std::int64_t head = 0; head < s.heads; ++head) {
    C sums[3] = {};
    for (std::int64_t i = 0; i < s.batch; ++i)
      for (int k = 0; k < 3; ++k) sums[k] += vectors[(i * s.heads + head) * 3 + k];
    give(x.ddt_bias[head], sums[0], x.accumulate_dt_bias);
    give(x.da_log[head], sums[1], x.accumulate_a_log);
    give(x.dd[head], sums[2], x.accumulate_d);
  }
}

#define ZPLAN_INSTANTIATE(T) \
  template void mamba_scan_forward<T>(const MambaScanShape&, const MambaScanForward<T>&, Scratch);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G)                                                                  \
  template void mamba_scan_backward<T, G>(const MambaScanShape&, const MambaScanBackward<T, G>&, \
                                          Scratch);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
