// Collectives as arithmetic on the members' memory, without any synchronisation: thread_group.h
// runs it between barriers, a serial run one member after the other.
//
// What a member brings and gets says its row (planner/program/job/collectives.h); n is the elements
// of a part. Copies are of who gets them. Sums of which each member gets another part are its own
// work; of others each member adds up one piece and stores it in all outputs.
// Sums are taken in index order, so a result depends on neither timing nor who computes it.
// Bytes read and written per member: all_gather 2 n size, reduce_scatter n (size + 1), all_reduce
// 2 n, broadcast 2 n, reduce n (1 + 1 / size), all_to_all 2 n size, shift 2 n. Sums are of float64,
// float32, and bf16 and fp16, which are added up in float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "planner/program/job/collectives.h"
#include "planner/program/job/ops.h"

namespace zplan::exec {

// What one member brings.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  DType dtype = DType::kF32;
  std::int64_t elements = 0;  // n, of a part
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  int root = 0;  // index of the member whose input is sent or whose output is filled
};

// The share of member `index`. No share reads what another writes.
void run_share(std::span<const CollectiveCall> members, int index);

// Throws Error when the members do not call the same operation.
void check_same_operation(std::span<const CollectiveCall> members);

}  // namespace zplan::exec
