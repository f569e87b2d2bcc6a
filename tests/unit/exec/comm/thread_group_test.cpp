#include "exec/comm/thread_group.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <thread>
#include <type_traits>
#include <vector>

#include "exec/cpu/kernels/half.h"
#include "planner/core/error.h"
#include "planner/core/units.h"

namespace zplan::exec {
namespace {

void on_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
}

// Values whose sum depends on the order of addition, and fits fp16.
template <typename T>
T value(int member, std::int64_t i) {
  return T(static_cast<Compute<T>>(std::sin(1.0 + static_cast<double>(i) + 100.0 * member) *
                                   std::pow(10.0, member % 5)));
}

template <typename T>
constexpr DType kType = sizeof(T) == 8                 ? DType::kF64
                        : sizeof(T) == 4               ? DType::kF32
                        : std::is_same_v<T, cpu::Bf16> ? DType::kBf16
                                                       : DType::kF16;

template <typename T>
std::byte* bytes(T* p) {
  return reinterpret_cast<std::byte*>(p);
}

// Sum over the members in index order, rounded once, as the executor defines it.
template <typename T>
T ordered_sum(int members, std::int64_t i) {
  Compute<T> sum = value<T>(0, i);
  for (int m = 1; m < members; ++m) sum += value<T>(m, i);
  return T(sum);
}

template <typename T>
class ThreadGroupOf : public ::testing::Test {};
using Types = ::testing::Types<float, double, cpu::Bf16, cpu::Fp16>;
TYPED_TEST_SUITE(ThreadGroupOf, Types);

constexpr std::array<int, 5> kSizes{1, 2, 3, 4, 7};
constexpr std::array<std::int64_t, 7> kElements{0, 1, 5, 16, 1000, 1025, 20000};

TYPED_TEST(ThreadGroupOf, AllGatherConcatenatesByIndex) {
  using T = TypeParam;
  for (int size : kSizes) {
    for (std::int64_t n : kElements) {
      for (bool in_place : {false, true}) {
        StopSignal signal;
        ThreadGroup group(size, signal);
        std::vector<std::vector<T>> out(size, std::vector<T>(n * size));
        on_threads(size, [&](int index) {
          std::vector<T> own(n);
          for (std::int64_t i = 0; i < n; ++i) own[i] = value<T>(index, i);
          if (in_place) std::copy(own.begin(), own.end(), out[index].begin() + index * n);
          T* input = in_place ? out[index].data() + index * n : own.data();
          group.run(index, {CollectiveKind::kAllGather, kType<T>, n, bytes(input),
                            bytes(out[index].data())});
        });
        for (int index = 0; index < size; ++index) {
          for (std::int64_t i = 0; i < n * size; ++i)
            ASSERT_EQ(out[index][i], value<T>(static_cast<int>(i / n), i % n));
        }
      }
    }
  }
}

TYPED_TEST(ThreadGroupOf, ReduceScatterAddsInIndexOrder) {
  using T = TypeParam;
  for (int size : kSizes) {
    for (std::int64_t n : kElements) {
      for (bool in_place : {false, true}) {
        StopSignal signal;
        ThreadGroup group(size, signal);
        std::vector<std::vector<T>> in(size, std::vector<T>(n * size)),
            out(size, std::vector<T>(n));
        on_threads(size, [&](int index) {
          for (std::int64_t i = 0; i < n * size; ++i) in[index][i] = value<T>(index, i);
          T* output = in_place ? in[index].data() + index * n : out[index].data();
          group.run(index, {CollectiveKind::kReduceScatter, kType<T>, n, bytes(in[index].data()),
                            bytes(output)});
          if (in_place) std::copy_n(output, n, out[index].begin());
        });
        for (int index = 0; index < size; ++index) {
          for (std::int64_t i = 0; i < n; ++i)
            ASSERT_EQ(out[index][i], ordered_sum<T>(size, index * n + i));
        }
      }
    }
  }
}

TYPED_TEST(ThreadGroupOf, AllReduceAddsInIndexOrder) {
  using T = TypeParam;
  for (int size : kSizes) {
    for (std::int64_t n : kElements) {
      for (bool in_place : {false, true}) {
        StopSignal signal;
        ThreadGroup group(size, signal);
        std::vector<std::vector<T>> out(size, std::vector<T>(n));
        on_threads(size, [&](int index) {
          std::vector<T> own(n);
          for (std::int64_t i = 0; i < n; ++i) own[i] = value<T>(index, i);
          if (in_place) out[index] = own;
          T* input = in_place ? out[index].data() : own.data();
          group.run(index, {CollectiveKind::kAllReduce, kType<T>, n, bytes(input),
                            bytes(out[index].data())});
        });
        for (int index = 0; index < size; ++index) {
          for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(out[index][i], ordered_sum<T>(size, i));
        }
      }
    }
  }
}

TYPED_TEST(ThreadGroupOf, AShiftBringsEveryMemberTheInputOfTheOneBefore) {
  using T = TypeParam;
  for (int size : kSizes) {
    for (std::int64_t n : kElements) {
      StopSignal signal;
      ThreadGroup group(size, signal);
      std::vector<std::vector<T>> out(size, std::vector<T>(n));
      on_threads(size, [&](int index) {
        std::vector<T> own(n);
        for (std::int64_t i = 0; i < n; ++i) own[i] = value<T>(index, i);
        group.run(index, {CollectiveKind::kShift, kType<T>, n, bytes(own.data()),
                          bytes(out[index].data())});
      });
      for (int index = 0; index < size; ++index)
        for (std::int64_t i = 0; i < n; ++i)
          ASSERT_EQ(out[index][i], value<T>((index + size - 1) % size, i));
    }
  }
}

TYPED_TEST(ThreadGroupOf, AllToAllBringsEveryMemberItsPartOfAllInputs) {
  using T = TypeParam;
  for (int size : kSizes) {
    for (std::int64_t n : kElements) {
      StopSignal signal;
      ThreadGroup group(size, signal);
      std::vector<std::vector<T>> out(size, std::vector<T>(n * size));
      on_threads(size, [&](int index) {
        std::vector<T> own(n * size);
        for (std::int64_t i = 0; i < n * size; ++i) own[i] = value<T>(index, i);
        group.run(index, {CollectiveKind::kAllToAll, kType<T>, n, bytes(own.data()),
                          bytes(out[index].data())});
      });
      for (int index = 0; index < size; ++index)
        for (std::int64_t i = 0; i < n * size; ++i)
          ASSERT_EQ(out[index][i], value<T>(static_cast<int>(i / n), index * n + i % n));
    }
  }
}

TYPED_TEST(ThreadGroupOf, BroadcastReadsTheRootAndReduceWritesIt) {
  using T = TypeParam;
  for (int size : kSizes) {
    for (std::int64_t n : kElements) {
      for (int root : {0, size - 1}) {
        StopSignal signal;
        ThreadGroup group(size, signal);
        std::vector<std::vector<T>> sent(size, std::vector<T>(n)), sum(size, std::vector<T>(n));
        on_threads(size, [&](int index) {
          std::vector<T> own(n);
          for (std::int64_t i = 0; i < n; ++i) own[i] = value<T>(index, i);
          const bool is_root = index == root;
          group.run(index,
                    {CollectiveKind::kBroadcast, kType<T>, n, is_root ? bytes(own.data()) : nullptr,
                     bytes(sent[index].data()), root});
          group.run(index, {CollectiveKind::kReduce, kType<T>, n, bytes(own.data()),
                            is_root ? bytes(sum[index].data()) : nullptr, root});
        });
        for (int index = 0; index < size; ++index) {
          for (std::int64_t i = 0; i < n; ++i) {
            ASSERT_EQ(sent[index][i], value<T>(root, i));
            ASSERT_EQ(sum[index][i], index == root ? ordered_sum<T>(size, i) : T{});
          }
        }
      }
    }
  }
}

TEST(ThreadGroup, ManyRoundsMayReuseTheirBuffersAtOnce) {
  constexpr int kMembers = 4, kRounds = 200;
  constexpr std::int64_t kCount = 300;
  StopSignal signal;
  ThreadGroup group(kMembers, signal);
  on_threads(kMembers, [&](int index) {
    std::vector<double> data(kCount);
    for (int round = 0; round < kRounds; ++round) {
      for (double& x : data) x = index + round;
      group.run(index, {CollectiveKind::kAllReduce, DType::kF64, kCount, bytes(data.data()),
                        bytes(data.data())});
      for (double x : data) ASSERT_EQ(x, 6 + kMembers * round);
    }
  });
}

TEST(ThreadGroup, AllMembersLearnWhenTheLastOneCame) {
  StopSignal signal;
  ThreadGroup group(2, signal);
  std::array<TimePoint, 2> start;
  TimePoint late;
  on_threads(2, [&](int index) {
    if (index == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      late = std::chrono::steady_clock::now();
    }
    double x = 1;
    start[index] =
        group.run(index, {CollectiveKind::kAllReduce, DType::kF64, 1, bytes(&x), bytes(&x)});
  });
  EXPECT_EQ(start[0], start[1]);
  EXPECT_GE(start[0], late);
}

TEST(ThreadGroup, AStopReleasesTheMembersThatWait) {
  StopSignal signal;
  ThreadGroup group(3, signal);
  std::atomic<int> stopped = 0;
  on_threads(3, [&](int index) {
    if (index == 2) return signal.stop();  // never joins
    double x = 1;
    try {
      group.run(index, {CollectiveKind::kAllReduce, DType::kF64, 1, bytes(&x), bytes(&x)});
    } catch (const Stopped&) {
      ++stopped;
    }
  });
  EXPECT_EQ(stopped, 2);
}

TEST(ThreadGroup, RefusesMembersThatDisagree) {
  StopSignal signal;
  ThreadGroup group(2, signal);
  std::atomic<int> refused = 0;
  on_threads(2, [&](int index) {
    double x[2] = {1, 1};
    try {
      group.run(index, {CollectiveKind::kAllReduce, DType::kF64, 1 + index, bytes(x), bytes(x)});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kCheckFailed);
      ++refused;
    }
  });
  EXPECT_EQ(refused, 2);
}

}  // namespace
}  // namespace zplan::exec
