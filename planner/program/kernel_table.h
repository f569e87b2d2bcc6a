// The kernel table: one row per kernel. A row names its operands and says, from their shapes and
// types, how much work it is (flop) and how many bytes it must move. Whether it has scratch is an
// operand; how much is the kernel set's declared workspace. Cost model, verification and backends
// all read this table and nothing else.
//
// Operands stand in the rows (kernel_table.cpp): shapes, types and access (r read, w write, u
// update, a write or add to what is there, s scratch). What the rows cannot say:
//   load_batch            attr {sequences of a micro-batch of all replicas, global_batch, the
//   rank's
//                         first of them}
//   step_scalars          fills the scalars (step_scalars.h). attr {1: updates lag a step behind}.
//                         With clip and loss_scale: adapts the loss scale to the last step's norm
//   embedding_forward     a piece of the vocabulary: attr {its first token}; tokens outside look up
//                         0, positions are added by the first piece only
//   embedding_backward    attr as embedding_forward
//   attention_*           qkv: heads of queries a, keys g, values g side by side, n = a + 2 g;
//                         query head i uses key-value head i / (a / g). Causal.
//   rope                  rotates queries and keys [Su21]: attr {a + g, theta, 1 or -1: backward}
//   swiglu_*              x: gate and up side by side; y = silu(gate) * up [Shazeer20]
//   attention_scores      q k^T / sqrt(d), unmasked; softmax_forward masks and normalises in place
//   attention_context_gradient   gradient of the probabilities;
//   attention_scores_gradient    of q and k from that of the scores, of v from dout
//   cross_entropy         logits -> gradient of the loss x loss scale; adds to the loss.
//                         attr {V, tokens of the global batch, first token of the piece}
//   cross_entropy_statistics  of a piece of the vocabulary: maximum, sum of exp(x - maximum), logit
//                         of the target or 0; attr {V, 0, first token of the piece}
//   cross_entropy_parallel    the same from the statistics of all k pieces; attr as cross_entropy
//   linear_gelu_forward   sum = x w + bias, y = gelu(sum)
//   gelu_input_gradient   dx = dy w^T gelu'(x)
//   residual_*_norm_forward   sum = x + y (+ bias), out = norm of sum
//   dropout_forward       y = x mask / (1 - rate): draws the mask, 1 byte of 0 or 1 per element,
//   from
//                         the step, the role without its phase, the instance and the element; so a
//                         replay draws the same. dropout_backward: dx = dy mask / (1 - rate)
//   dropout_residual_add  out = x + dropout of (y + bias)
//   sum_squares           attr {flat element that it begins with, flat element from which all
//                         tensor parallel ranks have the same (-1: none), which of these ranks it
//                         is: on 0 those count, which copy of the shard it is: only 0 counts}
//   clip_coefficient      of the sum of squares of gradients scaled by the loss scale; attr {1: the
//                         norm is rounded to f32, so that the order of the sum does not show}
//   adamw                 param: only when the recipe keeps a separate compute copy. A negative
//                         clip factor or an inactive step leaves the states as they are. 16-bit
//                         masters round stochastically. attr {flat element that it begins with, up
//                         to which they decay, unit}
// [derived] flop and bytes: multiply-adds count 2; bytes are compulsory traffic, each operand once.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "planner/core/units.h"
#include "planner/program/kernel_signature.h"
#include "planner/program/program.h"

namespace zplan {

// What kind of work a kernel is: picks the efficiency of the device that applies.
enum class WorkKind : std::uint8_t { kGemm, kAttention, kMemory, kHost };

// A matrix product [m, k] x [k, n], `batch` of them at once, so often one after the other.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  std::int64_t times = 1;
};

// Fused attention of so many sequences and query heads.
struct AttentionWork {
  std::int64_t batch = 0, heads = 0, sequence = 0, head_size = 0;
  bool backward = false;
};

struct Demand {
  WorkKind kind = WorkKind::kMemory;
  Flops flops{0};
  Bytes bytes{0};
  Product product{};          // of WorkKind::kGemm
  AttentionWork attention{};  // of WorkKind::kAttention
};

struct KernelDef {
  KernelId id;
  WorkKind kind;
  // Access of each operand: r, w, u, a (w or u), s (scratch). Those from min_operands on may be
  // absent.
  std::string_view access;
  int min_operands;
  // Floating-point operations and bytes moved, from the operands.
  Demand (*demand)(std::span<const View> operands);
  // What the operands must look like (kernel_signature.h), scratch left out.
  std::string_view shapes, types;
  const char* source;  // where the arithmetic is defined; keys of models/REFERENCES.md

  // The operands as they are when they do not fit shapes and types.
  std::optional<std::string> mismatch(std::span<const View> operands) const {
    return operand_mismatch(shapes, types, operands);
  }

  int max_operands() const { return static_cast<int>(access.size()); }
};

const KernelDef& kernel_def(KernelId id);
inline Demand demand_of(const Program& p, const Node& n) {
  return kernel_def(n.kernel).demand(p.operands(n));
}

}  // namespace zplan
