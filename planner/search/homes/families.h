// What named systems and methods choose as homes of what is kept for backward, beside the best
// choice, all of one plan and in the same memory: each is the best of what it may choose among
// (homes.h), lowered, placed and simulated.
//
//   all kept                 nothing is recomputed or moved
//   full checkpoints         inputs of layers are kept, layers are recomputed [Chen16]
//   selective                the scores and probabilities of attention are recomputed
//                            [Korthikanti22]; with fused attention, which stores none, the
//                            same as all kept
//   recompute only           which tensors are kept and which recomputed [Jain20]
//   swap only                which tensors are kept and which are on the CPU [Huang20]
//   checkpoints on CPU       inputs of layers there, layers are recomputed [Pudipeddi20]
//   recompute or swap        which are recomputed and which on drives, with the inputs [Liao24]
//   best                     all of these homes for each tensor of each layer, no slower than the
//                            others nor than what the plan has
//
// The marginal second per GiB is that of the best choice, simulated with a GPU that has a GiB less
// and one more.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "planner/search/homes/homes.h"

namespace zplan {

struct HomesFamily {
  std::string_view name, source;  // a key of models/REFERENCES.md; empty: none
  std::optional<Plan> plan;       // nothing: no choice of it fits
  std::optional<Infeasible> why;  // it does not fit, where that is known
  std::optional<Seconds> step;    // simulated
  Bytes gpu{0};                   // slab of the class that needs most
};

struct HomesComparison {
  std::vector<HomesFamily> families;  // the last: the best; empty: homes cannot be chosen
  // By how much a step gets longer with a GiB less, and shorter with one more.
  std::optional<double> seconds_per_gib_less, seconds_per_gib_more;
};

HomesComparison compare_homes(const Plan& plan, const ModelConfig& model, const Cluster& cluster);

}  // namespace zplan
