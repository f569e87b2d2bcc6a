// How kernels of the model read their calls, on every device: read_x<T>(call, body) finds what
// kernel x takes in operands and attributes, which stand as in planner/program/kernels/rows.h, and
// hands it to the body. Embedding, norms, elementwise kernels, rotary positions, softmax and loss.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "exec/kernels/operands.h"
#include "planner/program/step_scalars.h"

namespace zplan::exec {

// ---- embedding ----------------------------------------------------------------------------------

// Of tokens, the first operand, and a table of their vectors.
inline EmbeddingShape embedding_shape(const KernelCall& c, const Operand& wte) {
  const TokenRows tokens = token_rows(c[0]);
  return {.batch = tokens.batch,
          .sequence = tokens.sequence,
          .hidden = wte.shape()[1],
          .rows = wte.shape()[0],
          .first = c.attributes[0],
          .token_stride = tokens.sequence + 1,
          .scale = c.attributes[1] == 0 ? 1.0 : std::sqrt(static_cast<double>(c.attributes[1]))};
}

// Of the pieces of a vocabulary only the first adds positions: the pieces are summed.
template <typename T>
inline constexpr auto read_embedding_forward = [](const KernelCall& c, const auto& body) {
  const bool adds_positions = c.operands.size() > 3 && c.attributes[0] == 0;
  body(embedding_shape(c, c[1]),
       EmbeddingForward<T>{.x = c[2].as<T>(),
                           .tokens = c[0].as<std::int32_t>(),
                           .wte = c[1].as<T>(),
                           .wpe = adds_positions ? c[3].as<T>() : nullptr});
};

template <typename T>
inline constexpr auto read_embedding_backward = [](const KernelCall& c, const auto& body) {
  const bool has_positions = c.operands.size() > 4;  // scratch is the last one
  with_gradient<T>(c[2], [&]<typename G>(G* dwte) {
    body(embedding_shape(c, c[2]),
         EmbeddingBackward<T, G>{.dwte = dwte,
                                 .dwpe = has_positions ? c[3].as<G>() : nullptr,
                                 .dx = c[1].as<T>(),
                                 .tokens = c[0].as<std::int32_t>(),
                                 .accumulate_wte = c[2].adds(),
                                 .accumulate_wpe = has_positions && c[3].adds()},
         c.operands.back());
  });
};

// ---- norms --------------------------------------------------------------------------------------

inline NormShape norm_shape(const Operand& rows, const Operand& gain) {
  return {rows.elements() / gain.elements(), gain.elements()};
}

template <typename T>
inline constexpr auto read_layer_norm_forward = [](const KernelCall& c, const auto& body) {
  body(norm_shape(c[0], c[1]), NormForward<T>{.y = c[3].as<T>(),
                                              .mean = c[4].as<Compute<T>>(),
                                              .rstd = c[5].as<Compute<T>>(),
                                              .x = c[0].as<T>(),
                                              .gain = c[1].as<T>(),
                                              .bias = c[2].as<T>(),
                                              .epsilon = epsilon_of(c.attributes[0])});
};

inline NormShape norm_shape(const Operand& rows) { return {rows.shape()[0], rows.shape()[1]}; }

template <typename T>
inline constexpr auto read_centred_norm_forward = [](const KernelCall& c, const auto& body) {
  const bool has_gain = c.operands.size() > 4;
  body(norm_shape(c[0]), NormForward<T>{.y = c[1].as<T>(),
                                        .mean = c[2].as<Compute<T>>(),
                                        .rstd = c[3].as<Compute<T>>(),
                                        .x = c[0].as<T>(),
                                        .gain = has_gain ? c[4].as<T>() : nullptr,
                                        .bias = nullptr,
                                        .epsilon = epsilon_of(c.attributes[0])});
};

template <typename T>
inline constexpr auto read_centred_norm_backward = [](const KernelCall& c, const auto& body) {
  const auto read = [&](const T* gain, auto* dgain, bool adds) {
    using G = std::remove_pointer_t<decltype(dgain)>;
    body(norm_shape(c[0]),
         NormBackward<T, G>{.dx = c[4].as<T>(),
                            .dgain = dgain,
                            .dbias = nullptr,
                            .dy = c[0].as<T>(),
                            .x = c[1].as<T>(),
                            .mean = c[2].as<Compute<T>>(),
                            .rstd = c[3].as<Compute<T>>(),
                            .gain = gain,
                            .accumulate_dx = c[4].adds(),
                            .accumulate_parameters = adds},
         c.operands.back());
  };
  const bool has_gain = c.operands.size() > 6;  // scratch is the last one
  if (!has_gain) return read(nullptr, static_cast<T*>(nullptr), false);
  with_gradient<T>(c[6], [&]<typename G>(G* dgain) { read(c[5].as<T>(), dgain, c[6].adds()); });
};

template <typename T>
inline constexpr auto read_rms_norm_forward = [](const KernelCall& c, const auto& body) {
  body(norm_shape(c[0], c[1]), NormForward<T>{.y = c[2].as<T>(),
                                              .mean = nullptr,
                                              .rstd = c[3].as<Compute<T>>(),
                                              .x = c[0].as<T>(),
                                              .gain = c[1].as<T>(),
                                              .bias = nullptr,
                                              .epsilon = epsilon_of(c.attributes[0])});
};

template <typename T>
inline constexpr auto read_residual_layer_norm_forward = [](const KernelCall& c, const auto& body) {
  body(norm_shape(c[0], c[3]),
       ResidualSum<T>{
           .sum = c[5].as<T>(), .x = c[0].as<T>(), .y = c[1].as<T>(), .bias = c[2].as<T>()},
       NormForward<T>{.y = c[6].as<T>(),
                      .mean = c[7].as<Compute<T>>(),
                      .rstd = c[8].as<Compute<T>>(),
                      .x = c[5].as<T>(),
                      .gain = c[3].as<T>(),
                      .bias = c[4].as<T>(),
                      .epsilon = epsilon_of(c.attributes[0])});
};

template <typename T>
inline constexpr auto read_residual_rms_norm_forward = [](const KernelCall& c, const auto& body) {
  body(norm_shape(c[0], c[2]),
       ResidualSum<T>{.sum = c[3].as<T>(), .x = c[0].as<T>(), .y = c[1].as<T>(), .bias = nullptr},
       NormForward<T>{.y = c[4].as<T>(),
                      .mean = nullptr,
                      .rstd = c[5].as<Compute<T>>(),
                      .x = c[3].as<T>(),
                      .gain = c[2].as<T>(),
                      .bias = nullptr,
                      .epsilon = epsilon_of(c.attributes[0])});
};

template <typename T>
inline constexpr auto read_layer_norm_backward = [](const KernelCall& c, const auto& body) {
  with_gradient<T>(c[6], [&]<typename G>(G* dgain) {
    body(norm_shape(c[0], c[4]),
         NormBackward<T, G>{.dx = c[5].as<T>(),
                            .dgain = dgain,
                            .dbias = c[7].as<G>(),
                            .dy = c[0].as<T>(),
                            .x = c[1].as<T>(),
                            .mean = c[2].as<Compute<T>>(),
                            .rstd = c[3].as<Compute<T>>(),
                            .gain = c[4].as<T>(),
                            .accumulate_dx = c[5].adds(),
                            .accumulate_parameters = c[6].adds()},
         c[8]);
  });
};

template <typename T>
inline constexpr auto read_rms_norm_backward = [](const KernelCall& c, const auto& body) {
  with_gradient<T>(c[5], [&]<typename G>(G* dgain) {
    body(norm_shape(c[0], c[3]),
         NormBackward<T, G>{.dx = c[4].as<T>(),
                            .dgain = dgain,
                            .dbias = nullptr,
                            .dy = c[0].as<T>(),
                            .x = c[1].as<T>(),
                            .mean = nullptr,
                            .rstd = c[2].as<Compute<T>>(),
                            .gain = c[3].as<T>(),
                            .accumulate_dx = c[4].adds(),
                            .accumulate_parameters = c[5].adds()},
         c[6]);
  });
};

// ---- elementwise --------------------------------------------------------------------------------

// The function of a call; `own`: the one that the kernel is named after.
inline ActivationFunction function_of(const KernelCall& c, ActivationFunction own) {
  return c.attributes[0] == 0 ? own : static_cast<ActivationFunction>(c.attributes[0]);
}

template <typename T>
inline constexpr auto read_gelu_forward = [](const KernelCall& c, const auto& body) {
  body(c[1].as<T>(), c[0].as<T>(), c[0].elements(), function_of(c, ActivationFunction::kGeluTanh));
};

template <typename T>
inline constexpr auto read_round_fp8 = [](const KernelCall& c, const auto& body) {
  body(c[1].as<T>(), c[0].as<T>(), c[0].shape()[0], c[0].shape()[1],
       std::max<std::int64_t>(1, c.attributes[0]), std::max<std::int64_t>(1, c.attributes[1]),
       c.attributes[2] != 0);
};

// body(y, codes, scales, scale codes, constants, n, is fp4)
template <typename T>
inline constexpr auto read_dequantise = [](const KernelCall& c, const auto& body) {
  body(c[2].as<T>(), c[0].as<std::uint8_t>(), c[1].as<Compute<T>>(),
       static_cast<const std::uint8_t*>(nullptr), static_cast<const Compute<T>*>(nullptr),
       c[2].elements(), c.attributes[0] != 0);
};

template <typename T>
inline constexpr auto read_dequantise_double = [](const KernelCall& c, const auto& body) {
  body(c[3].as<T>(), c[0].as<std::uint8_t>(), static_cast<const Compute<T>*>(nullptr),
       c[1].as<std::uint8_t>(), c[2].as<Compute<T>>(), c[3].elements(), c.attributes[0] != 0);
};

// The codes, what they are of, and the sizes of that; with the operand of either.
template <typename T, int codes, int x>
inline constexpr auto read_code_rows = [](const KernelCall& c, const auto& body) {
  body(c[codes].as<std::uint8_t>(), c[x].as<T>(), c[x].shape()[0], c[x].shape()[1],
       c.attributes[0]);
};

template <typename T>
inline constexpr auto read_scale = [](const KernelCall& c, const auto& body) {
  const double factor = static_cast<double>(c.attributes[0]) / static_cast<double>(c.attributes[1]);
  body(c[0].as<T>(), c[0].elements(), c.attributes[2] != 0 ? std::sqrt(factor) : factor);
};

template <typename T>
inline constexpr auto read_gelu_backward = [](const KernelCall& c, const auto& body) {
  body(c[1].as<T>(), c[1].as<T>(), c[0].as<T>(), c[0].elements(),
       function_of(c, ActivationFunction::kGeluTanh));
};

// With y or its gradient.
inline SwigluShape swiglu_shape(const KernelCall& c, const Shape& y) {
  SwigluShape shape{y[0], y[1], function_of(c, ActivationFunction::kSilu)};
  if (c.attributes[1] > 0) shape.limit = limit_of(c.attributes[1]);
  shape.offset = static_cast<double>(c.attributes[2]);
  return shape;
}

template <typename T>
inline constexpr auto read_swiglu_forward = [](const KernelCall& c, const auto& body) {
  body(swiglu_shape(c, c[1].shape()), c[1].as<T>(), c[0].as<T>());
};

template <typename T>
inline constexpr auto read_swiglu_backward = [](const KernelCall& c, const auto& body) {
  body(swiglu_shape(c, c[1].shape()), c[2].as<T>(), c[1].as<T>(), c[0].as<T>());
};

template <typename T>
inline constexpr auto read_soft_cap_forward = [](const KernelCall& c, const auto& body) {
  body(c[1].as<T>(), c[0].as<T>(), c[0].elements(), static_cast<double>(c.attributes[0]));
};

template <typename T>
inline constexpr auto read_soft_cap_backward = [](const KernelCall& c, const auto& body) {
  body(c[1].as<T>(), c[0].as<T>(), c[0].elements(), static_cast<double>(c.attributes[0]));
};

template <typename T>
inline constexpr auto read_residual_add = [](const KernelCall& c, const auto& body) {
  body(c[2].as<T>(), c[0].as<T>(), c[1].as<T>(), c[0].elements());
};

template <typename T>
inline constexpr auto read_bias_residual_add = [](const KernelCall& c, const auto& body) {
  body(c[3].as<T>(), c[0].as<T>(), c[1].as<T>(), c[2].as<T>(), c[0].shape()[0], c[0].shape()[1]);
};

template <typename T>
inline constexpr auto read_bias_gradient = [](const KernelCall& c, const auto& body) {
  with_gradient<T>(c[1], [&](auto* dbias) {
    body(dbias, c[0].as<T>(), c[0].shape()[0], c[0].shape()[1], c[1].adds(), c[2]);
  });
};

// ---- columns ------------------------------------------------------------------------------------

// Of pieces [c, T, m].
inline ColumnPieces column_pieces(const KernelCall& c, const Shape& pieces) {
  const std::int64_t first = c.attributes[0] / pieces[0], second = c.attributes[1] / pieces[0];
  return {.rows = pieces[1],
          .pieces = pieces[0],
          .segments = {first, second, pieces[2] - first - second}};
}

template <typename T>
inline constexpr auto read_split_columns = [](const KernelCall& c, const auto& body) {
  body(column_pieces(c, c[1].shape()), c[1].as<T>(), c[0].as<T>());
};

template <typename T>
inline constexpr auto read_join_columns = [](const KernelCall& c, const auto& body) {
  body(column_pieces(c, c[0].shape()), c[1].as<T>(), c[0].as<T>());
};

// ---- attention ----------------------------------------------------------------------------------

template <typename T>
inline constexpr auto read_rope = [](const KernelCall& c, const auto& body) {
  const Shape& s = c[0].shape();
  const std::int64_t size = c.attributes[4] == 0 ? s[3] : c.attributes[4];
  body(RopeShape{s[0], s[1], s[2], s[3], c.attributes[0], c.attributes[3], size,
                 std::max<std::int64_t>(1, c.attributes[5])},
       c[0].as<T>(), static_cast<double>(c.attributes[1]), static_cast<int>(c.attributes[2]));
};

// Of scores [b, a, s, s].
inline SquareRows square_rows(const Operand& scores) {
  return {scores.shape()[0] * scores.shape()[1], scores.shape()[2]};
}

template <typename T>
inline constexpr auto read_softmax_forward =
    [](const KernelCall& c, const auto& body) { body(square_rows(c[0]), c[0].as<T>()); };

template <typename T>
inline constexpr auto read_softmax_backward = [](const KernelCall& c, const auto& body) {
  body(square_rows(c[0]), c[1].as<T>(), c[0].as<T>());
};

inline SinksShape sinks_shape(const Operand& out) {
  const Shape& s = out.shape();
  return {s[0], s[1], s[2], s[3]};
}

template <typename T>
inline constexpr auto read_sinks_forward = [](const KernelCall& c, const auto& body) {
  body(sinks_shape(c[0]),
       SinksForward<T>{.out = c[0].as<T>(), .lse = c[1].as<Compute<T>>(), .sinks = c[2].as<T>()});
};

template <typename T>
inline constexpr auto read_sinks_backward = [](const KernelCall& c, const auto& body) {
  with_gradient<T>(c[4], [&]<typename G>(G* dsinks) {
    body(sinks_shape(c[1]),
         SinksBackward<T, G>{.dsinks = dsinks,
                             .dout = c[0].as<T>(),
                             .out = c[1].as<T>(),
                             .lse = c[2].as<Compute<T>>(),
                             .sinks = c[3].as<T>(),
                             .accumulate = c[4].adds()},
         c.operands.back());
  });
};

// ---- loss ---------------------------------------------------------------------------------------

// Columns [first, ..) of a vocabulary.
inline CrossEntropyShape cross_entropy_shape(const KernelCall& c) {
  const TokenRows tokens = token_rows(c[1]);
  const std::int64_t columns = c[0].shape()[1], first = c.attributes[2];
  return {.batch = tokens.batch,
          .sequence = tokens.sequence,
          .valid = std::clamp<std::int64_t>(c.attributes[0] - first, 0, columns),
          .columns = columns,
          .first = first,
          .cap = static_cast<double>(c.attributes[3])};
}

inline LossSum loss_sum(const KernelCall& c, std::size_t loss) {
  const bool scaled = c.operands.size() > loss + 1;
  return {.loss = c[loss].as<double>(),
          .loss_scale = scaled ? c[loss + 1].as<double>() + kLossScale : nullptr,
          .scale = 1.0 / static_cast<double>(c.attributes[1])};
}

template <typename T>
inline constexpr auto read_cross_entropy = [](const KernelCall& c, const auto& body) {
  body(cross_entropy_shape(c), c[0].as<T>(), c[1].as<std::int32_t>(), loss_sum(c, 2));
};

template <typename T>
inline constexpr auto read_cross_entropy_statistics = [](const KernelCall& c, const auto& body) {
  body(cross_entropy_shape(c), c[2].as<Compute<T>>(), c[0].as<T>(), c[1].as<std::int32_t>());
};

// Of statistics [pieces, b s, 3].
template <typename T>
inline constexpr auto read_cross_entropy_parallel = [](const KernelCall& c, const auto& body) {
  body(cross_entropy_shape(c), c[0].as<T>(), c[1].as<std::int32_t>(), c[2].as<Compute<T>>(),
       c[2].shape()[0], loss_sum(c, 3));
};

}  // namespace zplan::exec
