// Rows of the dispatch table: mixers with a state. Internal to exec/cpu.
#pragma once

#include <array>

#include "exec/cpu/call_support.h"
#include "exec/cpu/kernels/state_scan.h"
#include "exec/kernels/dispatch_table.h"
#include "exec/kernels/read_state_scan.h"

namespace zplan::exec::cpu {

template <typename T>
constexpr auto mixer_rows() {
  using K = KernelId;
  return std::to_array<DispatchEntry>({
      row(K::kGateForward, read_gate_forward<T>, [](auto... x) { gate_forward(x...); }),
      row(K::kGateBackward, read_gate_backward<T>, [](const auto&... x) { gate_backward(x...); }),
      row(K::kConvolutionForward, read_convolution_forward<T>,
          [](const auto&... x) { convolution_forward(x...); }),
      row(K::kConvolutionBackward, read_convolution_backward<T>,
          [](const auto&... x) { convolution_backward(x...); }),
      row(K::kGatedNormForward, read_gated_norm_forward<T>,
          [](const auto&... x) { gated_norm_forward(x...); }),
      row(K::kGatedNormBackward, read_gated_norm_backward<T>,
          [](const auto&... x) { gated_norm_backward(x...); }),
      row(K::kMambaScanForward, read_mamba_scan_forward<T>,
          [](const auto& shape, const auto& x, const Operand& s) {
            mamba_scan_forward(shape, x, scratch(s));
          }),
      row(K::kMambaScanBackward, read_mamba_scan_backward<T>,
          [](const auto& shape, const auto& x, const Operand& s) {
            mamba_scan_backward(shape, x, scratch(s));
          }),
      row(K::kDeltaScanForward, read_delta_scan_forward<T>,
          [](const auto& shape, const auto& x, const Operand& s) {
            delta_scan_forward(shape, x, scratch(s));
          }),
      row(K::kDeltaScanBackward, read_delta_scan_backward<T>,
          [](const auto& shape, const auto& x, const Operand& s) {
            delta_scan_backward(shape, x, scratch(s));
          }),
      row(K::kKimiScanForward, read_kimi_scan_forward<T>,
          [](const auto& shape, const auto& x, const Operand& s) {
            kimi_scan_forward(shape, x, scratch(s));
          }),
      row(K::kKimiScanBackward, read_kimi_scan_backward<T>,
          [](const auto& shape, const auto& x, const Operand& s) {
            kimi_scan_backward(shape, x, scratch(s));
          }),
      row(K::kSelectiveScanForward, read_selective_scan_forward<T>,
          [](const auto&... x) { selective_scan_forward(x...); }),
      row(K::kSelectiveScanBackward, read_selective_scan_backward<T>,
          [](const auto& shape, const auto& x, const Operand& s) {
            selective_scan_backward(shape, x, scratch(s));
          }),
      row(K::kSiluGateForward, read_silu_gate_forward<T>,
          [](const auto& shape, auto... x) { silu_gate_forward(shape, x...); }),
      row(K::kSiluGateBackward, read_silu_gate_backward<T>,
          [](const auto&... x) { silu_gate_backward(x...); }),
      row(K::kShortConvolutionForward, read_short_convolution_forward<T>,
          [](const auto& shape, auto... x) { short_convolution_forward(shape, x...); }),
      row(K::kShortConvolutionBackward, read_short_convolution_backward<T>,
          [](const auto&... x) { short_convolution_backward(x...); }),
      row(K::kScaleColumns, read_scale_columns<T>,
          [](const auto& columns, auto* x) { scale_columns(columns, x); }),
  });
}

}  // namespace zplan::exec::cpu
