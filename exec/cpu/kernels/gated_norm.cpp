#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/state_gates.h"
#include "exec/cpu/kernels/state_scan.h"

namespace zplan::exec::cpu {
namespace {

// A part of a row begins at these places in x, its gate and its gain.
struct Place {
  std::int64_t x, z, gain;
};
Place place_of(const GatedNormShape& s, std::int64_t row, std::int64_t part) {
  const std::int64_t at = part * s.part();
  return {row * s.width + at, row * s.wide + at, s.gains == s.width ? at : 0};
}

// Returns what x is multiplied by, of a gate; the next one returns its slope.
template <typename C>
C gate_of(const GatedNormShape& s, C z) {
  return s.sigmoid ? sigmoid(z) : silu(z);
}
template <typename C>
C gate_slope(const GatedNormShape& s, C z) {
  const C g = sigmoid(z);
  return s.sigmoid ? g * (static_cast<C>(1) - g) : silu_slope(z);
}

// Returns the input of the norm: x, times the gate unless this comes last.
template <typename C, typename T>
C normed_input(const GatedNormShape& s, const T* x, const T* z, std::int64_t j) {
  return s.gate_last ? static_cast<C>(x[j])
                     : static_cast<C>(x[j]) * gate_of(s, static_cast<C>(z[j]));
}

template <typename T>
void forward_part(const GatedNormShape& s, const GatedNormForward<T>& x, std::int64_t row,
                  std::int64_t part) {
  using C = Compute<T>;
  const Place at = place_of(s, row, part);
  const T *in = x.x + at.x, *z = x.in + at.z, *gain = x.gain + at.gain;
  C squares = 0;
  for (std::int64_t j = 0; j < s.part(); ++j) {
    const C u = normed_input<C>(s, in, z, j);
    squares += u * u;
  }
  const C rstd =
      static_cast<C>(1) / std::sqrt(squares / static_cast<C>(s.part()) + static_cast<C>(s.epsilon));
  for (std::int64_t j = 0; j < s.part(); ++j) {
    const C y = normed_input<C>(s, in, z, j) * rstd * static_cast<C>(gain[j]);
    x.y[at.x + j] = static_cast<T>(s.gate_last ? y * gate_of(s, static_cast<C>(z[j])) : y);
  }
  x.rstd[row * s.parts + part] = rstd;
}

template <typename T, typename G>
void backward_part(const GatedNormShape& s, const GatedNormBackward<T, G>& x, std::int64_t row,
                   std::int64_t part) {
  using C = Compute<T>;
  const Place at = place_of(s, row, part);
  const T *in = x.x + at.x, *z = x.in + at.z, *gain = x.gain + at.gain, *dy = x.dy + at.x;
  T *dx = x.dx + at.x, *dz = x.din + at.z;
  const C rstd = x.rstd[row * s.parts + part];
  const auto behind_gain = [&](std::int64_t j) {
    const C g = static_cast<C>(dy[j]) * static_cast<C>(gain[j]);
    return s.gate_last ? g * gate_of(s, static_cast<C>(z[j])) : g;
  };
  C sum = 0;
  for (std::int64_t j = 0; j < s.part(); ++j)
    sum += behind_gain(j) * normed_input<C>(s, in, z, j) * rstd;
  const C mean = sum / static_cast<C>(s.part());
  for (std::int64_t j = 0; j < s.part(); ++j) {
    const C gate = static_cast<C>(z[j]), n = normed_input<C>(s, in, z, j) * rstd;
    const C du = rstd * (behind_gain(j) - n * mean);
    if (s.gate_last) {
      dx[j] = static_cast<T>(du);
      dz[j] =
          static_cast<T>(static_cast<C>(dy[j]) * n * static_cast<C>(gain[j]) * gate_slope(s, gate));
    } else {
      dx[j] = static_cast<T>(du * gate_of(s, gate));
      dz[j] = static_cast<T>(du * static_cast<C>(in[j]) * gate_slope(s, gate));
    }
  }
}

template <typename T, typename G>
void backward_gain(const GatedNormShape& s, const GatedNormBackward<T, G>& x, std::int64_t column) {
  using C = Compute<T>;
  const bool one = s.gains == s.width;
  const std::int64_t first = one ? column / s.part() : 0, end = one ? first + 1 : s.parts;
  const std::int64_t j = column % s.part();
  C sum = 0;
  for (std::int64_t row = 0; row < s.tokens; ++row)
    for (std::int64_t part = first; part < end; ++part) {
      const Place at = place_of(s, row, part);
      const T* z = x.in + at.z;
      C d = static_cast<C>(x.dy[at.x + j]);
      if (s.gate_last) d *= gate_of(s, static_cast<C>(z[j]));
      sum += d * normed_input<C>(s, x.x + at.x, z, j) * x.rstd[row * s.parts + part];
    }
  give(x.dgain[column], sum, x.accumulate_dgain);
}

}  // namespace

template <typename T>
void gate_forward(std::int64_t n, T* y, const T* x, const T* gate) {
  using C = Compute<T>;
  for_elements(n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      y[i] = static_cast<T>(static_cast<C>(x[i]) * sigmoid(static_cast<C>(gate[i])));
  });
}

template <typename T>
void gate_backward(std::int64_t n, const GateBackward<T>& x) {
  using C = Compute<T>;
  for_elements(n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const C s = sigmoid(static_cast<C>(x.gate[i])), dy = static_cast<C>(x.dy[i]);
      x.dx[i] = static_cast<T>(dy * s);
      x.dgate[i] = static_cast<T>(dy * static_cast<C>(x.x[i]) * s * (static_cast<C>(1) - s));
    }
  });
}

template <typename T>
void gated_norm_forward(const GatedNormShape& s, const GatedNormForward<T>& x) {
  for_rows(s.tokens, s.width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t part = 0; part < s.parts; ++part) forward_part(s, x, row, part);
  });
}

template <typename T, typename G>
void gated_norm_backward(const GatedNormShape& s, const GatedNormBackward<T, G>& x) {
  for_rows(s.tokens, s.width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t part = 0; part < s.parts; ++part) backward_part(s, x, row, part);
      std::fill_n(x.din + row * s.wide + s.width, s.wide - s.width, static_cast<T>(0));
    }
  });
  for_columns(s.tokens, s.gains, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t column = begin; column < end; ++column) backward_gain(s, x, column);
  });
}

template <typename T>
void silu_gate_forward(const SiluGateShape& s, T* y, const T* x, const T* in) {
  using C = Compute<T>;
  for_rows(s.tokens, s.width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t j = 0; j < s.width; ++j)
        y[row * s.width + j] = static_cast<T>(static_cast<C>(x[row * s.width + j]) *
                                              silu(static_cast<C>(in[row * s.wide + j])));
  });
}

template <typename T>
void silu_gate_backward(const SiluGateShape& s, const SiluGateBackward<T>& x) {
  using C = Compute<T>;
  for_rows(s.tokens, s.wide, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t j = 0; j < s.width; ++j) {
        const std::int64_t at = row * s.width + j;
        const C z = static_cast<C>(x.in[row * s.wide + j]), dy = static_cast<C>(x.dy[at]);
        x.dx[at] = static_cast<T>(dy * silu(z));
        x.din[row * s.wide + j] = static_cast<T>(dy * static_cast<C>(x.x[at]) * silu_slope(z));
      }
      std::fill_n(x.din + row * s.wide + s.width, s.wide - s.width, static_cast<T>(0));
    }
  });
}

template <typename T>
void scale_columns(const ScaledColumns& s, T* x) {
  using C = Compute<T>;
  for_rows(s.rows, s.columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T* columns = x + row * s.wide + s.first;
      for (std::int64_t j = 0; j < s.columns; ++j)
        columns[j] = static_cast<T>(static_cast<C>(columns[j]) * static_cast<C>(s.factor));
    }
  });
}

#define ZPLAN_INSTANTIATE(T)                                                              \
  template void gate_forward<T>(std::int64_t, T*, const T*, const T*);                    \
  template void gate_backward<T>(std::int64_t, const GateBackward<T>&);                   \
  template void gated_norm_forward<T>(const GatedNormShape&, const GatedNormForward<T>&); \
  template void silu_gate_forward<T>(const SiluGateShape&, T*, const T*, const T*);       \
  template void silu_gate_backward<T>(const SiluGateShape&, const SiluGateBackward<T>&);  \
  template void scale_columns<T>(const ScaledColumns&, T*);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G) \
  template void gated_norm_backward<T, G>(const GatedNormShape&, const GatedNormBackward<T, G>&);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
