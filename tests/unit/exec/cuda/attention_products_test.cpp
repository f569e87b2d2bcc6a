// The rows of attention in separate products, with a product library that computes what it is asked
// for element by element, against the CPU kernels on the same operands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <random>
#include <vector>

#include "exec/cpu/dispatch.h"
#include "exec/cuda/rows_attention.h"

namespace zplan::exec::cuda {

struct GemmPlans::Library {};
struct GemmPlans::Plan {};
GemmPlans::GemmPlans() = default;
GemmPlans::~GemmPlans() = default;

Bytes GemmPlans::prepare(const std::string& what, const GemmShape& shape, const GemmRoom& room,
                         const GemmRest&) {
  const std::uint32_t least = std::min({room.a, room.b, room.c});
  EXPECT_GT(least, 0U) << what;
  choices_.push_back({.what = what, .shape = shape});
  return {};
}

void GemmPlans::run(cudaStream_t, const GemmShape& g, const GemmOperands& x) const {
  const bool is_prepared = std::any_of(choices_.begin(), choices_.end(),
                                       [&](const GemmChoice& c) { return c.shape == g; });
  ASSERT_TRUE(is_prepared);
  const auto* a = static_cast<const float*>(x.a);
  const auto* b = static_cast<const float*>(x.b);
  auto* c = static_cast<float*>(x.c);
  for (std::int64_t batch = 0; batch < g.batch; ++batch)
    for (std::int64_t i = 0; i < g.m; ++i)
      for (std::int64_t j = 0; j < g.n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < g.k; ++k) {
          const float left = a[g.op == GemmOp::kTN ? k * g.a.row + i : i * g.a.row + k];
          const float right = b[g.op == GemmOp::kNT ? j * g.b.row + k : k * g.b.row + j];
          sum += static_cast<double>(left) * static_cast<double>(right);
        }
        float& to = c[i * g.c.row + j];
        to = static_cast<float>(sum / std::sqrt(static_cast<double>(g.root))) +
             (g.accumulate ? to : 0.0f);
        if (j + 1 < g.n || i + 1 < g.m) continue;
        a += g.a.matrix;
        b += g.b.matrix;
        c += g.c.matrix;
      }
}

namespace {

constexpr std::int64_t kScratchFloats = 1 << 20;

// Operands of one call, twice: for the CUDA row and for the CPU's.
class Twice {
 public:
  explicit Twice(KernelId kernel, AttributeValues attributes = {}) : attributes_(attributes) {
    node_.kernel = kernel;
  }

  Twice& with(Shape shape, Access access) {
    View view;
    view.buffer = static_cast<BufferId>(views_.size());
    view.dtype = DType::kF32;
    view.shape = shape;
    view.access = access;
    views_.push_back(view);
    Buffer& buffer = program_.buffers.emplace_back();
    buffer.slot_size = {round_up(view.bytes().value, 256)};
    std::vector<float> values(static_cast<std::size_t>(shape.elements()));
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(random_);
    for (auto* side : {&cuda_, &cpu_}) side->push_back(values);
    return *this;
  }

  template <typename Row>
  void expect_same(std::size_t result) {
    with({kScratchFloats}, Access::kScratch);
    GemmPlans gemm;
    alignas(AttentionPlans) std::byte unused[sizeof(AttentionPlans)];
    LaneContext lane{.gemm = &gemm};
    const std::vector<Operand> own = operands(cuda_), other = operands(cpu_);
    KernelCall call;
    call.node = &node_;
    call.attributes = attributes_;
    call.operands = own;
    Row::prepare(call, {program_, gemm, reinterpret_cast<AttentionPlans&>(unused)});
    Row::run(call, lane);
    call.operands = other;
    cpu::GemmCache cache;
    const cpu::DispatchEntry& entry =
        cpu::dispatch_table(DType::kF32)[static_cast<std::size_t>(node_.kernel)];
    entry.prepare(call, cache);
    entry.run(call, cache);
    for (std::size_t i = 0; i < cuda_[result].size(); ++i)
      ASSERT_NEAR(cuda_[result][i], cpu_[result][i], 1e-4) << i;
  }

 private:
  std::vector<Operand> operands(std::deque<std::vector<float>>& side) {
    std::vector<Operand> result;
    for (std::size_t i = 0; i < views_.size(); ++i)
      result.push_back({&views_[i], reinterpret_cast<std::byte*>(side[i].data()), Bytes{0}});
    return result;
  }

  Node node_;
  AttributeValues attributes_;
  Program program_;
  std::deque<View> views_;
  std::deque<std::vector<float>> cuda_, cpu_;
  std::mt19937 random_{7};
};

// Every head its own key and value, groups of two and of all heads; values of a size of their own.
const AttentionShape kShapes[] = {
    {2, 5, 4, 4, 6}, {1, 8, 4, 2, 16}, {3, 3, 3, 1, 10}, {2, 5, 4, 2, 6, 4}};

class CudaAttentionProducts : public testing::TestWithParam<AttentionShape> {
 protected:
  const AttentionShape s = GetParam();
  const Shape qkv{s.batch, s.sequence, s.kv_heads, s.columns() / s.kv_heads};
  const Shape out{s.batch, s.sequence, s.heads, s.value_dim};
  const Shape square{s.batch, s.heads, s.sequence, s.sequence};
};

TEST_P(CudaAttentionProducts, AreThoseOfTheCpu) {
  Twice(KernelId::kAttentionScores, {s.value_dim})
      .with(qkv, Access::kRead)
      .with(square, Access::kWrite)
      .expect_same<AttentionScoresRow<float>>(1);
  Twice(KernelId::kAttentionContext)
      .with(square, Access::kRead)
      .with(qkv, Access::kRead)
      .with(out, Access::kWrite)
      .expect_same<AttentionContextRow<float>>(2);
}

TEST_P(CudaAttentionProducts, AndTheirGradients) {
  Twice(KernelId::kAttentionContextGradient)
      .with(out, Access::kRead)
      .with(qkv, Access::kRead)
      .with(square, Access::kWrite)
      .expect_same<AttentionContextGradientRow<float>>(2);
  Twice(KernelId::kAttentionScoresGradient)
      .with(square, Access::kRead)
      .with(square, Access::kRead)
      .with(out, Access::kRead)
      .with(qkv, Access::kRead)
      .with(qkv, Access::kWrite)
      .expect_same<AttentionScoresGradientRow<float>>(4);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaAttentionProducts, testing::ValuesIn(kShapes));

}  // namespace
}  // namespace zplan::exec::cuda
