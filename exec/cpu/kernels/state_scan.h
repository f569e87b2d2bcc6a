// Mixers with a state on the CPU, token by token [Dao24 sec 7], [Yang24b sec 3]: planner/program/
// kernels/rows.h says what they compute, exec/kernels/state_scan.h what they take. Sums over tokens
// are in the order of tokens, those over heads in the order of heads.
#pragma once

#include "exec/cpu/kernels/half.h"
#include "exec/cpu/kernels/scratch.h"
#include "exec/kernels/state_scan.h"

namespace zplan::exec::cpu {

// y = x sigmoid(gate), of so many elements.
template <typename T>
void gate_forward(std::int64_t n, T* y, const T* x, const T* gate);
template <typename T>
void gate_backward(std::int64_t n, const GateBackward<T>& x);

template <typename T>
void convolution_forward(const ConvolutionShape& shape, const ConvolutionForward<T>& x);
template <typename T, typename G>
void convolution_backward(const ConvolutionShape& shape, const ConvolutionBackward<T, G>& x);

template <typename T>
void gated_norm_forward(const GatedNormShape& shape, const GatedNormForward<T>& x);
template <typename T, typename G>
void gated_norm_backward(const GatedNormShape& shape, const GatedNormBackward<T, G>& x);

// h' = a h + dt u B^T, y = h' C + d u. The gradient of log a needs no states: of a token and those
// after it, it is the sum of dy y - u du without the term of d [derived] from y as a sum over pairs
// of tokens, whose weights are products of all a between them.
template <typename T>
void mamba_scan_forward(const MambaScanShape& shape, const MambaScanForward<T>& x, Scratch scratch);
template <typename T, typename G>
void mamba_scan_backward(const MambaScanShape& shape, const MambaScanBackward<T, G>& x,
                         Scratch scratch);

// The states at the begin of chunks are kept, those of the tokens of one chunk computed again.
template <typename T>
void delta_scan_forward(const DeltaScanShape& shape, const DeltaScanForward<T>& x, Scratch scratch);
template <typename T, typename G>
void delta_scan_backward(const DeltaScanShape& shape, const DeltaScanBackward<T, G>& x,
                         Scratch scratch);

// These are the same, but for decays: each channel of a key has its own.
template <typename T>
void kimi_scan_forward(const KimiScanShape& shape, const KimiScanForward<T>& x, Scratch scratch);
template <typename T, typename G>
void kimi_scan_backward(const KimiScanShape& shape, const KimiScanBackward<T, G>& x,
                        Scratch scratch);

// h' = a h + dt u B of each channel and number of a state, y = h' C + d u, as above for Mamba-2, of
// which each number has a decay of its own. Backward keeps the states of a channel of one sequence.
template <typename T>
void selective_scan_forward(const SelectiveScanShape& shape, const SelectiveScanForward<T>& x);
template <typename T, typename G>
void selective_scan_backward(const SelectiveScanShape& shape, const SelectiveScanBackward<T, G>& x,
                             Scratch scratch);

// y = x silu(z), z the first columns of `in`.
template <typename T>
void silu_gate_forward(const SiluGateShape& shape, T* y, const T* x, const T* in);
template <typename T>
void silu_gate_backward(const SiluGateShape& shape, const SiluGateBackward<T>& x);

template <typename T>
void short_convolution_forward(const ShortConvolutionShape& shape, T* y, const T* in,
                               const T* weight);
template <typename T, typename G>
void short_convolution_backward(const ShortConvolutionShape& shape,
                                const ShortConvolutionBackward<T, G>& x);

template <typename T>
void scale_columns(const ScaledColumns& columns, T* x);

}  // namespace zplan::exec::cpu
