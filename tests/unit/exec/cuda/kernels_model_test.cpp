// CUDA kernels of the model's forward and backward pass, on the host, against the CPU kernels.
// Shapes have odd and even widths, one row and many, addresses on and off their alignment, so that
// both the 16-byte and the scalar accesses run.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/support/sanitized.h"
#include "tests/unit/exec/cuda/kernels_row_case.h"

namespace zplan::exec::cuda {
namespace {

template <typename T>
class CudaModelKernels : public testing::Test {};
using Types = testing::Types<float, __half, __nv_bfloat16>;
TYPED_TEST_SUITE(CudaModelKernels, Types);

// Width of rows, rows and elements off the alignment.
struct Layout {
  std::int64_t rows, width;
  std::size_t shift;
};
const std::vector<Layout> kLayouts{{1, 1, 0}, {3, 17, 0}, {2, 64, 0}, {5, 64, 1}, {33, 264, 0}};

// The last of these has more packs in a row than the threads of a block keep.
const std::vector<Layout> kNormLayouts{{1, 1, 0},  {3, 17, 0},   {2, 64, 0},
                                       {5, 64, 1}, {33, 264, 0}, {2, 2100, 1}};

// Of large shapes sanitizers look at one type.
bool leaves_out(bool is_large, DType type) {
  return testing_support::kSanitized && is_large && type != DType::kF32;
}

TYPED_TEST(CudaModelKernels, GeluIsRoundedOnce) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const auto& [rows, width, shift] : kLayouts) {
    const std::int64_t n = rows * width + 3;
    RowCase forward(KernelId::kGeluForward);
    forward.shifted(shift).with(t, {n}, random_values(n, 1, 6)).out(t, {n});
    forward.run<TypeParam>().expect_rounded(1, 8);
    RowCase backward(KernelId::kGeluBackward);
    backward.shifted(shift).with(t, {n}, random_values(n, 2, 6)).sum(t, {n}, true, 3);
    backward.run<TypeParam>().expect_rounded(1, 64);
  }
}

TYPED_TEST(CudaModelKernels, SwigluIsRoundedOnce) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const auto& [rows, width, shift] : kLayouts) {
    RowCase forward(KernelId::kSwigluForward);
    forward.shifted(shift).with(t, {rows, 2 * width}, random_values(2 * rows * width, 1, 4));
    forward.out(t, {rows, width}).template run<TypeParam>().expect_rounded(1, 16);
    RowCase backward(KernelId::kSwigluBackward);
    backward.shifted(shift).with(t, {rows, 2 * width}, random_values(2 * rows * width, 2, 4));
    backward.with(t, {rows, width}, random_values(rows * width, 3)).out(t, {rows, 2 * width});
    backward.run<TypeParam>().expect_rounded(2, 64);
  }
}

TYPED_TEST(CudaModelKernels, OtherFunctionsThanTheUsualOnes) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const std::int64_t function : {1, 2, 3, 4, 5}) {
    const std::int64_t rows = 3, width = 20, n = rows * width;
    RowCase gelu(KernelId::kGeluForward, {function});
    gelu.with(t, {n}, random_values(n, 1, 6)).out(t, {n});
    gelu.template run<TypeParam>().expect_rounded(1, 16);
    RowCase back(KernelId::kGeluBackward, {function});
    back.with(t, {n}, random_values(n, 2, 6)).sum(t, {n}, true, 3);
    back.template run<TypeParam>().expect_rounded(1, 64);
    RowCase gated(KernelId::kSwigluForward, {function});
    gated.with(t, {rows, 2 * width}, random_values(2 * n, 1, 4)).out(t, {rows, width});
    gated.template run<TypeParam>().expect_rounded(1, 32);
    RowCase gradient(KernelId::kSwigluBackward, {function});
    gradient.with(t, {rows, 2 * width}, random_values(2 * n, 2, 4));
    gradient.with(t, {rows, width}, random_values(n, 3)).out(t, {rows, 2 * width});
    gradient.template run<TypeParam>().expect_rounded(2, 64);
  }
}

// Gates of up to 0.5, factors of -0.5 to 0.5 and 2 more.
TYPED_TEST(CudaModelKernels, GatesHaveLimitsAndAnOffset) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const auto& [rows, width, shift] : kLayouts) {
    RowCase forward(KernelId::kSwigluForward, {5, 500'000'000, 2});
    forward.shifted(shift).with(t, {rows, 2 * width}, random_values(2 * rows * width, 1, 4));
    forward.out(t, {rows, width}).template run<TypeParam>().expect_rounded(1, 32);
    RowCase backward(KernelId::kSwigluBackward, {5, 500'000'000, 2});
    backward.shifted(shift).with(t, {rows, 2 * width}, random_values(2 * rows * width, 2, 4));
    backward.with(t, {rows, width}, random_values(rows * width, 3)).out(t, {rows, 2 * width});
    backward.template run<TypeParam>().expect_rounded(2, 64);
  }
}

TYPED_TEST(CudaModelKernels, CapsBendThereAndBack) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const auto& [rows, width, shift] : kLayouts) {
    const std::int64_t n = rows * width;
    RowCase forward(KernelId::kSoftCapForward, {3});
    forward.shifted(shift).with(t, {n}, random_values(n, 1, 9)).out(t, {n});
    forward.template run<TypeParam>().expect_rounded(1, 8, 3);
    RowCase backward(KernelId::kSoftCapBackward, {3});
    backward.shifted(shift).with(t, {n}, random_values(n, 2, 9)).sum(t, {n}, true, 3);
    backward.template run<TypeParam>().expect_rounded(1, 16, 2);
  }
}

// 300 elements are more than a warp takes at a time.
TYPED_TEST(CudaModelKernels, SinksTakeTheirShareThereAndBack) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const std::int64_t v : {1, 17, 72, 300}) {
    const Shape out{2, 5, 3, v}, lse{2, 3, 5};
    RowCase forward(KernelId::kSinksForward);
    forward.sum(t, out, true, 1).sum(DType::kF32, lse, true, 2).with(t, {3}, random_values(3, 3));
    forward.template run<TypeParam>();
    forward.expect_rounded(0, 16, 2);
    forward.expect_rounded(1, 16, 2);
    for (const bool adds : {false, true}) {
      RowCase backward(KernelId::kSinksBackward);
      backward.with(t, out, random_values(out.elements(), 4));
      backward.with(t, out, random_values(out.elements(), 5));
      backward.with(DType::kF32, lse, random_values(lse.elements(), 6));
      backward.with(t, {3}, random_values(3, 7)).sum(adds ? DType::kF32 : t, {3}, adds, 8);
      backward.scratch((adds ? 1 : 4) * 3).template run<TypeParam>();
      backward.expect_rounded(4, 64, 64);
    }
  }
}

TYPED_TEST(CudaModelKernels, ResidualsAreRoundedOnce) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const auto& [rows, width, shift] : kLayouts) {
    const std::int64_t n = rows * width;
    RowCase plain(KernelId::kResidualAdd);
    plain.shifted(shift).with(t, {n}, random_values(n, 1)).with(t, {n}, random_values(n, 2));
    plain.out(t, {n}).run<TypeParam>().expect_rounded(2, 1);
    RowCase biased(KernelId::kBiasResidualAdd);
    biased.shifted(shift).with(t, {rows, width}, random_values(n, 3));
    biased.with(t, {rows, width}, random_values(n, 4)).with(t, {width}, random_values(width, 5));
    biased.out(t, {rows, width}).template run<TypeParam>().expect_rounded(3, 4);
  }
}

TYPED_TEST(CudaModelKernels, LayerNormForwardKeepsFloatStatistics) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const auto& [rows, width, shift] : kNormLayouts) {
    RowCase row(KernelId::kLayerNormForward);
    row.shifted(shift).with(t, {rows, width}, random_values(rows * width, 1));
    row.with(t, {width}, random_values(width, 2)).with(t, {width}, random_values(width, 3));
    row.out(t, {rows, width}).out(DType::kF32, {rows}).out(DType::kF32, {rows});
    row.run<TypeParam>();
    row.expect_rounded(3, 64);
    row.expect_rounded(4, 16);
    row.expect_rounded(5, 64);
  }
}

TYPED_TEST(CudaModelKernels, RmsNormForwardKeepsFloatStatistics) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const auto& [rows, width, shift] : kNormLayouts) {
    RowCase row(KernelId::kRmsNormForward);  // eps counts where the values are small
    row.shifted(shift).with(t, {rows, width}, random_values(rows * width, 1, 0.01));
    row.with(t, {width}, random_values(width, 2)).out(t, {rows, width}).out(DType::kF32, {rows});
    row.run<TypeParam>();
    row.expect_rounded(2, 64);
    row.expect_rounded(3, 64);
  }
}

// Values whose sums of three have no rounding in any type.
std::vector<double> eighths(std::int64_t n, unsigned seed) {
  std::vector<double> values = random_values(n, seed);
  for (double& value : values) value = std::round(8 * value) / 8;
  return values;
}

// Of one operand of a case that has run.
std::vector<double> actual_values(const RowCase& row, std::size_t operand) {
  std::vector<double> values(row.elements(operand));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = row.actual(operand, i);
  return values;
}

RowCase residual_layer_norm(DType t, const Layout& layout, bool exact) {
  const auto& [rows, width, shift] = layout;
  const auto values = [&](std::int64_t n, unsigned seed) {
    return exact ? eighths(n, seed) : random_values(n, seed);
  };
  RowCase row(KernelId::kResidualLayerNormForward);
  row.shifted(shift).with(t, {rows, width}, values(rows * width, 1));
  row.with(t, {rows, width}, values(rows * width, 2)).with(t, {width}, values(width, 3));
  row.with(t, {width}, random_values(width, 4)).with(t, {width}, random_values(width, 5));
  row.out(t, {rows, width}).out(t, {rows, width}).out(DType::kF32, {rows}).out(DType::kF32, {rows});
  return row;
}

RowCase residual_rms_norm(DType t, const Layout& layout, bool exact) {
  const auto& [rows, width, shift] = layout;
  const auto values = [&](std::int64_t n, unsigned seed) {
    return exact ? eighths(n, seed) : random_values(n, seed, 0.01);
  };
  RowCase row(KernelId::kResidualRmsNormForward);
  row.shifted(shift).with(t, {rows, width}, values(rows * width, 1));
  row.with(t, {rows, width}, values(rows * width, 2)).with(t, {width}, random_values(width, 3));
  row.out(t, {rows, width}).out(t, {rows, width}).out(DType::kF32, {rows});
  return row;
}

TYPED_TEST(CudaModelKernels, ResidualNormsOfExactSumsAreRoundedOnce) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const Layout& layout : kNormLayouts) {
    RowCase layer = residual_layer_norm(t, layout, true);
    layer.run<TypeParam>().expect_same(5);
    layer.expect_rounded(6, 64);
    layer.expect_rounded(7, 16);
    layer.expect_rounded(8, 64);
    RowCase rms = residual_rms_norm(t, layout, true);
    rms.run<TypeParam>().expect_same(3);
    rms.expect_rounded(4, 64);
    rms.expect_rounded(5, 64);
  }
}

// The sum has the bits of the CPU's, all else those of the plain norm of that sum.
TYPED_TEST(CudaModelKernels, ResidualNormsReadTheRoundedSum) {
  constexpr DType t = kTypeOf<TypeParam>;
  using enum RowCase::Reference;
  for (const Layout& layout : kNormLayouts) {
    const auto& [rows, width, shift] = layout;
    RowCase layer = residual_layer_norm(t, layout, false);
    layer.run<TypeParam>(kSameTypes, t).expect_same(5);
    RowCase plain_layer(KernelId::kLayerNormForward);
    plain_layer.shifted(shift).with(t, {rows, width}, actual_values(layer, 5));
    plain_layer.with(t, {width}, random_values(width, 4)).with(t, {width}, random_values(width, 5));
    plain_layer.out(t, {rows, width}).out(DType::kF32, {rows}).out(DType::kF32, {rows});
    plain_layer.run<TypeParam>();
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(actual_values(layer, 6 + i), actual_values(plain_layer, 3 + i));

    RowCase rms = residual_rms_norm(t, layout, false);
    rms.run<TypeParam>(kSameTypes, t).expect_same(3);
    RowCase plain_rms(KernelId::kRmsNormForward);
    plain_rms.shifted(shift).with(t, {rows, width}, actual_values(rms, 3));
    plain_rms.with(t, {width}, random_values(width, 3));
    plain_rms.out(t, {rows, width}).out(DType::kF32, {rows});
    plain_rms.run<TypeParam>();
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_EQ(actual_values(rms, 4 + i), actual_values(plain_rms, 2 + i));
  }
}

// Gradients of 64 rows a piece, of float and of the kernel's type, added and overwritten; scratch
// for one piece, for many or for more than are added up at once. Rows of 1,100 are too long for one
// pass.
TYPED_TEST(CudaModelKernels, LayerNormBackwardSumsOverRows) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const auto& [rows, width, shift] :
       {Layout{1, 1, 0}, {3, 17, 0}, {200, 72, 0}, {70, 64, 1}, {3, 1100, 1}, {600, 8, 0}}) {
    if (leaves_out(rows > 100, t)) continue;
    for (const bool adds : {false, true}) {
      const DType g = adds ? DType::kF32 : t;
      RowCase row(KernelId::kLayerNormBackward);
      row.shifted(shift).with(t, {rows, width}, random_values(rows * width, 1));
      row.with(t, {rows, width}, random_values(rows * width, 2));
      row.with(DType::kF32, {rows}, random_values(rows, 3, 0.1));
      row.with(DType::kF32, {rows}, random_values(rows, 4, 1.0));
      row.with(t, {width}, random_values(width, 5)).sum(t, {rows, width}, adds, 6);
      row.sum(g, {width}, adds, 7).sum(g, {width}, adds, 8).shifted(0);
      row.scratch((adds ? 1 : rows == 600 ? rows : 8) * 2 * width);
      row.run<TypeParam>();
      row.expect_rounded(5, 64, 4);
      row.expect_rounded(6, 16, 64);
      row.expect_rounded(7, 16, 64);
    }
  }
}

// With room for the sums of one block alone, rows are gone through twice.
TYPED_TEST(CudaModelKernels, RmsNormBackwardSumsOverRows) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const auto& [rows, width, shift] :
       {Layout{1, 1, 0}, {3, 17, 0}, {200, 72, 0}, {70, 64, 1}, {3, 1100, 1}}) {
    if (leaves_out(rows > 100, t)) continue;
    for (const std::int64_t room : {1, 2, 8}) {
      const bool adds = room < 8;
      const DType g = adds ? DType::kF32 : t;
      RowCase row(KernelId::kRmsNormBackward);
      row.shifted(shift).with(t, {rows, width}, random_values(rows * width, 1));
      row.with(t, {rows, width}, random_values(rows * width, 2));
      row.with(DType::kF32, {rows}, random_values(rows, 4, 1.0));
      row.with(t, {width}, random_values(width, 5)).sum(t, {rows, width}, adds, 6);
      row.sum(g, {width}, adds, 7).shifted(0).scratch(room * width);
      row.run<TypeParam>();
      row.expect_rounded(4, 64, 4);
      row.expect_rounded(5, 16, 64);
    }
  }
}

// Heads 1 to 3 of 4; of 264 elements and more gradients take two passes.
TYPED_TEST(CudaModelKernels, HeadNormIsOfEachHeadAndBack) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const auto& [tokens, d, shift] : {Layout{1, 1, 0},
                                         {3, 17, 0},
                                         {20, 72, 0},
                                         {7, 16, 1},
                                         {40, 128, 0},
                                         {9, 264, 0},
                                         {2, 301, 1}}) {
    const Shape all{1, tokens, 4, d}, normed{1, tokens, 3, d}, rows{1, tokens, 3};
    RowCase forward(KernelId::kHeadNormForward, {1});
    forward.shifted(shift).sum(t, all, true, 1).with(t, {d}, random_values(d, 2));
    forward.out(t, normed).out(DType::kF32, rows).template run<TypeParam>();
    forward.expect_rounded(0, 16, 4);
    forward.expect_same(2);
    forward.expect_rounded(3, 16, 4);
    for (const bool adds : {false, true}) {
      RowCase backward(KernelId::kHeadNormBackward, {1});
      backward.shifted(shift).sum(t, all, true, 3);
      backward.with(t, normed, random_values(normed.elements(), 4));
      backward.with(DType::kF32, rows, random_values(rows.elements(), 5, 1.0));
      backward.with(t, {d}, random_values(d, 6)).sum(adds ? DType::kF32 : t, {d}, adds, 7);
      backward.shifted(0).scratch((adds ? 1 : 5) * d).template run<TypeParam>();
      backward.expect_rounded(0, 64, 8);
      backward.expect_rounded(4, 64, 64);
    }
  }
}

TYPED_TEST(CudaModelKernels, BiasGradientsSumColumns) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const auto& [rows, width, shift] :
       {Layout{1, 1, 0}, {3, 17, 0}, {200, 264, 0}, {70, 64, 1}}) {
    for (const bool adds : {false, true}) {
      RowCase row(KernelId::kBiasGradient);
      row.shifted(shift).with(t, {rows, width}, random_values(rows * width, 1));
      row.sum(adds ? t : DType::kF32, {width}, adds, 2).shifted(0).scratch(4 * width);
      row.run<TypeParam>().expect_rounded(1, 16, 32);
    }
  }
}

// A causal square has rows of every length; 264 columns are more than one pack per thread.
TYPED_TEST(CudaModelKernels, SoftmaxSeesTheFirstElementsOfItsRow) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const std::int64_t s : {1, 5, 16, 264}) {
    if (leaves_out(s > 16, t)) continue;
    const Shape shape{s > 16 ? 1 : 2, 1, s, s};
    RowCase forward(KernelId::kSoftmaxForward);
    forward.shifted(s == 16 ? 1 : 0).sum(t, shape, true, 1);
    forward.run<TypeParam>().expect_rounded(0, 64);
    RowCase backward(KernelId::kSoftmaxBackward);
    backward.shifted(s == 16 ? 1 : 0).with(t, shape, random_values(shape.elements(), 2, 0.5));
    backward.sum(t, shape, true, 3);
    backward.run<TypeParam>().expect_rounded(1, 64, static_cast<double>(s));
  }
}

TYPED_TEST(CudaModelKernels, RopeTurnsTheFirstHeadsThereAndBack) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const std::int64_t d : {2, 6, 32, 528}) {  // 264 pairs: more than are turned at a time
    for (const std::int64_t direction : {1, -1}) {
      const Shape shape{2, 5, 3, d};
      RowCase row(KernelId::kRope, {2, 10000, direction});
      row.shifted(d == 32 && direction < 0 ? 1 : 0).sum(t, shape, true, 1);
      row.run<TypeParam>().expect_rounded(0, 4, 4);
    }
  }
}

// From position 7 on, four times closer.
TYPED_TEST(CudaModelKernels, RopeTurnsThePartOfAHeadThatItIsTold) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const std::int64_t d : {4, 6, 32, 1056}) {
    const Shape shape{2, 5, 3, d};
    RowCase row(KernelId::kRope, {2, 10000, 1, 7, d / 4 * 2, 4});
    row.sum(t, shape, true, 1).template run<TypeParam>().expect_rounded(0, 4, 4);
  }
}

// In 16-byte accesses where every segment and address allows them, else one by one.
TYPED_TEST(CudaModelKernels, ColumnsAreCutIntoPiecesAndJoined) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const std::int64_t unit : {1, 8})
    for (const std::size_t shift : {0, 1})
      for (const AttributeValues& segments :
           {AttributeValues{}, AttributeValues{9 * unit, 3 * unit}}) {
        const std::int64_t rows = 21, width = 5 * unit;  // of each of 3 pieces
        RowCase split(KernelId::kSplitColumns, segments);
        split.shifted(shift).with(t, {rows, 3 * width}, random_values(rows * 3 * width, 1));
        split.out(t, {3, rows, width}).template run<TypeParam>().expect_rounded(1, 1);
        RowCase join(KernelId::kJoinColumns, segments);
        join.shifted(shift).with(t, {3, rows, width}, random_values(rows * 3 * width, 2));
        join.out(t, {rows, 3 * width}).template run<TypeParam>().expect_rounded(1, 1);
      }
}

// 264 pairs are more than are turned at a time.
TYPED_TEST(CudaModelKernels, LatentHeadsArePutTogetherAndTakenApart) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const auto& [n, r, v] :
       {std::array<std::int64_t, 3>{5, 2, 3}, {5, 6, 3}, {5, 528, 3}, {24, 16, 8}, {8, 528, 16}}) {
    for (const std::int64_t theta : {10000, 0}) {
      const std::int64_t d = n + r;
      const Shape q{2, 5, 3, d}, kv{2, 5, 3, n + v}, rope{2, 5, r}, qkv{2, 5, 3, 2 * d + v};
      RowCase forward(KernelId::kLatentHeadsForward, {theta, 3});
      forward.with(t, q, random_values(q.elements(), 1));
      forward.with(t, kv, random_values(kv.elements(), 2));
      forward.with(t, rope, random_values(rope.elements(), 3)).out(t, qkv);
      forward.template run<TypeParam>().expect_rounded(3, 4, 4);
      for (const bool adds : {false, true}) {
        RowCase backward(KernelId::kLatentHeadsBackward, {theta, 3});
        backward.with(t, qkv, random_values(qkv.elements(), 4)).out(t, q).out(t, kv);
        backward.sum(t, rope, adds, 5).template run<TypeParam>();
        backward.expect_rounded(1, 4, 4);
        backward.expect_rounded(2, 0);
        backward.expect_rounded(3, 8, 8);
      }
    }
  }
}

// ---- embedding ----------------------------------------------------------------------------------

// Three sequences of 5 and their targets, tokens of a vocabulary of 8, some of them repeated; 2 is
// a target before it is an input.
const std::vector<double> kTokens{1, 7, 1, 3, 0, 2, 7, 7, 2, 2, 4, 1, 3, 3, 3, 0, 6, 5};
const Shape kTokenShape{3, 6};

TYPED_TEST(CudaModelKernels, EmbeddingLooksUpItsPieceOfTheVocabulary) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const std::int64_t h : {1, 9, 16}) {
    for (const std::int32_t piece : {0, 1}) {
      for (const bool positions : {false, true}) {
        RowCase row(KernelId::kEmbeddingForward, {4 * piece});
        row.shifted(h == 16 && piece == 1 ? 1 : 0);
        row.with(DType::kI32, kTokenShape, kTokens).with(t, {4, h}, random_values(4 * h, 1));
        row.out(t, {3, 5, h});
        if (positions) row.with(t, {5, h}, random_values(5 * h, 2));
        row.run<TypeParam>().expect_rounded(2, 2);
      }
    }
  }
}

// The same bits as on the CPU, whatever the order of the blocks. Of 16 columns embeddings are
// scaled by 4, the root of their number.
TYPED_TEST(CudaModelKernels, EmbeddingGradientsAddInTokenOrder) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const std::int64_t h : {1, 9, 16}) {
    for (const std::int32_t piece : {0, 1}) {
      for (const bool adds : {false, true}) {
        const DType g = h == 9 ? DType::kF32 : t;
        RowCase row(KernelId::kEmbeddingBackward, {4 * piece, h == 16 ? h : 0});
        row.with(DType::kI32, kTokenShape, kTokens);
        row.with(t, {3, 5, h}, random_values(15 * h, 1)).sum(g, {4, h}, adds, 2);
        if (h != 1) row.sum(g, {5, h}, adds, 3);
        row.scratch(1024);
        row.run<TypeParam>(RowCase::Reference::kSameTypes, t);
        row.expect_same(2);
        if (h != 1) row.expect_same(3);
      }
    }
  }
}

TYPED_TEST(CudaModelKernels, EmbeddingGradientsOfManyTokensAddInTokenOrder) {
  constexpr DType t = kTypeOf<TypeParam>;
  constexpr std::int64_t batch = 6;
  for (const std::int64_t sequence : {50, 1400}) {  // so many are not counted but sorted
    if (leaves_out(sequence > 50, t)) continue;
    const std::int64_t n = batch * sequence;
    std::vector<double> tokens(static_cast<std::size_t>(n + batch));
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<double>(i * i % 7 / 2);
    RowCase row(KernelId::kEmbeddingBackward);
    row.with(DType::kI32, {batch, sequence + 1}, tokens);
    row.with(t, {batch, sequence, 8}, random_values(n * 8, 1));
    row.sum(t, {4, 8}, true, 2).sum(t, {sequence, 8}, false, 3).scratch(8192 + 4 * n);
    row.run<TypeParam>(RowCase::Reference::kSameTypes, t).expect_same(2);
    row.expect_same(3);
  }
}

// ---- loss ---------------------------------------------------------------------------------------

const std::vector<double> kTargets{0, 3, 9, -1, 5, 0, 0, 16};  // targets 3 9 -1, 0 0 16
const Shape kTargetShape{2, 4};

TYPED_TEST(CudaModelKernels, CrossEntropyLeavesGradientsAndZeroPadding) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const std::int64_t columns : {17, 24, 600, 6400}) {
    const std::int64_t valid = columns >= 600 ? columns - 45 : 17;
    for (const std::size_t shift : {0, 1}) {
      RowCase row(KernelId::kCrossEntropy, {valid, 8});
      row.shifted(shift).with(t, {6, columns}, random_values(6 * columns, 1, 8), Access::kUpdate);
      row.with(DType::kI32, kTargetShape, kTargets);
      row.with(DType::kF64, {1}, {0.25}, Access::kUpdate);
      std::vector<double> scalars(kStepScalarCount, 1.0);
      scalars[kLossScale] = 1024;
      if (shift == 0) row.with(DType::kF64, {kStepScalarCount}, scalars);
      row.run<TypeParam>();
      const double most = shift == 0 ? 128 : 0.125;  // of a gradient
      row.expect_rounded(0, 32, most);
      EXPECT_NEAR(row.actual(2, 0), row.expected(2, 0), 32 * epsilon(DType::kF32));
      for (std::int64_t i = 0; i < 6; ++i)
        for (std::int64_t j = valid; j < columns; ++j)
          ASSERT_EQ(row.actual(0, static_cast<std::size_t>(i * columns + j)), 0.0);
    }
  }
}

// The second piece holds one column of the vocabulary and padding, the third only padding.
TYPED_TEST(CudaModelKernels, StatisticsOfPiecesAreThoseOfTheirColumns) {
  constexpr DType t = kTypeOf<TypeParam>;
  for (const std::int32_t piece : {0, 1, 2}) {
    RowCase row(KernelId::kCrossEntropyStatistics, {17, 0, 16 * piece});
    row.with(t, {6, 16}, random_values(96, 1, 8)).with(DType::kI32, kTargetShape, kTargets);
    row.out(DType::kF32, {6, 3}).template run<TypeParam>();
    if (piece == 2) {
      for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(row.actual(2, 3 * i), -INFINITY);
      for (std::size_t i = 0; i < 18; ++i) EXPECT_EQ(row.actual(2, i), row.expected(2, i));
    } else {
      row.expect_rounded(2, 32);
    }
  }
}

TYPED_TEST(CudaModelKernels, ParallelCrossEntropyMergesThePieces) {
  constexpr DType t = kTypeOf<TypeParam>;
  std::vector<double> statistics(2 * 6 * 3);
  for (std::size_t i = 0; i < statistics.size(); ++i)
    statistics[i] = std::vector{7.5, 3.0, 1.5}[i % 3] + 0.125 * static_cast<double>(i);
  for (const std::int32_t piece : {0, 1}) {
    RowCase row(KernelId::kCrossEntropyParallel, {17, 8, 16 * piece});
    row.with(t, {6, 16}, random_values(96, 1, 7), Access::kUpdate);
    row.with(DType::kI32, kTargetShape, kTargets).with(DType::kF32, {2, 6, 3}, statistics);
    row.with(DType::kF64, {1}, {0.25}, Access::kUpdate);
    row.run<TypeParam>();
    row.expect_rounded(0, 32, 0.125);
    EXPECT_NEAR(row.actual(3, 0), row.expected(3, 0), 64 * epsilon(DType::kF32));
  }
}

}  // namespace
}  // namespace zplan::exec::cuda
