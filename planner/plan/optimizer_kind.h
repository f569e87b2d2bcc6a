// The optimizers as data: what each keeps of a parameter besides its master copy and which kernel
// updates it. Bytes, buffers, offload, files, help and refusals derive from these rows.
//
//   adamw         two moments [Loshchilov19]
//   sgd-momentum  one [PyTorch]: m = beta1 m + g, p -= learning rate x m
//   sgd           none
//   adamw-8bit    two of a byte each [Dettmers22]: in blocks of neighbours, with a scale for each
//   muon          one [Jordan24]: m = beta1 m + (1 - beta1) g, and what is between it and g, made
//                 orthogonal by five Newton-Schulz steps, is the update, 0.2 sqrt(greater side)
//                 times the learning rate [Liu25]. A matrix is made orthogonal as it is stored:
//                 queries, keys and values side by side are one. Ranks gather what each has of the
//                 whole matrix and do that alike.
//   adafactor     no moments but, of each matrix as it is stored, means of the squares of its rows
//                 and of its columns, of a vector of each element, which make the second moment
//                 [Shazeer18], as torch.optim.Adafactor [PyTorch]: a step is the lesser of learning
//                 rate and 1 / sqrt(t), times the root mean square of the tensor or, if greater,
//                 0.001. Ranks add up what each has of the sums.
//
// Two rules: one for the matrices of layers that tensor parallelism cuts, one for everything else
// (vectors, embeddings, head, the latents of attention). Where they differ the former are units of
// their own and the rest of a layer is one small unit beside them (layout.h).
//
// A block of 8-bit moments is so many neighbours in the row-major order of the global tensor, by
// default 256. So the numbers do not depend on how ranks share a tensor; a cut that would go
// through a block is refused (legality.cpp). [Dettmers22 sec 2] has blocks of 2048.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "planner/core/units.h"
#include "planner/program/job/ops.h"

namespace zplan {

enum class OptimizerKind : std::uint8_t {
  kAdamW,
  kSgdMomentum,
  kSgd,
  kAdamW8Bit,
  kMuon,
  kAdafactor
};

// How parameters are updated.
struct UpdateRule {
  KernelId kernel = KernelId::kAdamW;
  Action action = Action::kAdam;
  int moments = 2;
  bool in_blocks = false;   // a byte per parameter and moment, and a scale per block
  bool orthogonal = false;  // of whole matrices: `kernel` takes what is made of the moment
  bool factored = false;    // no moments, but means of squares by row and column: the same

  // Whether `kernel` takes what is made of moments and gradient in place of these.
  bool makes_update() const { return orthogonal || factored; }

  friend bool operator==(const UpdateRule&, const UpdateRule&) = default;
};

struct OptimizerRow {
  std::string_view word;   // in plan files and on the command line
  std::string_view title;  // for people
  UpdateRule matrices;     // of layers, where tensor parallelism cuts them
  UpdateRule others;

  // Whether parameters of a layer are in different units for it.
  bool has_two_rules() const { return matrices != others; }
};

inline constexpr UpdateRule kAdamWRule{};
inline constexpr UpdateRule kAdafactorRule{
    .kernel = KernelId::kMuon, .moments = 0, .factored = true};
inline constexpr OptimizerRow kOptimizers[] = {
    {"adamw", "AdamW", kAdamWRule, kAdamWRule},
    {"sgd-momentum",
     "SGD with momentum",
     {KernelId::kSgdMomentum, Action::kSgd, 1},
     {KernelId::kSgdMomentum, Action::kSgd, 1}},
    {"sgd", "SGD", {KernelId::kSgd, Action::kSgd, 0}, {KernelId::kSgd, Action::kSgd, 0}},
    {"adamw-8bit", "8-bit AdamW", {KernelId::kAdamW8Bit, Action::kAdam, 2, true}, kAdamWRule},
    {"muon", "Muon", {KernelId::kMuon, Action::kAdam, 1, false, true}, kAdamWRule},
    {"adafactor", "Adafactor", kAdafactorRule, kAdafactorRule},
};

constexpr const OptimizerRow& row_of(OptimizerKind kind) {
  return kOptimizers[static_cast<std::size_t>(kind)];
}
constexpr std::string_view name(OptimizerKind kind) { return row_of(kind).word; }

// Which optimizer a plan trains with.
struct OptimizerChoice {
  OptimizerKind kind = OptimizerKind::kAdamW;
  std::int32_t block = 256;  // parameters that share a scale of 8-bit moments

  const OptimizerRow& row() const { return row_of(kind); }
  friend bool operator==(const OptimizerChoice&, const OptimizerChoice&) = default;
};

}  // namespace zplan
