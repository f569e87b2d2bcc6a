// How operands are told to the libraries: row-major products as column-major ones, alignment of
// views, attention cut into pieces.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "exec/cuda/attention_pieces.h"
#include "exec/cuda/gemm_layout.h"

namespace zplan::exec::cuda {
namespace {

using Matrix = std::vector<double>;

Matrix random_matrix(std::int64_t elements, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> small(-9, 9);  // sums of products are exact
  Matrix values(static_cast<std::size_t>(elements));
  for (double& value : values) value = small(engine);
  return values;
}

double at(const ColumnMajorMatrix& m, const Matrix& x, std::int64_t row, std::int64_t column) {
  if (m.transposed) std::swap(row, column);
  EXPECT_LT(row, m.rows);
  EXPECT_LT(column, m.columns);
  return x[static_cast<std::size_t>(row + column * m.rows)];
}

// What a column-major library does with the description.
Matrix library_product(const ColumnMajorGemm& g, const Matrix& first, const Matrix& second) {
  const std::int64_t shared = g.first.transposed ? g.first.rows : g.first.columns;
  EXPECT_EQ(shared, g.second.transposed ? g.second.columns : g.second.rows);
  Matrix result(static_cast<std::size_t>(g.result.rows * g.result.columns));
  for (std::int64_t row = 0; row < g.result.rows; ++row)
    for (std::int64_t column = 0; column < g.result.columns; ++column)
      for (std::int64_t p = 0; p < shared; ++p)
        result[static_cast<std::size_t>(row + column * g.result.rows)] +=
            at(g.first, first, row, p) * at(g.second, second, p, column);
  return result;
}

// The definition: C[m, n] row by row.
Matrix plain_product(GemmOp op, std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a,
                     const Matrix& b) {
  Matrix c;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < k; ++p)
        sum += a[static_cast<std::size_t>(op == GemmOp::kTN ? p * m + i : i * k + p)] *
               b[static_cast<std::size_t>(op == GemmOp::kNT ? j * k + p : p * n + j)];
      c.push_back(sum);
    }
  }
  return c;
}

TEST(GemmLayout, IsTheRowMajorProduct) {
  const std::int64_t m = 3, n = 5, k = 7;
  const Matrix a = random_matrix(m * k, 1), b = random_matrix(k * n, 2);
  for (const GemmOp op : {GemmOp::kNN, GemmOp::kNT, GemmOp::kTN}) {
    const ColumnMajorGemm g = column_major(op, m, n, k);
    EXPECT_EQ(g.result.rows, n) << "rows of the result are the columns that a bias goes along";
    EXPECT_EQ(library_product(g, b, a), plain_product(op, m, n, k, a, b));
  }
}

TEST(GemmLayout, AnAuxiliaryMatrixHasColumnsOfWholeSteps) {
  for (const std::int64_t n : {8, 24, 4096}) {
    EXPECT_TRUE(takes_aux(column_major(GemmOp::kNN, 3, n, 5).result)) << n;
    EXPECT_TRUE(takes_aux(column_major(GemmOp::kNT, 3, n, 5).result)) << n;
  }
  for (const std::int64_t n : {1, 12, 4100})  // m and k do not count
    EXPECT_FALSE(takes_aux(column_major(GemmOp::kNN, 8, n, 16).result)) << n;
}

TEST(Alignment, IsWhatEveryInstanceOfAViewHas) {
  Program program;
  program.buffers.push_back({.name = "x", .slot_size = Bytes{1024}, .slots = 3});
  View view;
  EXPECT_EQ(alignment_of(program, view), 256u);
  view.offset = Bytes{512};
  EXPECT_EQ(alignment_of(program, view), 256u);
  view.offset = Bytes{96};
  EXPECT_EQ(alignment_of(program, view), 32u);
  view.strides[0] = 24;
  EXPECT_EQ(alignment_of(program, view), 8u);
  view.strides[1] = 6;
  EXPECT_EQ(alignment_of(program, view), 2u);
  program.buffers[0].slot_size = Bytes{1025};
  EXPECT_EQ(alignment_of(program, view), 1u);
}

TEST(AttentionPieces, GetSmallerAndCoverEveryHeadOnce) {
  const AttentionShape whole{6, 10, 12, 4, 8, 6};
  const std::vector<AttentionShape> pieces = pieces_of(whole);
  ASSERT_EQ(pieces.front(), whole);
  EXPECT_EQ(pieces.back(), (AttentionShape{1, 10, 3, 1, 8, 6}));
  for (std::size_t i = 1; i < pieces.size(); ++i)
    EXPECT_LT(pieces[i].batch * pieces[i].heads, pieces[i - 1].batch * pieces[i - 1].heads);
  for (const AttentionShape& piece : pieces) {
    EXPECT_EQ(piece.group(), whole.group());
    std::vector<int> queries(static_cast<std::size_t>(whole.batch * whole.heads));
    std::vector<int> keys(static_cast<std::size_t>(whole.batch * whole.kv_heads));
    for (std::int64_t b = 0; b < whole.batch; b += piece.batch) {
      for (std::int64_t g = 0; g < whole.kv_heads; g += piece.kv_heads) {
        const std::int64_t rows = 10 * (16 * 8 + 4 * 6);  // s c elements of qkv per sequence
        const AttentionOffsets offset = offsets_of(whole, b, g);
        EXPECT_EQ(offset.query, b * rows + g * 3 * 8);
        EXPECT_EQ(offset.key, b * rows + (12 + g) * 8);
        EXPECT_EQ(offset.value, b * rows + 16 * 8 + g * 6);
        EXPECT_EQ(offset.out, b * 10 * 12 * 6 + g * 3 * 6);
        EXPECT_EQ(offset.lse, (b * 12 + g * 3) * 10);
        for (std::int64_t i = 0; i < piece.batch; ++i) {
          for (std::int64_t h = 0; h < piece.heads; ++h)
            ++queries[static_cast<std::size_t>((b + i) * whole.heads + g * 3 + h)];
          for (std::int64_t h = 0; h < piece.kv_heads; ++h)
            ++keys[static_cast<std::size_t>((b + i) * whole.kv_heads + g + h)];
        }
      }
    }
    EXPECT_EQ(std::count(queries.begin(), queries.end(), 1), std::ssize(queries));
    EXPECT_EQ(std::count(keys.begin(), keys.end(), 1), std::ssize(keys));
  }
}

}  // namespace
}  // namespace zplan::exec::cuda
