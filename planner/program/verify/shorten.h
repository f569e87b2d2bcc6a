// Fewer micro-batches, same behaviour: what verify walks instead of thousands of equal iterations.
//
// [derived] Let P be a multiple of every period with which slot expressions repeat over
// micro-batches, and D the largest iteration distance of an edge. Iterations i and i + P of a loop
// touch the same bytes in the same order and wait for the same things, P iterations later. Two
// accesses to the same bytes fewer than P + D iterations apart occur, with the same surroundings,
// among the first or the last 2 P + D + 2 iterations. Two that are further apart have an access
// like the later one between them, a multiple of P iterations before it on its own lane, hence
// done before it; by induction the distance shrinks until the first case applies. Taking a
// multiple of P out of the middle of a loop therefore removes no finding and adds none, and slots
// chosen by absolute micro-batch numbers after the loop stay the same.
#pragma once

#include <cstdint>

#include <vector>

#include "planner/program/job/job.h"

namespace zplan {

// Steps that are walked, one after the other: what one leaves behind meets the next.
inline constexpr std::int64_t kVerifiedSteps = 2;

// Micro-batches after which all slot expressions repeat.
std::int64_t micro_period(const Program& program);
std::int32_t largest_delta(const Program& program);
std::int64_t largest_micro_loop(const Program& program);  // count; 0 when there is none

// Takes from each micro-batch loop the largest multiple of `period` that leaves `keep` iterations.
Program shorten(Program program, std::int64_t period, std::int64_t keep);

// The programs of all classes, each main micro-batch loop cut by the same number of iterations.
// What is left is, for each stage, as many iterations as edges reach back, plus two.
std::vector<Program> shorten_together(const Job& job);

}  // namespace zplan
