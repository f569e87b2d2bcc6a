// Collectives as arithmetic on the members' memory, without any synchronisation: thread_group.h
// runs it between barriers, a serial run one member after the other.
//
// n elements (elements of a member's own part):
//   all_gather      input n, output n * size       each member copies all inputs
//   reduce_scatter  input n * size, output n       each member adds up its part
//   all_reduce      input n, output n              each member adds up one piece and stores it in
//                                                  all outputs
//   broadcast       input n of the root, output n  each member copies the input
//   reduce          input n, output n of the root  each member adds up one piece and stores it in
//                                                  the output
//   all_to_all      input n, output n              each member copies its part of all inputs, one
//                                                  of `size` equal ones
//   shift           input n, output n              each member copies the input of the one before
// In place: input is the own part of the output (all_gather), output the own part of the input
// (reduce_scatter), or both are the same (all_reduce; at the root of a broadcast or reduce); an
// all_to_all or a shift is never in place.
// Sums are taken in index order, so a result depends on neither timing nor who computes it.
// Bytes read and written per member: all_gather 2 n size, reduce_scatter n (size + 1), all_reduce
// 2 n, broadcast 2 n, reduce n (1 + 1 / size), all_to_all and shift 2 n. Sums are of float64,
// float32, and bf16 and fp16, which are added up in float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "planner/program/job/ops.h"

namespace zplan::exec {

// Whether n is a part of the whole, one of as many as there are members.
constexpr bool has_parts(CollectiveKind kind) {
  return kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter;
}

// What one member brings.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  DType dtype = DType::kF32;
  std::int64_t elements = 0;  // n
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  int root = 0;  // index of the member whose input is sent or whose output is filled
};

// The share of member `index`. No share reads what another writes.
void run_share(std::span<const CollectiveCall> members, int index);

// Throws Error when the members do not call the same operation.
void check_same_operation(std::span<const CollectiveCall> members);

}  // namespace zplan::exec
