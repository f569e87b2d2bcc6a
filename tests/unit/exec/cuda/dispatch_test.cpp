#include "exec/cuda/dispatch.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "planner/program/kernels/kernel_set.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan::exec::cuda {
namespace {

std::vector<KernelSet> cuda_sets() {
  std::vector<KernelSet> sets;
  for (const KernelSet& set : kernel_sets())
    if (set.runs_on == RunsOn::kCuda) sets.push_back(set);
  return sets;
}

// What the sets that have products and types of one declare, without the kernels of the host's
// lanes and those that are planned only.
std::set<KernelId> declared(const KernelSet& one) {
  std::set<KernelId> kernels;
  for (const KernelSet& set : cuda_sets()) {
    for (int i = 0; i < kKernelCount; ++i) {
      const auto id = static_cast<KernelId>(i);
      const bool is_here = set.compute == one.compute && set.layer_products == one.layer_products &&
                           declares(set, id) && !is_planned_only(id, RunsOn::kCuda);
      if (is_here && kernel_def(id).kind != WorkKind::kHost) kernels.insert(id);
    }
  }
  return kernels;
}

TEST(CudaDispatch, CoversExactlyWhatTheKernelSetsDeclare) {
  ASSERT_FALSE(cuda_sets().empty());
  for (const KernelSet& set : cuda_sets()) {
    std::set<KernelId> offered;
    for (const DispatchEntry& entry : dispatch_table(set))
      if (entry.run != nullptr) offered.insert(entry.kernel);
    EXPECT_EQ(offered, declared(set)) << set.id;
  }
}

TEST(CudaDispatch, OffersNothingForTypesThatNoSetComputesIn) {
  EXPECT_TRUE(dispatch_table(find_kernel_set("cpu.f64")).empty());
}

TEST(CudaDispatch, LeavesOutTheKernelsThatArePlannedOnly) {
  std::string left_out;
  for (int i = 0; i < kKernelCount; ++i)
    if (is_planned_only(static_cast<KernelId>(i), RunsOn::kCuda))
      left_out += " " + std::string(name(static_cast<KernelId>(i)));
  GTEST_SKIP() << "planned and simulated only on CUDA:" << left_out;
}

TEST(CudaDispatch, ProductsAndAttentionArePreparedAheadOfTheFirstStep) {
  for (const DispatchEntry& entry : dispatch_table(find_kernel_set("cuda.sm90.bf16"))) {
    const WorkKind kind = kernel_def(entry.kernel).kind;
    const bool has_plan = kind == WorkKind::kGemm || kind == WorkKind::kAttention;
    EXPECT_TRUE(!has_plan || entry.prepare != nullptr) << name(entry.kernel);
  }
}

}  // namespace
}  // namespace zplan::exec::cuda
