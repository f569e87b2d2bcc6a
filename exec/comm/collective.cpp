#include "exec/comm/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "exec/cpu/kernels/half.h"
#include "exec/kernels/compute_type.h"
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

// Calls store(values, first, n) with n sums from element `first` on: over the members, in order, of
// their inputs, rounded once. What is stored may be one of the inputs: a block is summed in full
// before.
template <typename T, typename Store>
void reduce(Members members, Range range, const Store& store) {
  using Sum = Compute<T>;
  constexpr std::int64_t kBlock = 1024;  // 4 or 8 KiB, stays in the first-level cache
  alignas(64) std::array<Sum, kBlock> sum;
  alignas(64) std::array<T, kBlock> result;
  for (std::int64_t begin = range.begin; begin < range.end; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, range.end - begin);
    const T* first = reinterpret_cast<const T*>(members[0].input) + begin;
    std::transform(first, first + n, sum.begin(), [](T value) { return Sum(value); });
    for (const CollectiveCall& member : members.subspan(1)) {
      const T* in = reinterpret_cast<const T*>(member.input) + begin;
      std::transform(in, in + n, sum.begin(), sum.begin(),
                     [](T value, Sum before) { return before + Sum(value); });
    }
    if constexpr (std::is_same_v<T, Sum>) {
      store(sum.data(), begin, n);
    } else {
      std::transform(sum.begin(), sum.begin() + n, result.begin(),
                     [](Sum value) { return T(value); });
      store(result.data(), begin, n);
    }
  }
}

template <typename Use>
void with_element_type(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::kF32:
      return use(float{});
    case DType::kF64:
      return use(double{});
    case DType::kF16:
      return use(cpu::Fp16{});
    case DType::kBf16:
      return use(cpu::Bf16{});
    case DType::kI32:
    case DType::kU8:
      throw_bad_input(fmt::format("no reduction of {} between threads", name(dtype)));
  }
}

void gather(Members members, int index) {
  const CollectiveCall& own = members[static_cast<std::size_t>(index)];
  const std::int64_t bytes = own.elements * size_of(own.dtype).value;
  for (std::size_t j = 0; j < members.size(); ++j) {
    copy_bytes(own.output + static_cast<std::int64_t>(j) * bytes, members[j].input, bytes);
  }
}

void exchange(Members members, int index) {
  const CollectiveCall& own = members[static_cast<std::size_t>(index)];
  const std::int64_t bytes = own.elements / std::ssize(members) * size_of(own.dtype).value;
  for (std::size_t j = 0; j < members.size(); ++j)
    copy_bytes(own.output + static_cast<std::int64_t>(j) * bytes, members[j].input + index * bytes,
               bytes);
}

void shift(Members members, int index) {
  const CollectiveCall& own = members[static_cast<std::size_t>(index)];
  const auto before = static_cast<std::size_t>(index == 0 ? std::ssize(members) - 1 : index - 1);
  copy_bytes(own.output, members[before].input, own.elements * size_of(own.dtype).value);
}

void reduce_scatter(Members members, int index) {
  const CollectiveCall& own = members[static_cast<std::size_t>(index)];
  const Range range{index * own.elements, (index + 1) * own.elements};
  with_element_type(own.dtype, [&](auto type) {
    using T = decltype(type);
    T* output = reinterpret_cast<T*>(own.output) - range.begin;
    reduce<T>(members, range, [&](const T* sums, std::int64_t first, std::int64_t n) {
      std::copy_n(sums, n, output + first);
    });
  });
}

// Into the outputs of all `targets`.
void reduce_into(Members targets, Members members, int index) {
  const CollectiveCall& own = members[static_cast<std::size_t>(index)];
  const Range range = piece(own.elements, std::ssize(members), index, size_of(own.dtype));
  with_element_type(own.dtype, [&](auto type) {
    using T = decltype(type);
    reduce<T>(members, range, [&](const T* sums, std::int64_t first, std::int64_t n) {
      for (const CollectiveCall& target : targets)
        std::copy_n(sums, n, reinterpret_cast<T*>(target.output) + first);
    });
  });
}

void broadcast(Members members, int index) {
  const CollectiveCall& own = members[static_cast<std::size_t>(index)];
  const CollectiveCall& root = members[static_cast<std::size_t>(own.root)];
  copy_bytes(own.output, root.input, own.elements * size_of(own.dtype).value);
}

}  // namespace

void run_share(Members members, int index) {
  const CollectiveCall& own = members[static_cast<std::size_t>(index)];
  switch (own.kind) {
    case CollectiveKind::kAllGather:
      return gather(members, index);
    case CollectiveKind::kReduceScatter:
      return reduce_scatter(members, index);
    case CollectiveKind::kAllReduce:
      return reduce_into(members, members, index);
    case CollectiveKind::kBroadcast:
      return broadcast(members, index);
    case CollectiveKind::kReduce:
      return reduce_into(members.subspan(static_cast<std::size_t>(own.root), 1), members, index);
    case CollectiveKind::kAllToAll:
      return exchange(members, index);
    case CollectiveKind::kShift:
      return shift(members, index);
  }
}

void check_same_operation(Members members) {
  const CollectiveCall& first = members[0];
  for (std::size_t j = 1; j < members.size(); ++j) {
    const CollectiveCall& other = members[j];
    if (other.kind == first.kind && other.dtype == first.dtype &&
        other.elements == first.elements && other.root == first.root)
      continue;
    throw Error(
        ExitCode::kCheckFailed,
        fmt::format("members of a group disagree: 0 calls {} of {} {}, {} calls {} of {} {}",
                    name(first.kind), first.elements, name(first.dtype), j, name(other.kind),
                    other.elements, name(other.dtype)));
  }
}

}  // namespace zplan::exec
