#include "exec/cpu/dispatch.h"

#include <algorithm>
#include <array>
#include <limits>

#include "exec/cpu/kernels/attention.h"
#include "exec/cpu/kernels/cross_entropy.h"
#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/kernels/embedding.h"
#include "exec/cpu/kernels/layernorm.h"
#include "exec/cpu/kernels/linear.h"
#include "exec/cpu/kernels/optimizer.h"
#include "exec/host_kernels.h"
#include "planner/program/step_scalars.h"

namespace zplan::exec::cpu {
namespace {

using Call = KernelCall;

Scratch scratch(const Operand& operand) {
  return {operand.data, static_cast<std::size_t>(operand.view->bytes().value)};
}

// ---- linear layers ------------------------------------------------------------------------------

LinearShape linear_shape(const Operand& rows, const Operand& weight) {
  return {rows.shape()[0], weight.shape()[0], weight.shape()[1]};
}

// Buffers hold all Vp rows of wte, the padded ones zero, so a product needs no special case there.
HeadShape head_shape(const Operand& rows, const Operand& wte) {
  const std::int64_t padded_vocab = wte.shape()[0];
  return {rows.shape()[0], wte.shape()[1], padded_vocab, padded_vocab};
}

template <typename T>
Bytes prepare_gemm(GemmCache& gemm, const GemmShape& shape) {
  gemm.prepare<T>(shape);
  return gemm.scratch_bytes<T>(shape);
}

template <typename T>
struct LinearForwardRow {
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, linear_forward_gemm(linear_shape(c[0], c[1])));
  }
  static void run(const Call& c, GemmCache& gemm) {
    linear_forward<T>(
        gemm, linear_shape(c[0], c[1]),
        {.y = c[3].as<T>(), .x = c[0].as<T>(), .w = c[1].as<T>(), .bias = c[2].as<T>()},
        scratch(c[4]));
  }
};

template <typename T>
struct LinearInputGradientRow {
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, linear_dgrad_gemm(linear_shape(c[0], c[1])));
  }
  static void run(const Call& c, GemmCache& gemm) {
    linear_dgrad<T>(gemm, linear_shape(c[0], c[1]),
                    {.dx = c[2].as<T>(), .dy = c[0].as<T>(), .w = c[1].as<T>()}, scratch(c[3]));
  }
};

template <typename T>
struct LinearWeightGradientRow {
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, linear_wgrad_gemm(linear_shape(c[0], c[2]), c[2].adds()));
  }
  static void run(const Call& c, GemmCache& gemm) {
    linear_wgrad<T>(gemm, linear_shape(c[0], c[2]),
                    {.dw = c[2].as<T>(),
                     .dbias = c[3].as<T>(),
                     .dy = c[1].as<T>(),
                     .x = c[0].as<T>(),
                     .accumulate = c[2].adds()},
                    scratch(c[4]));
  }
};

template <typename T>
struct HeadForwardRow {
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, head_forward_gemm(head_shape(c[0], c[1])));
  }
  static void run(const Call& c, GemmCache& gemm) {
    head_forward<T>(gemm, head_shape(c[0], c[1]),
                    {.logits = c[2].as<T>(), .x = c[0].as<T>(), .wte = c[1].as<T>()},
                    scratch(c[3]));
  }
};

template <typename T>
struct HeadInputGradientRow {
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, head_dgrad_gemm(head_shape(c[0], c[1])));
  }
  static void run(const Call& c, GemmCache& gemm) {
    head_dgrad<T>(gemm, head_shape(c[0], c[1]),
                  {.dx = c[2].as<T>(), .dlogits = c[0].as<T>(), .wte = c[1].as<T>()},
                  scratch(c[3]));
  }
};

template <typename T>
struct HeadWeightGradientRow {
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, head_wgrad_gemm(head_shape(c[0], c[2]), c[2].adds()));
  }
  static void run(const Call& c, GemmCache& gemm) {
    head_wgrad<T>(gemm, head_shape(c[0], c[2]),
                  {.dwte = c[2].as<T>(),
                   .dlogits = c[0].as<T>(),
                   .x = c[1].as<T>(),
                   .accumulate = c[2].adds()},
                  scratch(c[3]));
  }
};

// ---- attention ----------------------------------------------------------------------------------

AttentionShape attention_shape(const Operand& qkv) {  // [b, s, 3, a, d]
  const Shape& s = qkv.shape();
  return {s[0], s[1], s[3], s[4]};
}

// Room for one thread is enough; more threads use what else there is.
template <typename T>
struct AttentionForwardRow {
  static Bytes prepare(const Call& c, GemmCache&) {
    return attention_forward_scratch_bytes<T>(attention_shape(c[0]), 1);
  }
  static void run(const Call& c, GemmCache&) {
    attention_forward<T>(attention_shape(c[0]),
                         {.out = c[1].as<T>(), .lse = c[2].as<T>(), .qkv = c[0].as<T>()},
                         scratch(c[3]));
  }
};

template <typename T>
struct AttentionBackwardRow {
  static Bytes prepare(const Call& c, GemmCache&) {
    return attention_backward_scratch_bytes<T>(attention_shape(c[1]), 1);
  }
  static void run(const Call& c, GemmCache&) {
    attention_backward<T>(attention_shape(c[1]),
                          {.dqkv = c[4].as<T>(),
                           .dout = c[0].as<T>(),
                           .out = c[2].as<T>(),
                           .lse = c[3].as<T>(),
                           .qkv = c[1].as<T>()},
                          scratch(c[5]));
  }
};

// ---- embedding and loss -------------------------------------------------------------------------

// Rows of tokens are s + 1 long: inputs at [i, 0..s), targets at [i, 1..s]. The kernels take one
// sequence at a time.
struct TokenRows {
  std::int64_t batch, sequence;
  const std::int32_t* data;
  const std::int32_t* inputs(std::int64_t i) const { return data + i * (sequence + 1); }
  const std::int32_t* targets(std::int64_t i) const { return inputs(i) + 1; }
};

TokenRows token_rows(const Operand& tokens) {
  return {tokens.shape()[0], tokens.shape()[1] - 1, tokens.as<std::int32_t>()};
}

template <typename T>
void run_embedding_forward(const Call& c, GemmCache&) {
  const TokenRows tokens = token_rows(c[0]);
  const std::int64_t hidden = c[1].shape()[1];
  const EmbeddingShape shape{1, tokens.sequence, hidden, c[1].shape()[0]};
  for (std::int64_t i = 0; i < tokens.batch; ++i) {
    embedding_forward<T>(shape, {.x = c[3].as<T>() + i * tokens.sequence * hidden,
                                 .tokens = tokens.inputs(i),
                                 .wte = c[1].as<T>(),
                                 .wpe = c[2].as<T>()});
  }
}

template <typename T>
void run_embedding_backward(const Call& c, GemmCache&) {
  const TokenRows tokens = token_rows(c[0]);
  const std::int64_t hidden = c[2].shape()[1];
  const EmbeddingShape shape{1, tokens.sequence, hidden, c[2].shape()[0]};
  for (std::int64_t i = 0; i < tokens.batch; ++i) {
    embedding_backward<T>(shape, {.dwte = c[2].as<T>(),
                                  .dwpe = c[3].as<T>(),
                                  .dx = c[1].as<T>() + i * tokens.sequence * hidden,
                                  .tokens = tokens.inputs(i),
                                  .accumulate_wte = i > 0 || c[2].adds(),
                                  .accumulate_wpe = i > 0 || c[3].adds()});
  }
}

// The loss buffer gains sum(-log p) / (tokens of the global batch); the logits become the gradient
// of that.
template <typename T>
void run_cross_entropy(const Call& c, GemmCache&) {
  constexpr std::int64_t kRows = 64;  // per call, so that the kernel's scratch fits on the stack
  alignas(kScratchAlignBytes) std::array<std::byte, kRows * sizeof(double)> losses;
  const TokenRows tokens = token_rows(c[1]);
  const std::int64_t vocab = c.attributes[0];
  const std::int64_t padded_vocab = c[0].elements() / (tokens.batch * tokens.sequence);
  const double scale = 1.0 / static_cast<double>(c.attributes[1]);
  double sum = 0;
  for (std::int64_t i = 0; i < tokens.batch; ++i) {
    for (std::int64_t row = 0; row < tokens.sequence; row += kRows) {
      const std::int64_t rows = std::min(kRows, tokens.sequence - row);
      cross_entropy<T>({rows, vocab, padded_vocab},
                       {.logits = c[0].as<T>() + (i * tokens.sequence + row) * padded_vocab,
                        .targets = tokens.targets(i) + row,
                        .scale = scale,
                        .loss_sum = &sum},
                       losses);
    }
  }
  c[2].as<double>()[0] += sum * scale;
}

// ---- everything else ----------------------------------------------------------------------------

LayernormShape layernorm_shape(const Operand& rows, const Operand& gain) {
  return {rows.elements() / gain.elements(), gain.elements()};
}

template <typename T>
void run_layer_norm_forward(const Call& c, GemmCache&) {
  layernorm_forward<T>(layernorm_shape(c[0], c[1]), {.y = c[3].as<T>(),
                                                     .mean = c[4].as<T>(),
                                                     .rstd = c[5].as<T>(),
                                                     .x = c[0].as<T>(),
                                                     .gain = c[1].as<T>(),
                                                     .bias = c[2].as<T>()});
}

template <typename T>
void run_layer_norm_backward(const Call& c, GemmCache&) {
  layernorm_backward<T>(layernorm_shape(c[0], c[4]), {.dx = c[5].as<T>(),
                                                      .dgain = c[6].as<T>(),
                                                      .dbias = c[7].as<T>(),
                                                      .dy = c[0].as<T>(),
                                                      .x = c[1].as<T>(),
                                                      .mean = c[2].as<T>(),
                                                      .rstd = c[3].as<T>(),
                                                      .gain = c[4].as<T>(),
                                                      .accumulate_dx = c[5].adds(),
                                                      .accumulate_parameters = c[6].adds()});
}

template <typename T>
void run_gelu_forward(const Call& c, GemmCache&) {
  gelu_forward<T>(c[1].as<T>(), c[0].as<T>(), c[0].elements());
}

template <typename T>
void run_gelu_backward(const Call& c, GemmCache&) {
  gelu_backward<T>(c[1].as<T>(), c[1].as<T>(), c[0].as<T>(), c[0].elements());
}

template <typename T>
void run_residual_add(const Call& c, GemmCache&) {
  residual_add<T>(c[2].as<T>(), c[0].as<T>(), c[1].as<T>(), c[0].elements());
}

template <typename T>
void run_accumulate(const Call& c, GemmCache&) {
  accumulate<T>(c[1].as<T>(), c[0].as<T>(), c[0].elements());
}

// The only kernel whose operand may be of another type than the kernel set's: the loss and the sum
// of squares are float64. Zero has the same bytes in both.
void run_fill_zero(const Call& c, GemmCache&) {
  fill_zero<float>(c[0].as<float>(),
                   c[0].view->bytes().value / static_cast<std::int64_t>(sizeof(float)));
}

template <typename T>
void run_sum_squares(const Call& c, GemmCache&) {
  sum_squares<T>(c[1].as<double>(), c[0].as<T>(), c[0].elements());
}

void run_clip_coefficient(const Call& c, GemmCache&) {
  const double most = c[1].as<double>()[kMaxGradientNorm];
  const double bound = most > 0 ? most : std::numeric_limits<double>::infinity();
  const ClipResult result = clip_coefficient(c[0].as<double>()[0], bound);
  double* clip = c[2].as<double>();
  clip[kClipFactor] = result.skip ? -1.0 : result.coefficient;
  clip[kGradientNorm] = result.norm;
}

template <typename T>
void run_adamw(const Call& c, GemmCache&) {
  const double* scalars = c[4].as<double>();
  const double factor = c[5].as<double>()[kClipFactor];
  const bool has_param = c.operands.size() > 6;
  adamw<T>({.learning_rate = scalars[kLearningRate],
            .beta1 = scalars[kBeta1],
            .beta2 = scalars[kBeta2],
            .eps = scalars[kEpsilon],
            .weight_decay = scalars[kWeightDecay],
            .bias_correction1 = scalars[kBiasCorrection1],
            .bias_correction2 = scalars[kBiasCorrection2],
            .clip_coefficient = factor,
            .skip = factor < 0},
           {.master = c[0].as<T>(),
            .m = c[1].as<T>(),
            .v = c[2].as<T>(),
            .grad = c[3].as<T>(),
            .param = has_param ? c[6].as<T>() : nullptr,
            .n = c[0].elements(),
            .flat_offset = c.attributes[0] + c.dp_index * c.attributes[1],
            .decay_elements = c.attributes[2]});
}

template <void (*host_kernel)(const Call&)>
void run_host(const Call& c, GemmCache&) {
  host_kernel(c);
}

template <typename T>
constexpr std::array<DispatchEntry, kKernelCount> make_table() {
  using K = KernelId;
  return {{
      {K::kLoadBatch, "i", nullptr, run_host<load_batch>},
      {K::kStepScalars, "d", nullptr, run_host<step_scalars>},
      {K::kEmbeddingForward, "ix", nullptr, run_embedding_forward<T>},
      {K::kLayerNormForward, "x", nullptr, run_layer_norm_forward<T>},
      {K::kLinearForward, "xxxx*", LinearForwardRow<T>::prepare, LinearForwardRow<T>::run},
      {K::kAttentionForward, "xxx*", AttentionForwardRow<T>::prepare, AttentionForwardRow<T>::run},
      {K::kGeluForward, "x", nullptr, run_gelu_forward<T>},
      {K::kResidualAdd, "x", nullptr, run_residual_add<T>},
      {K::kHeadForward, "xxx*", HeadForwardRow<T>::prepare, HeadForwardRow<T>::run},
      {K::kCrossEntropy, "xid", nullptr, run_cross_entropy<T>},
      {K::kHeadInputGradient, "xxx*", HeadInputGradientRow<T>::prepare,
       HeadInputGradientRow<T>::run},
      {K::kHeadWeightGradient, "xxx*", HeadWeightGradientRow<T>::prepare,
       HeadWeightGradientRow<T>::run},
      {K::kLayerNormBackward, "xxxxxxxx*", nullptr, run_layer_norm_backward<T>},
      {K::kLinearInputGradient, "xxx*", LinearInputGradientRow<T>::prepare,
       LinearInputGradientRow<T>::run},
      {K::kLinearWeightGradient, "xxxx*", LinearWeightGradientRow<T>::prepare,
       LinearWeightGradientRow<T>::run},
      {K::kAttentionBackward, "xxxxx*", AttentionBackwardRow<T>::prepare,
       AttentionBackwardRow<T>::run},
      {K::kGeluBackward, "x", nullptr, run_gelu_backward<T>},
      {K::kEmbeddingBackward, "ix", nullptr, run_embedding_backward<T>},
      {K::kFillZero, "*", nullptr, run_fill_zero},
      {K::kAccumulate, "x", nullptr, run_accumulate<T>},
      {K::kSumSquares, "xd", nullptr, run_sum_squares<T>},
      {K::kClipCoefficient, "d", nullptr, run_clip_coefficient},
      {K::kAdamW, "xxxxddx", nullptr, run_adamw<T>},
      {K::kReport, "d", nullptr, run_host<report>},
  }};
}

constexpr auto kFloatTable = make_table<float>();
constexpr auto kDoubleTable = make_table<double>();

}  // namespace

std::span<const DispatchEntry> dispatch_table(DType compute) {
  if (compute == DType::kF32) return kFloatTable;
  if (compute == DType::kF64) return kDoubleTable;
  return {};
}

}  // namespace zplan::exec::cpu
