// Collectives as arithmetic on the members' memory, without any synchronisation: thread_group.h
// runs it with barriers, a serial run one member after the other.
//
// n elements (elements of a member's own part):
//   all_gather      input n, output n * size       one phase: each member copies all inputs
//   reduce_scatter  input n * size, output n       one phase: each member adds up its part
//   all_reduce      input n, output n              two phases: each member adds up one piece, then
//                                                  copies the other pieces
// In place: input is the own part of the output (all_gather), output the own part of the input
// (reduce_scatter), or both are the same (all_reduce).
// Sums are taken in index order, so a result depends on neither timing nor who computes it.
// Bytes read and written per member: all_gather 2 n size, reduce_scatter n (size + 1),
// all_reduce about 3 n. float32 and float64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "planner/program/ops.h"

namespace zplan::exec {

// What one member brings.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  DType dtype = DType::kF32;
  std::int64_t elements = 0;  // n
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
};

int phases_of(CollectiveKind kind);

// The share of member `index` of one phase. All members complete a phase before any starts the
// next.
void run_phase(std::span<const CollectiveCall> members, int index, int phase);

// Throws Error when the members do not call the same operation.
void check_same_operation(std::span<const CollectiveCall> members);

}  // namespace zplan::exec
