#include "exec/cuda/kernels/share.cuh"

#include <cstddef>
#include <string>

#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/share.h"

namespace zplan::exec::cuda {
namespace {

using Members = std::span<const CollectiveCall>;

struct Range {
  std::int64_t begin, end;  // elements
};

// Piece of an all-reduce or reduce. Pieces begin on 64 bytes.
Range piece(const CollectiveCall& own, std::int64_t members, std::int64_t index) {
  const std::int64_t line = 64 / size_of(own.dtype).value;
  const std::int64_t length = round_up(ceil_div(own.elements, members), line);
  return {std::min(index * length, own.elements), std::min((index + 1) * length, own.elements)};
}

void copy(cudaStream_t stream, std::byte* to, const std::byte* from, Bytes bytes) {
  if (to == from || bytes.value == 0) return;
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes.value), cudaMemcpyDefault, stream),
        "copy of a collective");
}

// Elements `range` of the inputs of all members, summed into `outputs`, which begin there.
template <typename T>
void sum(cudaStream_t stream, Members members, Range range, std::span<std::byte* const> outputs) {
  if (range.begin == range.end) return;
  ShareMembers<T> x{};
  bool wide = true;
  for (const CollectiveCall& member : members) {
    const T* input = reinterpret_cast<const T*>(member.input) + range.begin;
    x.inputs[x.input_count++] = input;
    wide = wide && is_aligned({input});
  }
  for (std::byte* output : outputs) {
    x.outputs[x.output_count++] = reinterpret_cast<T*>(output);
    wide = wide && is_aligned({output});
  }
  const std::int64_t n = range.end - range.begin;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "sum of a collective", grid_of(n, w), sum_members_kernel<T, w>, x, n);
  });
}

void sum_typed(cudaStream_t stream, Members members, Range range,
               std::span<std::byte* const> outputs) {
  if (members.size() > kMostMembers)
    throw_bad_input("collective: expected at most " + std::to_string(kMostMembers) +
                    " members on one device, got " + std::to_string(members.size()));
  switch (members[0].dtype) {
    case DType::kF32:
      return sum<float>(stream, members, range, outputs);
    case DType::kF64:
      return sum<double>(stream, members, range, outputs);
    case DType::kF16:
      return sum<__half>(stream, members, range, outputs);
    case DType::kBf16:
      return sum<__nv_bfloat16>(stream, members, range, outputs);
    case DType::kI32:
    case DType::kU8:
      break;
  }
  throw_bad_input("collective: no sums of i32");
}

// The parts that the member gets, one after the other.
void copy_parts(cudaStream_t stream, Members members, int index) {
  const CollectiveCall& own = members[static_cast<std::size_t>(index)];
  if (!takes_part(row_of(own.kind).output, index, own.root)) return;
  const auto size = static_cast<int>(members.size());
  const Bytes bytes = size_of(own.dtype) * own.elements;
  for (int j = 0; j < parts_of(row_of(own.kind).output, size); ++j) {
    const PartOf from = source_of(own.kind, size, own.root, index, j);
    const CollectiveCall& member = members[static_cast<std::size_t>(from.member)];
    copy(stream, own.output + j * bytes.value, member.input + from.part * bytes.value, bytes);
  }
}

// The own part into the own output, or a piece into the outputs of all who get the sum.
void sum_parts(cudaStream_t stream, Members members, int index) {
  const CollectiveCall& own = members[static_cast<std::size_t>(index)];
  const CollectiveRow& row = row_of(own.kind);
  if (has_parts(row.input))
    return sum_typed(stream, members, {index * own.elements, (index + 1) * own.elements},
                     std::span(&own.output, 1));
  const Range range = piece(own, std::ssize(members), index);
  std::byte* outputs[kMostMembers] = {};
  std::size_t count = 0;
  for (int m = 0; m < std::ssize(members); ++m) {
    if (!takes_part(row.output, m, own.root) || count == kMostMembers) continue;
    const CollectiveCall& target = members[static_cast<std::size_t>(m)];
    outputs[count++] = target.output + range.begin * size_of(own.dtype).value;
  }
  sum_typed(stream, members, range, std::span(outputs).first(count));
}

}  // namespace

void launch_share(cudaStream_t stream, Members members, int index) {
  return adds_up(members[0].kind) ? sum_parts(stream, members, index)
                                  : copy_parts(stream, members, index);
}

}  // namespace zplan::exec::cuda
