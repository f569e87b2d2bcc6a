// Kernel sets: the kernels a backend offers, and what they demand of memory. Tables are always
// compiled in; implementations are optional. An input of lower.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "planner/core/units.h"
#include "planner/program/job/ops.h"

namespace zplan {

// Which backend of the executor has a set's kernels.
enum class RunsOn : std::uint8_t { kCpu, kCuda, kNowhere };

// The format that the matrix products of the layers compute in: that of their operands; fp8 of
// operands cast on the way (fp8_products.h) [Micikevicius22]; or that of the operands, each rounded
// to fp8 by a kernel of its own: the numbers of fp8 without its speed. The output head and
// attention keep that of the operands.
//
// Rounded operands are e4m3 in blocks [DeepSeek24b sec 3.3.2]: 1 x 128 of activations and of their
// gradients, 128 x 128 of weights, counted from the first element of the global matrix; the last
// ones may be smaller. Or they are whole: one scale for each matrix, for activations and gradients
// that of the micro-batch at hand on one replica, and gradients are e5m2 [TransformerEngine]. All
// three products take them so, and gradients of biases are sums of rounded ones.
enum class LayerProducts : std::uint8_t { kAsStored, kFp8, kRoundedToFp8 };
inline constexpr std::int64_t kFp8Block = 128;

// Operands of 8 or 4 bits are stored as codes and, for each `block` of them in a row (0: for the
// whole row), a scale of so many bytes. `name` is that of the format in hardware profiles.
struct CodeFormat {
  std::string_view name = "fp8";
  int bits = 8;
  std::int64_t block = 0;
  int scale_bytes = 4;

  // Counts the bytes of a row of so many elements.
  Bytes row_bytes(std::int64_t elements) const;
};

struct KernelSet {
  std::string_view id;    // "cuda.sm70.fp16"
  DType compute;          // activations and the parameters that kernels read
  DType statistics;       // LayerNorm mean and rstd, attention log-sum-exp
  bool loss_scaling;      // fp16 needs it [Micikevicius18]
  RunsOn runs_on;         // kNowhere: planned and simulated only
  bool fused_attention;   // stores no scores; else the probabilities are an activation
  bool fused_neighbours;  // GELU beside its products, the residual sum before its norm
  Bytes workspace;        // scratch per compute lane; kernels must stay within it
  int capability = 0;     // least compute capability of a CUDA device, 10 x major + minor
  LayerProducts layer_products = LayerProducts::kAsStored;
  bool rounds_whole = false;  // operands that are rounded to fp8, not in blocks
  bool dropout = false;       // has its kernels
  CodeFormat codes{};         // of operands that are cast or rounded
};

std::span<const KernelSet> kernel_sets();
// Throws Error naming the nearest id when unknown.
const KernelSet& find_kernel_set(std::string_view id);

// The set for the same devices and formats that stores the scores of attention where this one fuses
// it, or the other way round; none: there is no such set.
const KernelSet* other_attention(const KernelSet& set);

// Kernels that this backend has not, though sets of its devices declare them: programs with them
// are planned and simulated only.
bool is_planned_only(KernelId kernel, RunsOn backend);

// Whether the set computes this kernel, a matrix product of a layer, in fp8 where sizes allow it
// (fp8_products.h).
bool multiplies_in_fp8(const KernelSet& set, KernelId kernel);

// Whether programs lowered for the set may hold the kernel: sets differ in what they fuse.
bool declares(const KernelSet& set, KernelId kernel);

}  // namespace zplan
