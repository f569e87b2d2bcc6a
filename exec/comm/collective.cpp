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

// The parts that the member gets, one after the other.
void copy_parts(Members members, int index) {
  const CollectiveCall& own = members[static_cast<std::size_t>(index)];
  if (!takes_part(row_of(own.kind).output, index, own.root)) return;
  const auto size = static_cast<int>(members.size());
  const std::int64_t bytes = own.elements * size_of(own.dtype).value;
  for (int j = 0; j < parts_of(row_of(own.kind).output, size); ++j) {
    const PartOf from = source_of(own.kind, size, own.root, index, j);
    const CollectiveCall& member = members[static_cast<std::size_t>(from.member)];
    copy_bytes(own.output + j * bytes, member.input + from.part * bytes, bytes);
  }
}

// Elements `range` of the inputs, which `output` of each of `targets` takes from there on.
void add_up(Members members, Range range, Members targets, std::int64_t output) {
  with_element_type(members[0].dtype, [&](auto type) {
    using T = decltype(type);
    reduce<T>(members, range, [&](const T* sums, std::int64_t first, std::int64_t n) {
      for (const CollectiveCall& target : targets)
        std::copy_n(sums, n, reinterpret_cast<T*>(target.output) + first - output);
    });
  });
}

void sum_parts(Members members, int index) {
  const auto at = static_cast<std::size_t>(index);
  const CollectiveCall& own = members[at];
  const CollectiveRow& row = row_of(own.kind);
  if (has_parts(row.input)) {
    const std::int64_t begin = index * own.elements;
    return add_up(members, {begin, begin + own.elements}, members.subspan(at, 1), begin);
  }
  const Members targets =
      is_of_root(row.output) ? members.subspan(static_cast<std::size_t>(own.root), 1) : members;
  add_up(members, piece(own.elements, std::ssize(members), index, size_of(own.dtype)), targets, 0);
}

}  // namespace

void run_share(Members members, int index) {
  return adds_up(members[0].kind) ? sum_parts(members, index) : copy_parts(members, index);
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
