// Rows of the dispatch table: embedding, norms, elementwise kernels and the loss. Internal to
// exec/cpu.
#pragma once

#include <array>

#include "exec/cpu/call_support.h"
#include "exec/cpu/kernels/cross_entropy.h"
#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/kernels/embedding.h"
#include "exec/cpu/kernels/norm.h"
#include "planner/program/step_scalars.h"

namespace zplan::exec::cpu {

// ---- embedding ----------------------------------------------------------------------------------

template <typename T>
void run_embedding_forward(const Call& c, GemmCache&) {
  embedding_forward<T>(embedding_shape<EmbeddingShape>(c, c[1]),
                       {.x = c[2].as<T>(),
                        .tokens = c[0].as<std::int32_t>(),
                        .wte = c[1].as<T>(),
                        .wpe = adds_positions(c) ? c[3].as<T>() : nullptr});
}

template <typename T>
void run_embedding_backward(const Call& c, GemmCache&) {
  const bool has_positions = c.operands.size() > 3;
  with_gradient<T>(c[2], [&]<typename G>(G* dwte) {
    embedding_backward<T, G>(embedding_shape<EmbeddingShape>(c, c[2]),
                             {.dwte = dwte,
                              .dwpe = has_positions ? c[3].as<G>() : nullptr,
                              .dx = c[1].as<T>(),
                              .tokens = c[0].as<std::int32_t>(),
                              .accumulate_wte = c[2].adds(),
                              .accumulate_wpe = has_positions && c[3].adds()});
  });
}

// ---- loss ---------------------------------------------------------------------------------------

// Consecutive rows of logits of one sequence.
struct LogitRows {
  CrossEntropyShape shape;
  std::int64_t first;  // of b * s
  const std::int32_t* targets;
};

// The kernels take few rows at a time, so that their scratch fits on the stack.
inline constexpr std::int64_t kLossRows = 64;
struct LossScratch {
  alignas(kScratchAlignBytes) std::array<std::byte, kLossRows * sizeof(double)> bytes;
};

// Calls body(LogitRows) for all of logits[b*s, Vp], columns [first, ..) of a vocabulary.
template <typename Body>
void for_logit_rows(const Call& c, const Body& body) {
  const TokenRows tokens = token_rows(c[1]);
  const std::int64_t columns = c[0].shape()[1], first = c.attributes[2];
  const std::int64_t valid = valid_columns(c);
  for (std::int64_t i = 0; i < tokens.batch; ++i) {
    for (std::int64_t row = 0; row < tokens.sequence; row += kLossRows) {
      const std::int64_t rows = std::min(kLossRows, tokens.sequence - row);
      body(LogitRows{
          {rows, valid, columns, first}, i * tokens.sequence + row, tokens.targets(i) + row});
    }
  }
}

// Gradients are scaled by 1 / (tokens of the global batch) and by the loss scale, the loss is not.
struct LossScales {
  double of_loss, of_gradient;
};
inline LossScales loss_scales(const Call& c, std::size_t scalars) {
  const double of_loss = 1.0 / static_cast<double>(c.attributes[1]);
  const bool scaled = c.operands.size() > scalars;
  return {of_loss, of_loss * (scaled ? c[scalars].as<double>()[kLossScale] : 1.0)};
}

template <typename T>
void run_cross_entropy(const Call& c, GemmCache&) {
  LossScratch losses;
  const LossScales scales = loss_scales(c, 3);
  double sum = 0;
  for_logit_rows(c, [&](const LogitRows& rows) {
    cross_entropy<T>(rows.shape,
                     {.logits = c[0].as<T>() + rows.first * rows.shape.columns,
                      .targets = rows.targets,
                      .scale = scales.of_gradient,
                      .loss_sum = &sum},
                     losses.bytes);
  });
  c[2].as<double>()[0] += sum * scales.of_loss;
}

template <typename T>
void run_cross_entropy_statistics(const Call& c, GemmCache&) {
  for_logit_rows(c, [&](const LogitRows& rows) {
    cross_entropy_statistics<T>(
        rows.shape, {.statistics = c[2].as<Compute<T>>() + rows.first * kRowStatisticCount,
                     .logits = c[0].as<T>() + rows.first * rows.shape.columns,
                     .targets = rows.targets});
  });
}

template <typename T>
void run_cross_entropy_parallel(const Call& c, GemmCache&) {
  LossScratch losses;
  const LossScales scales = loss_scales(c, 4);
  const Shape& statistics = c[2].shape();  // [k, b*s, 3]
  double sum = 0;
  for_logit_rows(c, [&](const LogitRows& rows) {
    cross_entropy_gradient<T>(
        rows.shape,
        {.logits = c[0].as<T>() + rows.first * rows.shape.columns,
         .targets = rows.targets,
         .statistics = c[2].as<Compute<T>>() + rows.first * kRowStatisticCount,
         .pieces = statistics[0],
         .piece_stride = statistics[1] * statistics[2],
         .scale = scales.of_gradient,
         .loss_sum = &sum},
        losses.bytes);
  });
  c[3].as<double>()[0] += sum * scales.of_loss;
}

// ---- norms --------------------------------------------------------------------------------------

template <typename T>
void run_layer_norm_forward(const Call& c, GemmCache&) {
  layernorm_forward<T>(norm_shape<NormShape>(c[0], c[1]), {.y = c[3].as<T>(),
                                                           .mean = c[4].as<Compute<T>>(),
                                                           .rstd = c[5].as<Compute<T>>(),
                                                           .x = c[0].as<T>(),
                                                           .gain = c[1].as<T>(),
                                                           .bias = c[2].as<T>()});
}

template <typename T>
void run_layer_norm_backward(const Call& c, GemmCache&) {
  with_gradient<T>(c[6], [&]<typename G>(G* dgain) {
    layernorm_backward<T, G>(norm_shape<NormShape>(c[0], c[4]),
                             {.dx = c[5].as<T>(),
                              .dgain = dgain,
                              .dbias = c[7].as<G>(),
                              .dy = c[0].as<T>(),
                              .x = c[1].as<T>(),
                              .mean = c[2].as<Compute<T>>(),
                              .rstd = c[3].as<Compute<T>>(),
                              .gain = c[4].as<T>(),
                              .accumulate_dx = c[5].adds(),
                              .accumulate_parameters = c[6].adds()});
  });
}

template <typename T>
void run_rms_norm_forward(const Call& c, GemmCache&) {
  rmsnorm_forward<T>(
      norm_shape<NormShape>(c[0], c[1]),
      {.y = c[2].as<T>(), .rstd = c[3].as<Compute<T>>(), .x = c[0].as<T>(), .gain = c[1].as<T>()});
}

template <typename T>
void run_rms_norm_backward(const Call& c, GemmCache&) {
  with_gradient<T>(c[5], [&]<typename G>(G* dgain) {
    rmsnorm_backward<T, G>(norm_shape<NormShape>(c[0], c[3]),
                           {.dx = c[4].as<T>(),
                            .dgain = dgain,
                            .dy = c[0].as<T>(),
                            .x = c[1].as<T>(),
                            .rstd = c[2].as<Compute<T>>(),
                            .gain = c[3].as<T>(),
                            .accumulate_dx = c[4].adds(),
                            .accumulate_parameters = c[5].adds()});
  });
}

// ---- elementwise --------------------------------------------------------------------------------

template <typename T>
void run_gelu_forward(const Call& c, GemmCache&) {
  gelu_forward<T>(c[1].as<T>(), c[0].as<T>(), c[0].elements());
}

template <typename T>
void run_gelu_backward(const Call& c, GemmCache&) {
  gelu_backward<T>(c[1].as<T>(), c[1].as<T>(), c[0].as<T>(), c[0].elements());
}

template <typename T>
void run_swiglu_forward(const Call& c, GemmCache&) {
  swiglu_forward<T>({c[1].shape()[0], c[1].shape()[1]}, c[1].as<T>(), c[0].as<T>());
}

template <typename T>
void run_swiglu_backward(const Call& c, GemmCache&) {
  swiglu_backward<T>({c[1].shape()[0], c[1].shape()[1]}, c[2].as<T>(), c[1].as<T>(), c[0].as<T>());
}

template <typename T>
void run_residual_add(const Call& c, GemmCache&) {
  residual_add<T>(c[2].as<T>(), c[0].as<T>(), c[1].as<T>(), c[0].elements());
}

template <typename T>
void run_bias_residual_add(const Call& c, GemmCache&) {
  bias_residual_add<T>(c[3].as<T>(), c[0].as<T>(), c[1].as<T>(), c[2].as<T>(), c[0].shape()[0],
                       c[0].shape()[1]);
}

template <typename T>
void run_residual_layer_norm_forward(const Call& c, GemmCache&) {
  bias_residual_add<T>(c[5].as<T>(), c[0].as<T>(), c[1].as<T>(), c[2].as<T>(), c[0].shape()[0],
                       c[0].shape()[1]);
  layernorm_forward<T>(norm_shape<NormShape>(c[0], c[3]), {.y = c[6].as<T>(),
                                                           .mean = c[7].as<Compute<T>>(),
                                                           .rstd = c[8].as<Compute<T>>(),
                                                           .x = c[5].as<T>(),
                                                           .gain = c[3].as<T>(),
                                                           .bias = c[4].as<T>()});
}

template <typename T>
void run_residual_rms_norm_forward(const Call& c, GemmCache&) {
  residual_add<T>(c[3].as<T>(), c[0].as<T>(), c[1].as<T>(), c[0].elements());
  rmsnorm_forward<T>(
      norm_shape<NormShape>(c[0], c[2]),
      {.y = c[4].as<T>(), .rstd = c[5].as<Compute<T>>(), .x = c[3].as<T>(), .gain = c[2].as<T>()});
}

}  // namespace zplan::exec::cpu
