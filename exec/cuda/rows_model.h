// Rows of the dispatch table: embedding, norms, elementwise kernels, rotary positions, softmax and
// the loss.
// A prepare function tells the least scratch a row needs. Internal to exec/cuda.
#pragma once

#include "exec/cuda/call_support.h"
#include "exec/cuda/kernels/cross_entropy.h"
#include "exec/cuda/kernels/elementwise.h"
#include "exec/cuda/kernels/embedding.h"
#include "exec/cuda/kernels/norm.h"
#include "exec/cuda/kernels/rope.h"
#include "exec/cuda/kernels/softmax.h"
#include "planner/program/step_scalars.h"

namespace zplan::exec::cuda {

struct Preparation;  // dispatch.h

// ---- embedding ----------------------------------------------------------------------------------

template <typename T>
void run_embedding_forward(const KernelCall& c, LaneContext& lane) {
  embedding_forward<T>(lane.stream, embedding_shape<EmbeddingShape>(c, c[1]),
                       {.x = c[2].as<T>(),
                        .tokens = c[0].as<std::int32_t>(),
                        .wte = c[1].as<T>(),
                        .wpe = adds_positions(c) ? c[3].as<T>() : nullptr});
}

template <typename T>
void run_embedding_backward(const KernelCall& c, LaneContext& lane) {
  const bool has_positions = c.operands.size() > 3;
  with_gradient<T>(c[2], [&]<typename G>(G* dwte) {
    embedding_backward<T, G>(lane.stream, embedding_shape<EmbeddingShape>(c, c[2]),
                             {.dwte = dwte,
                              .dwpe = has_positions ? c[3].as<G>() : nullptr,
                              .dx = c[1].as<T>(),
                              .tokens = c[0].as<std::int32_t>(),
                              .accumulate_wte = c[2].adds(),
                              .accumulate_wpe = has_positions && c[3].adds()});
  });
}

// ---- loss ---------------------------------------------------------------------------------------

// Columns [first, ..) of a vocabulary.
inline CrossEntropyShape loss_shape(const KernelCall& c) {
  const TokenRows tokens = token_rows(c[1]);
  return {.batch = tokens.batch,
          .sequence = tokens.sequence,
          .valid = valid_columns(c),
          .columns = c[0].shape()[1],
          .first = c.attributes[2]};
}

// Gradients are scaled by 1 / (tokens of the global batch) and by the loss scale, the loss is not.
inline LossScaling loss_scaling(const KernelCall& c, std::size_t loss, const LaneContext& lane) {
  const bool scaled = c.operands.size() > loss + 1;
  return {.loss = c[loss].as<double>(),
          .partials = lane.partials,
          .loss_scale = scaled ? c[loss + 1].as<double>() + kLossScale : nullptr,
          .scale = 1.0 / static_cast<double>(c.attributes[1])};
}

template <typename T>
void run_cross_entropy(const KernelCall& c, LaneContext& lane) {
  cross_entropy<T>(lane.stream, loss_shape(c), c[0].as<T>(), c[1].as<std::int32_t>(),
                   loss_scaling(c, 2, lane));
}

template <typename T>
void run_cross_entropy_statistics(const KernelCall& c, LaneContext& lane) {
  cross_entropy_statistics<T>(lane.stream, loss_shape(c), c[2].as<float>(), c[0].as<T>(),
                              c[1].as<std::int32_t>());
}

template <typename T>
void run_cross_entropy_parallel(const KernelCall& c, LaneContext& lane) {
  cross_entropy_gradient<T>(lane.stream, loss_shape(c), c[0].as<T>(), c[1].as<std::int32_t>(),
                            c[2].as<float>(), c[2].shape()[0], loss_scaling(c, 3, lane));
}

// ---- norms --------------------------------------------------------------------------------------

template <typename T>
void run_layer_norm_forward(const KernelCall& c, LaneContext& lane) {
  layernorm_forward<T>(lane.stream, norm_shape<NormShape>(c[0], c[1]),
                       {.y = c[3].as<T>(),
                        .mean = c[4].as<float>(),
                        .rstd = c[5].as<float>(),
                        .x = c[0].as<T>(),
                        .gain = c[1].as<T>(),
                        .bias = c[2].as<T>()});
}

template <typename T>
void run_residual_layer_norm_forward(const KernelCall& c, LaneContext& lane) {
  residual_layernorm_forward<T>(
      lane.stream, norm_shape<NormShape>(c[0], c[3]),
      {.sum = c[5].as<T>(), .x = c[0].as<T>(), .y = c[1].as<T>(), .bias = c[2].as<T>()},
      {.y = c[6].as<T>(),
       .mean = c[7].as<float>(),
       .rstd = c[8].as<float>(),
       .x = c[5].as<T>(),
       .gain = c[3].as<T>(),
       .bias = c[4].as<T>()});
}

inline Bytes prepare_layer_norm_backward(const KernelCall& c, const Preparation&) {
  return norm_scratch_bytes(norm_shape<NormShape>(c[0], c[4]));
}

template <typename T>
void run_layer_norm_backward(const KernelCall& c, LaneContext& lane) {
  with_gradient<T>(c[6], [&]<typename G>(G* dgain) {
    layernorm_backward<T, G>(lane.stream, norm_shape<NormShape>(c[0], c[4]),
                             {.dx = c[5].as<T>(),
                              .dgain = dgain,
                              .dbias = c[7].as<G>(),
                              .dy = c[0].as<T>(),
                              .x = c[1].as<T>(),
                              .mean = c[2].as<float>(),
                              .rstd = c[3].as<float>(),
                              .gain = c[4].as<T>(),
                              .accumulate_dx = c[5].adds(),
                              .accumulate_parameters = c[6].adds()},
                             device_scratch(c[8]));
  });
}

template <typename T>
void run_rms_norm_forward(const KernelCall& c, LaneContext& lane) {
  rmsnorm_forward<T>(lane.stream, norm_shape<NormShape>(c[0], c[1]),
                     {.y = c[2].as<T>(),
                      .mean = nullptr,
                      .rstd = c[3].as<float>(),
                      .x = c[0].as<T>(),
                      .gain = c[1].as<T>(),
                      .bias = nullptr});
}

template <typename T>
void run_residual_rms_norm_forward(const KernelCall& c, LaneContext& lane) {
  residual_rmsnorm_forward<T>(
      lane.stream, norm_shape<NormShape>(c[0], c[2]),
      {.sum = c[3].as<T>(), .x = c[0].as<T>(), .y = c[1].as<T>(), .bias = nullptr},
      {.y = c[4].as<T>(),
       .mean = nullptr,
       .rstd = c[5].as<float>(),
       .x = c[3].as<T>(),
       .gain = c[2].as<T>(),
       .bias = nullptr});
}

inline Bytes prepare_rms_norm_backward(const KernelCall& c, const Preparation&) {
  return norm_scratch_bytes(norm_shape<NormShape>(c[0], c[3]));
}

template <typename T>
void run_rms_norm_backward(const KernelCall& c, LaneContext& lane) {
  with_gradient<T>(c[5], [&]<typename G>(G* dgain) {
    rmsnorm_backward<T, G>(lane.stream, norm_shape<NormShape>(c[0], c[3]),
                           {.dx = c[4].as<T>(),
                            .dgain = dgain,
                            .dbias = nullptr,
                            .dy = c[0].as<T>(),
                            .x = c[1].as<T>(),
                            .mean = nullptr,
                            .rstd = c[2].as<float>(),
                            .gain = c[3].as<T>(),
                            .accumulate_dx = c[4].adds(),
                            .accumulate_parameters = c[5].adds()},
                           device_scratch(c[6]));
  });
}

// ---- elementwise --------------------------------------------------------------------------------

template <typename T>
void run_gelu_forward(const KernelCall& c, LaneContext& lane) {
  gelu_forward<T>(lane.stream, c[1].as<T>(), c[0].as<T>(), c[0].elements());
}

template <typename T>
void run_gelu_backward(const KernelCall& c, LaneContext& lane) {
  gelu_backward<T>(lane.stream, c[1].as<T>(), c[1].as<T>(), c[0].as<T>(), c[0].elements());
}

template <typename T>
void run_swiglu_forward(const KernelCall& c, LaneContext& lane) {
  swiglu_forward<T>(lane.stream, {c[1].shape()[0], c[1].shape()[1]}, c[1].as<T>(), c[0].as<T>());
}

template <typename T>
void run_swiglu_backward(const KernelCall& c, LaneContext& lane) {
  swiglu_backward<T>(lane.stream, {c[1].shape()[0], c[1].shape()[1]}, c[2].as<T>(), c[1].as<T>(),
                     c[0].as<T>());
}

template <typename T>
void run_residual_add(const KernelCall& c, LaneContext& lane) {
  residual_add<T>(lane.stream, c[2].as<T>(), c[0].as<T>(), c[1].as<T>(), c[0].elements());
}

template <typename T>
void run_bias_residual_add(const KernelCall& c, LaneContext& lane) {
  bias_residual_add<T>(lane.stream, c[3].as<T>(), c[0].as<T>(), c[1].as<T>(), c[2].as<T>(),
                       c[0].shape()[0], c[0].shape()[1]);
}

inline Bytes prepare_bias_gradient(const KernelCall& c, const Preparation&) {
  return column_sums_scratch_bytes(c[0].shape()[1]);
}

template <typename T>
void run_bias_gradient(const KernelCall& c, LaneContext& lane) {
  with_gradient<T>(c[1], [&]<typename G>(G* dbias) {
    column_sums<T, G>(lane.stream, dbias, c[0].as<T>(), c[0].shape()[0], c[0].shape()[1],
                      c[1].adds(), device_scratch(c[2]));
  });
}

// Of scores [b, a, s, s].
inline SquareRows square_rows(const Operand& scores) {
  const Shape& s = scores.shape();
  return {s[0] * s[1], s[2]};
}

template <typename T>
void run_softmax_forward(const KernelCall& c, LaneContext& lane) {
  softmax_forward<T>(lane.stream, square_rows(c[0]), c[0].as<T>());
}

template <typename T>
void run_softmax_backward(const KernelCall& c, LaneContext& lane) {
  softmax_backward<T>(lane.stream, square_rows(c[0]), c[1].as<T>(), c[0].as<T>());
}

template <typename T>
void run_rope(const KernelCall& c, LaneContext& lane) {
  rope<T>(lane.stream, rope_shape<RopeShape>(c), c[0].as<T>(), static_cast<double>(c.attributes[1]),
          static_cast<int>(c.attributes[2]));
}

}  // namespace zplan::exec::cuda
