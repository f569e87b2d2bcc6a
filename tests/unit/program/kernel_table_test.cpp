// The kernel table: every row is complete, and operands that disagree with each other are refused.
#include "planner/program/kernel_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "models/model_config.h"
#include "planner/lower/lower.h"

namespace zplan {
namespace {

using ::testing::MatchesRegex;

// Operands of each kernel as lowered jobs have them.
using Samples = std::map<KernelId, std::vector<View>>;

// Two ranks, ZeRO 2 over two micro-batches: the one plan whose step has all kernels.
Samples lowered_samples() {
  Plan plan;
  plan.parallel = {2, 1};
  plan.zero_stage = 2;
  plan.kernel_set = "cuda.sm90.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {8, 2, 8};
  ModelConfig model;
  model.name = "tiny";
  model.layers = 2;
  model.hidden = 16;
  model.heads = 2;
  model.ffn = 64;
  model.vocab = 50;
  model.sequence = 8;
  const Job job = lower(plan, model);
  const Program& p = job.classes[0].program;
  Samples result;
  for (const Node& n : p.nodes)
    if (n.kind == OpKind::kKernel)
      result[n.kernel].assign(p.operands(n).begin(), p.operands(n).end());
  return result;
}

// Sizes that nothing else in their kernel says: (kernel, operand, dimension).
bool is_free(KernelId id, std::size_t operand, int dim) {
  using K = KernelId;
  static const std::set<std::tuple<K, std::size_t, int>> free{
      {K::kLoadBatch, 0, 0},         {K::kLoadBatch, 0, 1},  {K::kEmbeddingForward, 1, 0},  // Vp
      {K::kEmbeddingBackward, 2, 0},                                                        // Vp
      {K::kCrossEntropy, 0, 1},                                                             // Vp
      {K::kFillZero, 0, 0},          {K::kSumSquares, 0, 0},
  };
  return free.count({id, operand, dim}) > 0;
}

TEST(KernelTable, EveryRowIsComplete) {
  for (int i = 0; i < kKernelCount; ++i) {
    const KernelDef& row = kernel_def(static_cast<KernelId>(i));
    EXPECT_THAT(std::string(row.access), MatchesRegex("[rwua]+s?")) << name(row.id);
    EXPECT_GE(row.min_operands, 1) << name(row.id);
    EXPECT_LE(row.min_operands, row.max_operands()) << name(row.id);
    EXPECT_THAT(row.source, MatchesRegex("\\[[A-Za-z0-9-]+[^]]*\\]")) << name(row.id);
    const bool has_scratch = row.access.back() == 's';
    EXPECT_EQ(row.types.size(), row.access.size() - (has_scratch ? 1 : 0)) << name(row.id);
    EXPECT_EQ(std::count(row.shapes.begin(), row.shapes.end(), '['), std::ssize(row.types))
        << name(row.id);
  }
}

TEST(KernelTable, LoweredOperandsFitEveryRow) {
  const Samples samples = lowered_samples();
  EXPECT_EQ(samples.size(), static_cast<std::size_t>(kKernelCount));
  for (const auto& [id, operands] : samples)
    EXPECT_EQ(kernel_def(id).mismatch(operands), std::nullopt) << name(id);
}

// Calls `change` with each operand of each kernel but scratch; the changed operands must not fit.
template <typename Change>
void expect_refusals(const Change& change) {
  for (const auto& [id, operands] : lowered_samples()) {
    for (std::size_t i = 0; i < kernel_def(id).types.size() && i < operands.size(); ++i) {
      for (const View& wrong : change(id, i, operands[i])) {
        std::vector<View> changed = operands;
        changed[i] = wrong;
        EXPECT_NE(kernel_def(id).mismatch(changed), std::nullopt)
            << name(id) << ", operand " << i << " of rank " << wrong.shape.rank;
      }
    }
  }
}

TEST(KernelTable, EverySizeThatAnotherOperandHasMustAgree) {
  expect_refusals([](KernelId id, std::size_t operand, const View& v) {
    std::vector<View> wrong;
    for (int d = 0; d < v.shape.rank; ++d) {
      if (is_free(id, operand, d)) continue;
      wrong.push_back(v);
      ++wrong.back().shape.dims[static_cast<std::size_t>(d)];
    }
    return wrong;
  });
}

TEST(KernelTable, EveryRankIsChecked) {
  expect_refusals([](KernelId id, std::size_t, View v) {
    if (id == KernelId::kFillZero) return std::vector<View>{};
    if (v.shape.rank == kMaxRank) {
      v.shape = {v.shape.elements()};
    } else {
      v.shape.dims[static_cast<std::size_t>(v.shape.rank++)] = 1;
    }
    return std::vector{v};
  });
}

TEST(KernelTable, EveryTypeIsChecked) {
  expect_refusals([](KernelId, std::size_t, View v) {
    v.dtype = v.dtype == DType::kI32 ? DType::kF32 : DType::kI32;
    return std::vector{v};
  });
}

TEST(KernelTable, OperandsOfOneTypeMustAgree) {
  expect_refusals([](KernelId id, std::size_t operand, View v) {
    const std::string_view types = kernel_def(id).types;
    const bool alone = types.find(types[operand]) == types.rfind(types[operand]);
    if (alone && types[operand] != 'd') return std::vector<View>{};
    v.dtype = DType::kF16;
    return std::vector{v};
  });
}

}  // namespace
}  // namespace zplan
