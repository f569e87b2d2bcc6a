// The kernel table: one row per kernel. A row names its operands and says, from their shapes and
// types, how much work it is (flop) and how many bytes it must move. Whether it has scratch is an
// operand; how much is the kernel set's declared workspace. Cost model, verification and backends
// all read this table and nothing else.
//
// Operands (r read, w write, u update; a: w or u, u adds to what is there):
//   load_batch            w tokens[b,s+1] i32;  attr {dp, global_batch}
//   step_scalars          w scalars[8] f64 (see step_scalars.h)
//   embedding_forward     r tokens[b,s+1], r wte[Vp,h], r wpe[s,h], w x[b,s,h]
//   layer_norm_forward    r x[T,h], r gain[h], r bias[h], w y[T,h], w mean[T], w rstd[T]
//   linear_forward        r x[T,k], r w[k,n], r bias[n], w y[T,n], scratch
//   attention_forward     r qkv[b,s,3,a,d], w out[b,s,a,d], w lse[b,a,s], scratch
//   gelu_forward          r x[T,n], w y[T,n]
//   residual_add          r x[T,h], r y[T,h], w out[T,h]
//   head_forward          r x[T,h], r wte[Vp,h], w logits[T,Vp], scratch
//   cross_entropy         u logits[T,Vp] -> gradient, r tokens[b,s+1], u loss[1] f64;
//                         attr {V, tokens of the global batch}
//   head_input_gradient   r dlogits[T,Vp], r wte[Vp,h], w dx[T,h], scratch
//   head_weight_gradient  r dlogits[T,Vp], r x[T,h], a dwte[Vp,h], scratch
//   layer_norm_backward   r dy[T,h], r x[T,h], r mean[T], r rstd[T], r gain[h],
//                         a dx[T,h], a dgain[h], a dbias[h], scratch
//   linear_input_gradient r dy[T,n], r w[k,n], w dx[T,k], scratch
//   linear_weight_gradient r x[T,k], r dy[T,n], a dw[k,n], a dbias[n], scratch
//   attention_backward    r dout[b,s,a,d], r qkv[b,s,3,a,d], r out[b,s,a,d], r lse[b,a,s],
//                         w dqkv[b,s,3,a,d], scratch
//   gelu_backward         r x[T,n], u dy[T,n] -> dx
//   embedding_backward    r tokens[b,s+1], r dx[b,s,h], a dwte[Vp,h], a dwpe[s,h]
//   fill_zero             w x
//   accumulate            r x[n], u y[n]
//   sum_squares           r x[n], u sum[1] f64
//   clip_coefficient      r sum[1] f64, r scalars[8], w clip[2] f64 {coefficient, norm}
//   adamw                 u master[n], u m[n], u v[n], r grad[n], r scalars[8], r clip[2],
//                         w param[n] (only when the recipe keeps a separate compute copy);
//                         attr {flat elements before this piece at dp 0, and per dp index,
//                               decay_elements of the unit}
//   report                r loss[1] f64, r clip[2] f64
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

struct Demand {
  WorkKind kind = WorkKind::kMemory;
  Flops flops{0};
  Bytes bytes{0};
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
