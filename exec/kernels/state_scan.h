// Kernels of mixers with a state, and of gates, take these arguments on every device
// (planner/program/kernels/rows.h says what they compute). T is the compute type of the kernel set,
// G that of gradients.
#pragma once

#include "exec/kernels/arguments.h"

namespace zplan::exec {

template <typename T>
struct GateBackward {
  T* dx;
  T* dgate;
  const T* dy;
  const T* x;
  const T* gate;
};

struct ConvolutionShape {
  std::int64_t batch, sequence, wide, first, channels, taps;  // columns of x, those convolved

  std::int64_t tokens() const { return batch * sequence; }
};

template <typename T>
struct ConvolutionForward {
  T* y;             // [b, s, c], overwritten
  const T* x;       // [b, s, w]
  const T* weight;  // [k, c]
  const T* bias;    // [c] or null
};

template <typename T, typename G = T>
struct ConvolutionBackward {
  T* dx;  // [b, s, w], its columns overwritten
  G* dweight;
  G* dbias;  // or null
  const T* dy;
  const T* x;
  const T* weight;
  const T* bias;
  bool accumulate_weight, accumulate_bias;
};

struct GatedNormShape {
  std::int64_t tokens, wide, width, parts, gains;  // columns of in, of x; gains: width or of a part
  bool gate_last, sigmoid;                         // sigmoid: the gate is that of z, not its SiLU
  double epsilon;

  std::int64_t part() const { return width / parts; }
};

template <typename T>
struct GatedNormForward {
  T* y;              // [b, s, v], overwritten
  Compute<T>* rstd;  // [b, s, m], overwritten
  const T* x;        // [b, s, v]
  const T* in;       // [b, s, w]
  const T* gain;     // [e]
};

template <typename T, typename G = T>
struct GatedNormBackward {
  T* dx;   // [b, s, v], overwritten
  T* din;  // [b, s, w], overwritten
  G* dgain;
  const T* dy;
  const T* x;
  const T* in;
  const T* gain;
  const Compute<T>* rstd;
  bool accumulate_dgain;
};

struct MambaScanShape {
  std::int64_t batch, sequence, wide, heads, size, groups, state;

  std::int64_t inner() const { return heads * size; }
  std::int64_t columns() const { return inner() + 2 * groups * state; }
};

template <typename T>
struct MambaScanForward {
  T* y;  // [b, s, v], overwritten
  const T* x;
  const T* in;
  const T* dt_bias;
  const T* a_log;
  const T* d;
};

template <typename T, typename G = T>
struct MambaScanBackward {
  T* dx;   // [b, s, c], overwritten
  T* din;  // [b, s, w], its last n columns overwritten
  G* ddt_bias;
  G* da_log;
  G* dd;
  const T* dy;
  const T* x;
  const T* in;
  const T* dt_bias;
  const T* a_log;
  const T* d;
  bool accumulate_dt_bias, accumulate_a_log, accumulate_d;
};

struct DeltaScanShape {
  std::int64_t batch, sequence, wide, key_heads, heads, key_size, value_size, chunk;

  std::int64_t keys() const { return key_heads * key_size; }
  std::int64_t values() const { return heads * value_size; }
  std::int64_t columns() const { return 2 * keys() + values(); }
  std::int64_t state() const { return key_size * value_size; }
  std::int64_t chunks() const { return (sequence + chunk - 1) / chunk; }
};

template <typename T>
struct DeltaScanForward {
  T* y;
  const T* x;
  const T* in;
  const T* dt_bias;
  const T* a_log;
};

template <typename T, typename G = T>
struct DeltaScanBackward {
  T* dx;
  T* din;
  G* ddt_bias;
  G* da_log;
  const T* dy;
  const T* x;
  const T* in;
  const T* dt_bias;
  const T* a_log;
  bool accumulate_dt_bias, accumulate_a_log;
};

struct KimiScanShape {
  std::int64_t batch, sequence, wide, heads, key_size, value_size, chunk;

  std::int64_t keys() const { return heads * key_size; }
  std::int64_t values() const { return heads * value_size; }
  std::int64_t columns() const { return 2 * keys() + values(); }
  std::int64_t state() const { return key_size * value_size; }
  std::int64_t chunks() const { return (sequence + chunk - 1) / chunk; }
};

template <typename T>
struct KimiScanForward {
  T* y;
  const T* x;
  const T* in;
  const T* decay;    // [b, s, k]
  const T* dt_bias;  // [k]
  const T* a_log;    // [n]
};

template <typename T, typename G = T>
struct KimiScanBackward {
  T* dx;      // [b, s, c], overwritten
  T* din;     // [b, s, w], overwritten
  T* ddecay;  // [b, s, k], overwritten
  G* ddt_bias;
  G* da_log;
  const T* dy;
  const T* x;
  const T* in;
  const T* decay;
  const T* dt_bias;
  const T* a_log;
  bool accumulate_dt_bias, accumulate_a_log;
};

struct SelectiveScanShape {
  std::int64_t batch, sequence, channels, state;

  std::int64_t vectors() const { return batch * sequence * state; }  // elements of B or C
};

template <typename T>
struct SelectiveScanForward {
  T* y;
  const T* x;
  const T* step;    // [b, s, c]
  const T* input;   // [b, s, n]
  const T* output;  // [b, s, n], behind the former
  const T* a_log;   // [n, c]
  const T* d;       // [c]
};

template <typename T, typename G = T>
struct SelectiveScanBackward {
  T* dx;       // these four are overwritten
  T* dstep;    // [b, s, c]
  T* dinput;   // [b, s, n]
  T* doutput;  // [b, s, n]
  G* da_log;
  G* dd;
  const T* dy;
  const T* x;
  const T* step;
  const T* input;
  const T* output;
  const T* a_log;
  const T* d;
  bool accumulate_a_log, accumulate_d;
};

struct SiluGateShape {
  std::int64_t tokens, wide, width;  // columns of in, of x
};

template <typename T>
struct SiluGateBackward {
  T* dx;   // [b, s, v], overwritten
  T* din;  // [b, s, w], overwritten
  const T* dy;
  const T* x;
  const T* in;
};

struct ShortConvolutionShape {
  std::int64_t batch, sequence, channels, taps;
};

template <typename T, typename G = T>
struct ShortConvolutionBackward {
  T* din;  // [b, s, 3 c], overwritten
  G* dweight;
  const T* dy;
  const T* in;
  const T* weight;  // [k, c]
  bool accumulate_weight;
};

struct ScaledColumns {
  std::int64_t rows, wide, first, columns;
  double factor;
};

}  // namespace zplan::exec
