// A step neither allocates a block of 4 KiB or more nor maps one (law 3). This program replaces
// malloc and its family and mmap by counting ones, hence stands alone.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "exec/memory/slab.h"
#include "exec/run.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "tests/support/plan_cover.h"
#include "tests/unit/exec/mini_job.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ZPLAN_COUNTS_ALLOCATIONS 0
#else
#define ZPLAN_COUNTS_ALLOCATIONS 1
#endif

namespace {

constexpr std::size_t kLargeBlock = 4096;
std::atomic<bool> is_counting = false;
std::atomic<int> large_blocks = 0;

void note(std::size_t size) {
  if (size >= kLargeBlock && is_counting.load(std::memory_order_relaxed)) ++large_blocks;
}

}  // namespace

#if ZPLAN_COUNTS_ALLOCATIONS
// glibc's own names of the functions replaced below.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) {
  note(size);
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  note(count * size);
  return __libc_calloc(count, size);
}
void* realloc(void* block, std::size_t size) {
  note(size);
  return __libc_realloc(block, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  note(size);
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  note(size);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  note(size);
  *block = __libc_memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}

// The libraries' way to mmap; malloc's own calls do not come here.
void* mmap(void* address, std::size_t size, int protection, int flags, int file,
           off_t offset) noexcept {
  note(size);
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, size, protection, flags, file, offset));
}
void* mmap64(void* address, std::size_t size, int protection, int flags, int file,
             off64_t offset) noexcept {
  return mmap(address, size, protection, flags, file, offset);
}
}
#endif

namespace zplan::exec {
namespace {

// From the first operation that completed to the report of the last step.
int large_blocks_of(const Job& job, RunOptions options) {
  large_blocks = 0;
  std::atomic<bool> is_over = false;
  options.observer = [&](const NodeEvent& event) {
    const Node& node = event.program->nodes[event.node];
    const bool reports = node.kind == OpKind::kKernel && node.kernel == KernelId::kReport;
    if (reports && event.step == options.steps - 1) is_over = true;
    is_counting = !is_over;
  };
  run(job, testing::mini_data(), options);
  is_counting = false;
  return large_blocks;
}

class NoAllocation : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ZPLAN_COUNTS_ALLOCATIONS) GTEST_SKIP() << "the sanitizer owns malloc";
  }
};

TEST_F(NoAllocation, TheCounterCounts) {
  is_counting = true;
  large_blocks = 0;
  const std::vector<char> small(kLargeBlock - 1), large(kLargeBlock);
  is_counting = false;
  EXPECT_EQ(large_blocks, 1);
}

TEST_F(NoAllocation, TheCounterCountsMappings) {
  is_counting = true;
  large_blocks = 0;
  { const Slab slab(Bytes{4096}); }
  is_counting = false;
  EXPECT_EQ(large_blocks, 1);
}

TEST_F(NoAllocation, AStepAllocatesAndMapsNothingLarge) {
  for (const char* kernel_set : {"cpu.f32", "cpu.f64", "cpu.bf16"}) {
    const Job job =
        testing::mini_job({.dp = 2, .pp = 2, .shard_optimizer = true, .kernel_set = kernel_set});
    for (RunMode mode : {RunMode::kThreaded, RunMode::kSerial}) {
      RunOptions options = testing::mini_run(mode, 4);
      options.record_timeline = true;
      EXPECT_EQ(large_blocks_of(job, options), 0) << kernel_set;
    }
  }
}

TEST_F(NoAllocation, NorOfAnyPlanOfThePairwiseCover) {
  for (const auto& choice : testing_support::choices_to_train()) {
    const Plan plan = testing_support::plan_of(choice, "cpu.f32");
    Job job = lower(plan, load_model(plan.model));
    place(job, {.slack = plan.slack});
    EXPECT_EQ(large_blocks_of(job, testing::mini_run(RunMode::kThreaded, 3)), 0)
        << testing_support::name_of(choice);
  }
}

TEST_F(NoAllocation, NorWithStatesOnNvme) {
  for (IoMethod method : {IoMethod::kAuto, IoMethod::kPosix}) {
    RunOptions options = testing::mini_run(RunMode::kThreaded, 4);
    options.storage.method = method;
    const Job job = testing::mini_job({.dp = 2, .shard_optimizer = true, .on_nvme = true});
    EXPECT_EQ(large_blocks_of(job, options), 0);
  }
}

TEST_F(NoAllocation, NorWithSeveralThreadsPerRank) {
  RunOptions options = testing::mini_run(RunMode::kThreaded, 4);
  options.threads_per_rank = 2;
  EXPECT_EQ(large_blocks_of(testing::mini_job({.dp = 2}), options), 0);
}

}  // namespace
}  // namespace zplan::exec
