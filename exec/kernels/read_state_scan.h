// The kernels of state_scan.h read their calls as follows, on every device.
#pragma once

#include <algorithm>

#include "exec/kernels/operands.h"
#include "exec/kernels/state_scan.h"

namespace zplan::exec {

template <typename T>
inline constexpr auto read_gate_forward = [](const KernelCall& c, const auto& body) {
  body(c[0].shape().elements(), c[2].as<T>(), c[0].as<T>(), c[1].as<T>());
};
template <typename T>
inline constexpr auto read_gate_backward = [](const KernelCall& c, const auto& body) {
  body(c[0].shape().elements(), GateBackward<T>{.dx = c[3].as<T>(),
                                                .dgate = c[4].as<T>(),
                                                .dy = c[0].as<T>(),
                                                .x = c[1].as<T>(),
                                                .gate = c[2].as<T>()});
};

inline ConvolutionShape convolution_shape(const KernelCall& c, const Operand& x,
                                          const Operand& weight) {
  const Shape &all = x.shape(), &w = weight.shape();
  return {all[0], all[1], all[2], c.attributes[0], w[1], w[0]};
}

template <typename T>
inline constexpr auto read_convolution_forward = [](const KernelCall& c, const auto& body) {
  body(convolution_shape(c, c[0], c[1]),
       ConvolutionForward<T>{.y = c[2].as<T>(),
                             .x = c[0].as<T>(),
                             .weight = c[1].as<T>(),
                             .bias = c.operands.size() > 3 ? c[3].as<T>() : nullptr});
};

template <typename T>
inline constexpr auto read_convolution_backward = [](const KernelCall& c, const auto& body) {
  const bool has_bias = c.operands.size() > 6;
  with_gradient<T>(c[4], [&]<typename G>(G* dweight) {
    body(convolution_shape(c, c[1], c[2]),
         ConvolutionBackward<T, G>{.dx = c[3].as<T>(),
                                   .dweight = dweight,
                                   .dbias = has_bias ? c[6].as<G>() : nullptr,
                                   .dy = c[0].as<T>(),
                                   .x = c[1].as<T>(),
                                   .weight = c[2].as<T>(),
                                   .bias = has_bias ? c[5].as<T>() : nullptr,
                                   .accumulate_weight = c[4].adds(),
                                   .accumulate_bias = has_bias && c[6].adds()});
  });
};

inline GatedNormShape gated_norm_shape(const KernelCall& c, const Operand& in, const Operand& gain,
                                       const Operand& rstd, Attribute sigmoid) {
  const Shape &wide = in.shape(), &parts = rstd.shape();
  const Shape& x = c[0].shape();
  return {.tokens = x[0] * x[1],
          .wide = wide[2],
          .width = x[2],
          .parts = parts[2],
          .gains = gain.shape()[0],
          .gate_last = c.attributes[0] != 0,
          .sigmoid = sigmoid != 0,
          .epsilon = epsilon_of(c.attributes[1])};
}

template <typename T>
inline constexpr auto read_gated_norm_forward = [](const KernelCall& c, const auto& body) {
  body(gated_norm_shape(c, c[1], c[2], c[4], c.attributes[2]),
       GatedNormForward<T>{.y = c[3].as<T>(),
                           .rstd = c[4].as<Compute<T>>(),
                           .x = c[0].as<T>(),
                           .in = c[1].as<T>(),
                           .gain = c[2].as<T>()});
};

template <typename T>
inline constexpr auto read_gated_norm_backward = [](const KernelCall& c, const auto& body) {
  with_gradient<T>(c[7], [&]<typename G>(G* dgain) {
    body(gated_norm_shape(c, c[2], c[3], c[4], c.attributes[1]),
         GatedNormBackward<T, G>{.dx = c[5].as<T>(),
                                 .din = c[6].as<T>(),
                                 .dgain = dgain,
                                 .dy = c[0].as<T>(),
                                 .x = c[1].as<T>(),
                                 .in = c[2].as<T>(),
                                 .gain = c[3].as<T>(),
                                 .rstd = c[4].as<Compute<T>>(),
                                 .accumulate_dgain = c[7].adds()});
  });
};

inline MambaScanShape mamba_scan_shape(const KernelCall& c, const Operand& in, const Operand& heads,
                                       const Operand& y) {
  const Shape &wide = in.shape(), &out = y.shape();
  const std::int64_t n = heads.shape()[0];
  return {wide[0], wide[1], wide[2], n, out[2] / n, c.attributes[0], c.attributes[1]};
}

template <typename T>
inline constexpr auto read_mamba_scan_forward = [](const KernelCall& c, const auto& body) {
  body(mamba_scan_shape(c, c[1], c[2], c[5]),
       MambaScanForward<T>{.y = c[5].as<T>(),
                           .x = c[0].as<T>(),
                           .in = c[1].as<T>(),
                           .dt_bias = c[2].as<T>(),
                           .a_log = c[3].as<T>(),
                           .d = c[4].as<T>()},
       c[6]);
};

template <typename T>
inline constexpr auto read_mamba_scan_backward = [](const KernelCall& c, const auto& body) {
  with_gradient<T>(c[8], [&]<typename G>(G* ddt_bias) {
    body(mamba_scan_shape(c, c[2], c[3], c[0]),
         MambaScanBackward<T, G>{.dx = c[6].as<T>(),
                                 .din = c[7].as<T>(),
                                 .ddt_bias = ddt_bias,
                                 .da_log = c[9].as<G>(),
                                 .dd = c[10].as<G>(),
                                 .dy = c[0].as<T>(),
                                 .x = c[1].as<T>(),
                                 .in = c[2].as<T>(),
                                 .dt_bias = c[3].as<T>(),
                                 .a_log = c[4].as<T>(),
                                 .d = c[5].as<T>(),
                                 .accumulate_dt_bias = c[8].adds(),
                                 .accumulate_a_log = c[9].adds(),
                                 .accumulate_d = c[10].adds()},
         c[11]);
  });
};

inline DeltaScanShape delta_scan_shape(const KernelCall& c, const Operand& in, const Operand& heads,
                                       const Operand& y) {
  const Shape &wide = in.shape(), &out = y.shape();
  const std::int64_t n = heads.shape()[0];
  return {.batch = wide[0],
          .sequence = wide[1],
          .wide = wide[2],
          .key_heads = c.attributes[0],
          .heads = n,
          .key_size = c.attributes[1],
          .value_size = out[2] / n,
          .chunk = std::min(c.attributes[2], wide[1])};
}

template <typename T>
inline constexpr auto read_delta_scan_forward = [](const KernelCall& c, const auto& body) {
  body(delta_scan_shape(c, c[1], c[2], c[4]),
       DeltaScanForward<T>{.y = c[4].as<T>(),
                           .x = c[0].as<T>(),
                           .in = c[1].as<T>(),
                           .dt_bias = c[2].as<T>(),
                           .a_log = c[3].as<T>()},
       c[5]);
};

template <typename T>
inline constexpr auto read_delta_scan_backward = [](const KernelCall& c, const auto& body) {
  with_gradient<T>(c[7], [&]<typename G>(G* ddt_bias) {
    body(delta_scan_shape(c, c[2], c[3], c[0]),
         DeltaScanBackward<T, G>{.dx = c[5].as<T>(),
                                 .din = c[6].as<T>(),
                                 .ddt_bias = ddt_bias,
                                 .da_log = c[8].as<G>(),
                                 .dy = c[0].as<T>(),
                                 .x = c[1].as<T>(),
                                 .in = c[2].as<T>(),
                                 .dt_bias = c[3].as<T>(),
                                 .a_log = c[4].as<T>(),
                                 .accumulate_dt_bias = c[7].adds(),
                                 .accumulate_a_log = c[8].adds()},
         c[9]);
  });
};

inline KimiScanShape kimi_scan_shape(const KernelCall& c, const Operand& in, const Operand& decay,
                                     const Operand& heads, const Operand& y) {
  const Shape &wide = in.shape(), &out = y.shape();
  const std::int64_t n = heads.shape()[0];
  return {.batch = wide[0],
          .sequence = wide[1],
          .wide = wide[2],
          .heads = n,
          .key_size = decay.shape()[2] / n,
          .value_size = out[2] / n,
          .chunk = std::min(c.attributes[0], wide[1])};
}

template <typename T>
inline constexpr auto read_kimi_scan_forward = [](const KernelCall& c, const auto& body) {
  body(kimi_scan_shape(c, c[1], c[2], c[4], c[5]),
       KimiScanForward<T>{.y = c[5].as<T>(),
                          .x = c[0].as<T>(),
                          .in = c[1].as<T>(),
                          .decay = c[2].as<T>(),
                          .dt_bias = c[3].as<T>(),
                          .a_log = c[4].as<T>()},
       c[6]);
};

template <typename T>
inline constexpr auto read_kimi_scan_backward = [](const KernelCall& c, const auto& body) {
  with_gradient<T>(c[9], [&]<typename G>(G* ddt_bias) {
    body(kimi_scan_shape(c, c[2], c[3], c[5], c[0]),
         KimiScanBackward<T, G>{.dx = c[6].as<T>(),
                                .din = c[7].as<T>(),
                                .ddecay = c[8].as<T>(),
                                .ddt_bias = ddt_bias,
                                .da_log = c[10].as<G>(),
                                .dy = c[0].as<T>(),
                                .x = c[1].as<T>(),
                                .in = c[2].as<T>(),
                                .decay = c[3].as<T>(),
                                .dt_bias = c[4].as<T>(),
                                .a_log = c[5].as<T>(),
                                .accumulate_dt_bias = c[9].adds(),
                                .accumulate_a_log = c[10].adds()},
         c[11]);
  });
};

inline SelectiveScanShape selective_scan_shape(const Operand& x, const Operand& a_log) {
  const Shape &all = x.shape(), &states = a_log.shape();
  return {all[0], all[1], all[2], states[0]};
}

template <typename T>
inline constexpr auto read_selective_scan_forward = [](const KernelCall& c, const auto& body) {
  const SelectiveScanShape shape = selective_scan_shape(c[0], c[3]);
  body(shape, SelectiveScanForward<T>{.y = c[5].as<T>(),
                                      .x = c[0].as<T>(),
                                      .step = c[1].as<T>(),
                                      .input = c[2].as<T>(),
                                      .output = c[2].as<T>() + shape.vectors(),
                                      .a_log = c[3].as<T>(),
                                      .d = c[4].as<T>()});
};

template <typename T>
inline constexpr auto read_selective_scan_backward = [](const KernelCall& c, const auto& body) {
  const SelectiveScanShape shape = selective_scan_shape(c[1], c[4]);
  with_gradient<T>(c[9], [&]<typename G>(G* da_log) {
    body(shape,
         SelectiveScanBackward<T, G>{.dx = c[6].as<T>(),
                                     .dstep = c[7].as<T>(),
                                     .dinput = c[8].as<T>(),
                                     .doutput = c[8].as<T>() + shape.vectors(),
                                     .da_log = da_log,
                                     .dd = c[10].as<G>(),
                                     .dy = c[0].as<T>(),
                                     .x = c[1].as<T>(),
                                     .step = c[2].as<T>(),
                                     .input = c[3].as<T>(),
                                     .output = c[3].as<T>() + shape.vectors(),
                                     .a_log = c[4].as<T>(),
                                     .d = c[5].as<T>(),
                                     .accumulate_a_log = c[9].adds(),
                                     .accumulate_d = c[10].adds()},
         c[11]);
  });
};

inline SiluGateShape silu_gate_shape(const Operand& x, const Operand& in) {
  const Shape& all = x.shape();
  return {all[0] * all[1], in.shape()[2], all[2]};
}

template <typename T>
inline constexpr auto read_silu_gate_forward = [](const KernelCall& c, const auto& body) {
  body(silu_gate_shape(c[0], c[1]), c[2].as<T>(), c[0].as<T>(), c[1].as<T>());
};
template <typename T>
inline constexpr auto read_silu_gate_backward = [](const KernelCall& c, const auto& body) {
  body(silu_gate_shape(c[1], c[2]), SiluGateBackward<T>{.dx = c[3].as<T>(),
                                                        .din = c[4].as<T>(),
                                                        .dy = c[0].as<T>(),
                                                        .x = c[1].as<T>(),
                                                        .in = c[2].as<T>()});
};

inline ShortConvolutionShape short_convolution_shape(const Operand& in, const Operand& weight) {
  const Shape &all = in.shape(), &w = weight.shape();
  return {all[0], all[1], w[1], w[0]};
}

template <typename T>
inline constexpr auto read_short_convolution_forward = [](const KernelCall& c, const auto& body) {
  body(short_convolution_shape(c[0], c[1]), c[2].as<T>(), c[0].as<T>(), c[1].as<T>());
};
template <typename T>
inline constexpr auto read_short_convolution_backward = [](const KernelCall& c, const auto& body) {
  with_gradient<T>(c[4], [&]<typename G>(G* dweight) {
    body(short_convolution_shape(c[1], c[2]),
         ShortConvolutionBackward<T, G>{.din = c[3].as<T>(),
                                        .dweight = dweight,
                                        .dy = c[0].as<T>(),
                                        .in = c[1].as<T>(),
                                        .weight = c[2].as<T>(),
                                        .accumulate_weight = c[4].adds()});
  });
};

template <typename T>
inline constexpr auto read_scale_columns = [](const KernelCall& c, const auto& body) {
  const Shape& x = c[0].shape();
  body(ScaledColumns{.rows = x[0],
                     .wide = x[1],
                     .first = c.attributes[0],
                     .columns = c.attributes[1],
                     .factor = static_cast<double>(c.attributes[2]) / kFactorUnit},
       c[0].as<T>());
};

}  // namespace zplan::exec
