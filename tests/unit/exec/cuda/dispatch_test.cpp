#include "exec/cuda/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "exec/kernel_checks.h"
#include "planner/program/kernel_set.h"
#include "planner/program/kernel_table.h"

namespace zplan::exec::cuda {
namespace {

std::vector<KernelSet> cuda_sets() {
  std::vector<KernelSet> sets;
  for (const KernelSet& set : kernel_sets())
    if (set.runs_on == RunsOn::kCuda) sets.push_back(set);
  return sets;
}

// What the sets of a compute type declare, without the kernels of the host's lanes and those that
// are planned only.
std::set<KernelId> declared(DType compute) {
  std::set<KernelId> kernels;
  for (const KernelSet& set : cuda_sets()) {
    for (int i = 0; i < kKernelCount; ++i) {
      const auto id = static_cast<KernelId>(i);
      const bool is_here = set.compute == compute && declares(set, id) && !is_planned_only(id);
      if (is_here && kernel_def(id).kind != WorkKind::kHost) kernels.insert(id);
    }
  }
  return kernels;
}

TEST(CudaDispatch, CoversExactlyWhatTheKernelSetsDeclare) {
  ASSERT_FALSE(cuda_sets().empty());
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto compute = static_cast<DType>(i);
    std::set<KernelId> offered;
    for (const DispatchEntry& entry : dispatch_table(compute)) {
      EXPECT_TRUE(offered.insert(entry.kernel).second) << name(entry.kernel) << " twice";
      EXPECT_NE(entry.run, nullptr) << name(entry.kernel);
    }
    EXPECT_EQ(offered, declared(compute)) << name(compute);
  }
}

TEST(CudaDispatch, LeavesOutTheKernelsThatArePlannedOnly) {
  std::string left_out;
  for (int i = 0; i < kKernelCount; ++i)
    if (is_planned_only(static_cast<KernelId>(i)))
      left_out += " " + std::string(name(static_cast<KernelId>(i)));
  GTEST_SKIP() << "planned and simulated only:" << left_out;
}

// What a letter of a row of the kernel table may be in a kernel set.
std::vector<DType> types_of(char letter, const KernelSet& set) {
  switch (letter) {
    case 'c':
      return {set.compute};
    case 't':
      return {set.statistics};
    case 'g':
      return {set.compute, set.statistics};
    case 'i':
      return {DType::kI32};
    case 'd':
      return {DType::kF64};
    default:  // states
      return {DType::kF32, DType::kBf16, DType::kF16};
  }
}

TEST(CudaDispatch, TakesTheTypesThatTheKernelTableAllows) {
  for (const KernelSet& set : cuda_sets()) {
    for (const DispatchEntry& entry : dispatch_table(set.compute)) {
      const std::string_view own = entry.types, row = kernel_def(entry.kernel).types;
      EXPECT_LE(std::ssize(own), kernel_def(entry.kernel).max_operands()) << name(entry.kernel);
      for (std::size_t i = 0; i < row.size(); ++i) {
        for (const DType type : types_of(row[i], set))
          EXPECT_TRUE(fits_letter(own[std::min(i, own.size() - 1)], type, set.compute))
              << set.id << " " << name(entry.kernel) << " operand " << i << " " << name(type);
      }
    }
  }
}

TEST(CudaDispatch, ProductsAndAttentionArePreparedAheadOfTheFirstStep) {
  for (const DispatchEntry& entry : dispatch_table(DType::kBf16)) {
    const WorkKind kind = kernel_def(entry.kernel).kind;
    const bool has_plan = kind == WorkKind::kGemm || kind == WorkKind::kAttention;
    EXPECT_TRUE(!has_plan || entry.prepare != nullptr) << name(entry.kernel);
  }
}

}  // namespace
}  // namespace zplan::exec::cuda
