#include "exec/comm/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "planner/core/error.h"
#include "planner/core/units.h"

namespace zplan::exec {
namespace {

using Members = std::span<const CollectiveCall>;

struct Range {
  std::int64_t begin, end;  // elements
};

// Pieces of an all-reduce begin on cache lines (64 bytes).
Range piece(std::int64_t elements, std::int64_t size, std::int64_t index, Bytes element) {
  const std::int64_t line = 64 / element.value;
  const std::int64_t length = round_up(ceil_div(elements, size), line);
  return {std::min(index * length, elements), std::min((index + 1) * length, elements)};
}

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

// output[i] = sum over members, in order, of their input[range.begin + i]. The output may be one of
// the inputs: a block is summed in full before it is stored.
template <typename T>
void reduce(Members members, Range range, std::byte* output) {
  constexpr std::int64_t kBlock = 1024;  // 4 or 8 KiB, stays in the first-level cache
  std::array<T, kBlock> sum;
  T* out = reinterpret_cast<T*>(output);
  for (std::int64_t begin = range.begin; begin < range.end; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, range.end - begin);
    std::copy_n(reinterpret_cast<const T*>(members[0].input) + begin, n, sum.data());
    for (const CollectiveCall& member : members.subspan(1)) {
      const T* in = reinterpret_cast<const T*>(member.input) + begin;
      for (std::int64_t i = 0; i < n; ++i) sum[static_cast<std::size_t>(i)] += in[i];
    }
    std::copy_n(sum.data(), n, out + (begin - range.begin));
  }
}

void reduce_range(Members members, Range range, std::byte* output) {
  switch (members[0].dtype) {
    case DType::kF32:
      return reduce<float>(members, range, output);
    case DType::kF64:
      return reduce<double>(members, range, output);
    case DType::kF16:
    case DType::kBf16:
    case DType::kI32:
      throw_bad_input(fmt::format("no reduction of {} between threads", name(members[0].dtype)));
  }
}

void gather(Members members, int index) {
  const CollectiveCall& own = members[static_cast<std::size_t>(index)];
  const std::int64_t bytes = own.elements * size_of(own.dtype).value;
  for (std::size_t j = 0; j < members.size(); ++j) {
    copy_bytes(own.output + static_cast<std::int64_t>(j) * bytes, members[j].input, bytes);
  }
}

void all_reduce(Members members, int index, int phase) {
  const CollectiveCall& own = members[static_cast<std::size_t>(index)];
  const Bytes element = size_of(own.dtype);
  const auto size = static_cast<std::int64_t>(members.size());
  if (phase == 0) {
    const Range range = piece(own.elements, size, index, element);
    reduce_range(members, range, own.output + range.begin * element.value);
    return;
  }
  for (std::int64_t j = 0; j < size; ++j) {
    if (j == index) continue;
    const Range range = piece(own.elements, size, j, element);
    const std::int64_t offset = range.begin * element.value;
    copy_bytes(own.output + offset, members[static_cast<std::size_t>(j)].output + offset,
               (range.end - range.begin) * element.value);
  }
}

}  // namespace

int phases_of(CollectiveKind kind) { return kind == CollectiveKind::kAllReduce ? 2 : 1; }

void run_phase(Members members, int index, int phase) {
  const CollectiveCall& own = members[static_cast<std::size_t>(index)];
  switch (own.kind) {
    case CollectiveKind::kAllGather:
      return gather(members, index);
    case CollectiveKind::kReduceScatter:
      return reduce_range(members, {index * own.elements, (index + 1) * own.elements}, own.output);
    case CollectiveKind::kAllReduce:
      return all_reduce(members, index, phase);
  }
}

void check_same_operation(Members members) {
  const CollectiveCall& first = members[0];
  for (std::size_t j = 1; j < members.size(); ++j) {
    const CollectiveCall& other = members[j];
    if (other.kind == first.kind && other.dtype == first.dtype && other.elements == first.elements)
      continue;
    throw Error(
        ExitCode::kCheckFailed,
        fmt::format("members of a group disagree: 0 calls {} of {} {}, {} calls {} of {} {}",
                    name(first.kind), first.elements, name(first.dtype), j, name(other.kind),
                    other.elements, name(other.dtype)));
  }
}

}  // namespace zplan::exec
