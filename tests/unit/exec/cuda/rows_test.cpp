// What the rows of the dispatch table tell the libraries about a call.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "exec/cuda/rows_attention.h"
#include "exec/cuda/rows_linear.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan::exec::cuda {
namespace {

// Operands of a call, without memory.
class Views {
 public:
  Views& with(Shape shape, Access access = Access::kRead, DType type = DType::kBf16) {
    View view;
    view.shape = shape;
    view.access = access;
    view.dtype = type;
    views_.push_back(view);
    return *this;
  }
  KernelCall call() {
    for (const View& view : views_) operands_.push_back({&view, nullptr});
    KernelCall call;
    call.operands = operands_;
    return call;
  }
  std::span<const View> all() const { return views_; }

 private:
  std::vector<View> views_;
  std::vector<Operand> operands_;
};

constexpr std::int64_t kTokens = 6, kIn = 10, kOut = 14;

template <GemmOp op, GemmEpilogue epilogue = GemmEpilogue::kNone>
using Bf16Row = ProductRow<__nv_bfloat16, op, epilogue>;

// The work of the kernel table, and matrices that fill their operands, rows dense.
template <typename Row>
GemmShape checked_shape(KernelId kernel, Views& views) {
  const KernelCall call = views.call();
  const GemmShape g = Row::shape(call);
  const ColumnMajorGemm library = column_major(g.op, g.m, g.n, g.k);
  EXPECT_EQ(2 * g.m * g.n * g.k, kernel_def(kernel).demand({views.all()}).flops.value);
  const Shape &a = call[0].shape(), &b = call[1].shape(), &c = call[Row::kResult].shape();
  EXPECT_EQ(c, (Shape{g.m, g.n}));
  EXPECT_EQ((Shape{library.first.columns, library.first.rows}), b);
  EXPECT_EQ((Shape{library.second.columns, library.second.rows}), a);
  EXPECT_EQ((Shape{library.result.columns, library.result.rows}), c);
  if (Row::kVector != 0) {
    EXPECT_EQ(call[Row::kVector].shape(), Shape{g.n});
  }
  if (Row::kAux != 0) {
    EXPECT_EQ(call[Row::kAux].shape(), c);
  }
  return g;
}

TEST(CudaRows, ForwardProducts) {
  Views linear, plain, head;
  linear.with({kTokens, kIn}).with({kIn, kOut}).with({kOut}).with({kTokens, kOut}, Access::kWrite);
  const auto with_bias =
      checked_shape<Bf16Row<GemmOp::kNN, GemmEpilogue::kBias>>(KernelId::kLinearForward, linear);
  EXPECT_EQ(with_bias.epilogue, GemmEpilogue::kBias);
  EXPECT_FALSE(with_bias.accumulate);
  plain.with({kTokens, kIn}).with({kIn, kOut}).with({kTokens, kOut}, Access::kUpdate);
  EXPECT_TRUE(checked_shape<Bf16Row<GemmOp::kNN>>(KernelId::kMatmulForward, plain).accumulate);
  head.with({kTokens, kIn}).with({kOut, kIn}).with({kTokens, kOut}, Access::kWrite);
  EXPECT_EQ(checked_shape<Bf16Row<GemmOp::kNT>>(KernelId::kHeadForward, head).k, kIn);
}

TEST(CudaRows, GradientsOfInputs) {
  Views linear, head;
  linear.with({kTokens, kOut}).with({kIn, kOut}).with({kTokens, kIn}, Access::kUpdate);
  EXPECT_TRUE(
      checked_shape<Bf16Row<GemmOp::kNT>>(KernelId::kLinearInputGradient, linear).accumulate);
  head.with({kTokens, kOut}).with({kOut, kIn}).with({kTokens, kIn}, Access::kWrite);
  EXPECT_EQ(checked_shape<Bf16Row<GemmOp::kNN>>(KernelId::kHeadInputGradient, head).k, kOut);
}

TEST(CudaRows, GradientsOfWeights) {
  Views plain, head;
  plain.with({kTokens, kIn}).with({kTokens, kOut});
  plain.with({kIn, kOut}, Access::kUpdate, DType::kF32);
  const auto g = checked_shape<Bf16Row<GemmOp::kTN>>(KernelId::kMatmulWeightGradient, plain);
  EXPECT_EQ(g.type, DType::kBf16);
  EXPECT_EQ(g.result, DType::kF32);
  head.with({kTokens, kOut}).with({kTokens, kIn}).with({kOut, kIn}, Access::kWrite);
  checked_shape<Bf16Row<GemmOp::kTN>>(KernelId::kHeadWeightGradient, head);
}

TEST(CudaRows, BiasGradientsAreFusedWhereNothingIsAdded) {
  using Row = Bf16Row<GemmOp::kTN, GemmEpilogue::kColumnSums>;
  for (const Access dw : {Access::kWrite, Access::kUpdate}) {
    for (const Access dbias : {Access::kWrite, Access::kUpdate}) {
      Views views;
      views.with({kTokens, kIn}).with({kTokens, kOut}).with({kIn, kOut}, dw).with({kOut}, dbias);
      const GemmShape g = checked_shape<Row>(KernelId::kLinearWeightGradient, views);
      const bool adds = dw == Access::kUpdate || dbias == Access::kUpdate;
      EXPECT_EQ(g.epilogue, adds ? GemmEpilogue::kNone : GemmEpilogue::kColumnSums);
      EXPECT_EQ(g.accumulate, dw == Access::kUpdate);
    }
  }
}

TEST(CudaRows, GeluBesideItsProducts) {
  Views forward, backward;
  forward.with({kTokens, kIn}).with({kIn, kOut}).with({kOut});
  forward.with({kTokens, kOut}, Access::kWrite).with({kTokens, kOut}, Access::kWrite);
  using Forward = Bf16Row<GemmOp::kNN, GemmEpilogue::kBiasGelu>;
  const GemmShape ahead = checked_shape<Forward>(KernelId::kLinearGeluForward, forward);
  EXPECT_EQ(ahead.epilogue, GemmEpilogue::kBiasGelu);
  EXPECT_NE(Forward::kResult, Forward::kAux);
  backward.with({kTokens, kOut}).with({kIn, kOut}).with({kTokens, kIn});
  backward.with({kTokens, kIn}, Access::kWrite);
  using Backward = Bf16Row<GemmOp::kNT, GemmEpilogue::kGeluGradient>;
  const GemmShape back = checked_shape<Backward>(KernelId::kGeluInputGradient, backward);
  EXPECT_EQ(back.epilogue, GemmEpilogue::kGeluGradient);
  EXPECT_EQ(backward.all()[Backward::kAux].access, Access::kRead);
  EXPECT_EQ(backward.all()[Backward::kResult].access, Access::kWrite);
}

// Names of the table's operands say which is which: the sum before GELU, its result, gradients.
TEST(CudaRows, OperandsStandWhereTheKernelTableHasThem) {
  using Forward = ProductRow<float, GemmOp::kNN, GemmEpilogue::kBiasGelu>;
  using Backward = ProductRow<float, GemmOp::kNT, GemmEpilogue::kGeluGradient>;
  const auto operand = [](KernelId kernel, std::size_t index) {
    std::istringstream names{std::string(kernel_def(kernel).shapes)};
    std::string word;
    for (std::size_t i = 0; i <= index; ++i) names >> word;
    return word.substr(0, word.find('['));
  };
  EXPECT_EQ(operand(KernelId::kLinearGeluForward, Forward::kResult), "y");
  EXPECT_EQ(operand(KernelId::kLinearGeluForward, Forward::kAux), "sum");
  EXPECT_EQ(operand(KernelId::kLinearGeluForward, Forward::kVector), "bias");
  EXPECT_EQ(operand(KernelId::kGeluInputGradient, Backward::kResult), "dx");
  EXPECT_EQ(operand(KernelId::kGeluInputGradient, Backward::kAux), "x");
}

TEST(CudaRows, AttentionCountsItsHeads) {
  const Shape qkv{2, 5, 4, (3 + 1) * 8 + 6}, out{2, 5, 12, 6}, lse{2, 12, 5};
  const AttentionShape expected{2, 5, 12, 4, 8, 6};
  Views forward, backward;
  forward.with(qkv).with(out, Access::kWrite).with(lse, Access::kWrite, DType::kF32);
  backward.with(out).with(qkv).with(out).with(lse, Access::kRead, DType::kF32);
  backward.with(qkv, Access::kWrite);
  const AttentionKey ahead = AttentionForwardRow<__nv_bfloat16>::key(forward.call());
  const AttentionKey back = AttentionBackwardRow<__nv_bfloat16>::key(backward.call());
  EXPECT_EQ(ahead, (AttentionKey{expected, DType::kBf16, AttentionPass::kForward}));
  EXPECT_EQ(back, (AttentionKey{expected, DType::kBf16, AttentionPass::kBackward}));
}

}  // namespace
}  // namespace zplan::exec::cuda
