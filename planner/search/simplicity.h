// How simple a plan is to set up, to run and to debug, as far as its decisions tell. It decides
// between plans that are about as fast; the first difference counts:
//
//   tiers        GPU alone, with CPU memory, with NVMe
//   states off   of parameters, gradients, optimizer, checkpoints: those not kept on the GPU
//   ZeRO stage   0 to 3; where there is one replica it cuts nothing, yet asks for the same code
//   parallelism  kinds beside data parallelism: tensor, sequence, pipeline, sharding groups, cut
//                checkpoints
//   knobs        recomputation (two, where layers differ), units of several layers, tiles, a
//                prefetch depth of its own, uneven stages, each state in two homes
//
// [assumed] what practitioners give up first. Sizes do not count: 8 stages are as simple as 2.
#pragma once

#include <compare>
#include <string_view>

#include "planner/plan/plan.h"

namespace zplan {

struct Simplicity {
  int tiers = 1;
  int states_off = 0;
  int zero_stage = 0;
  int parallelism = 0;
  int knobs = 0;
  friend auto operator<=>(const Simplicity&, const Simplicity&) = default;
};

// The lesser is the simpler.
Simplicity simplicity_of(const Plan& plan);

// Returns whether a plan of the first kind uses fewer tiers than one of the second, or as many and
// keeps more kinds of states on the GPU.
bool keeps_more_on_gpu(const Simplicity& one, const Simplicity& other);

// Whether replicas are only sharded, up to ZeRO stage 2, and everything is kept on the GPU.
bool is_plain(const Simplicity& simplicity);

// In what two plans differ first, "ZeRO stage"; empty where they are as simple.
std::string_view first_difference(const Simplicity& a, const Simplicity& b);

}  // namespace zplan
