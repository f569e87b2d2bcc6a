// Shares of collectives by the CUDA kernels, on the host: the same bits as those of threads.
#include "exec/cuda/kernels/share.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "exec/scalar.h"
#include "planner/core/error.h"
#include "tests/support/sanitized.h"

namespace zplan::exec::cuda {
namespace {

using Calls = std::vector<CollectiveCall>;

// What the members bring, as it is before a collective.
class Group {
 public:
  // Inputs begin `shift` elements off a 64-byte line.
  Group(CollectiveKind kind, DType dtype, std::int64_t elements, int size, int root, bool in_place,
        std::size_t shift) {
    const CollectiveRow& row = row_of(kind);
    const bool gathers = keeps_part_in_place(kind) && has_parts(row.output);
    const bool scatters = keeps_part_in_place(kind) && has_parts(row.input);
    const auto element = static_cast<std::size_t>(size_of(dtype).value);
    const std::size_t n = static_cast<std::size_t>(elements) * element;
    const std::size_t all = n * static_cast<std::size_t>(size), begin = 64 + shift * element;
    std::mt19937 engine(static_cast<unsigned>(elements));
    std::uniform_real_distribution<double> uniform(-2, 2);
    for (int i = 0; i < size; ++i) {
      memory_.emplace_back((begin + all + 256) / sizeof(Line) * 2);
      std::byte* base = memory_.back().data()->bytes;
      const std::size_t own = n * static_cast<std::size_t>(i);
      std::byte* input = base + begin + (gathers && in_place ? own : 0);
      const std::int64_t count = elements * parts_of(row.input, size);
      with_float_type(dtype, [&](auto type) {
        using T = decltype(type);
        for (std::int64_t k = 0; k < count; ++k)
          reinterpret_cast<T*>(input)[k] = rounded<T>(uniform(engine));
      });
      std::byte* apart = base + (begin + all + 128) / 64 * 64;
      std::byte* output = !in_place ? apart : scatters ? base + begin + own : base + begin;
      calls_.push_back({kind, dtype, elements, input, output, root});
    }
  }

  const Calls& calls() const { return calls_; }
  std::vector<std::byte> content() const {
    std::vector<std::byte> all;
    for (const auto& memory : memory_)
      for (const Line& line : memory) all.insert(all.end(), line.bytes, line.bytes + sizeof(Line));
    return all;
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64]{};
  };
  std::vector<std::vector<Line>> memory_;
  Calls calls_;
};

TEST(CudaShare, EveryShareHasTheBitsOfThreads) {
  testing_support::Thinned thinned;
  for (int number = 0; number < kCollectiveKindCount; ++number) {
    const auto kind = static_cast<CollectiveKind>(number);
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBf16}) {
      for (const int size : {1, 2, 5, 16}) {
        for (const std::int64_t n : {3, 320, 333}) {
          if (thinned.skips()) continue;
          const bool in_place = n == 333 && !hands_on(kind);
          const std::size_t shift = size == 2 ? 1 : 0;
          Group expected(kind, dtype, n, size, size - 1, in_place, shift);
          Group actual(kind, dtype, n, size, size - 1, in_place, shift);
          for (int i = 0; i < size; ++i) {
            run_share(expected.calls(), i);
            launch_share(nullptr, actual.calls(), i);
          }
          ASSERT_EQ(actual.content(), expected.content())
              << name(kind) << ' ' << name(dtype) << ' ' << size << ' ' << n;
        }
      }
    }
  }
}

TEST(CudaShare, SumsOfMoreMembersAreRefused) {
  Group group(CollectiveKind::kAllReduce, DType::kF32, 4, 17, 0, true, 0);
  EXPECT_THROW(launch_share(nullptr, group.calls(), 0), Error);
}

}  // namespace
}  // namespace zplan::exec::cuda
