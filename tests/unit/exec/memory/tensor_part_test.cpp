#include "exec/memory/tensor_part.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace zplan::exec {
namespace {

// Global element of every local one; TensorPart::kPadding where there is none.
std::vector<std::int64_t> elements_of(const Tensor& tensor, std::int64_t piece,
                                      std::int64_t pieces) {
  const TensorPart part(tensor, piece, pieces);
  std::vector<std::int64_t> globals(static_cast<std::size_t>(part.elements()),
                                    TensorPart::kPadding);
  part.for_runs(0, part.elements(), [&](std::int64_t local, const TensorPart::Run& run) {
    std::iota(globals.begin() + local, globals.begin() + local + run.length, run.global);
  });
  return globals;
}

using Elements = std::vector<std::int64_t>;

TEST(TensorPart, OfAWholeTensorIsTheTensor) {
  const Tensor tensor{.name = "w", .shape = {2, 3}};
  for (std::int64_t piece : {0, 1}) {
    EXPECT_EQ(elements_of(tensor, piece, 2), (Elements{0, 1, 2, 3, 4, 5}));
  }
}

TEST(TensorPart, OfATensorOfExpertsIsThatOfTheRanksOwn) {
  const Tensor tensor{.name = "w", .shape = {2, 3}, .blocks = 2};
  for (std::int64_t piece : {0, 1}) {
    EXPECT_EQ(elements_of(tensor, piece, 4), (Elements{0, 1, 2}));
    EXPECT_EQ(elements_of(tensor, 2 + piece, 4), (Elements{3, 4, 5}));
  }
}

TEST(TensorPart, OfRowsIsABlockOfThem) {
  const Tensor tensor{.name = "w", .shape = {4, 3}, .split = {Split::Kind::kRows, {}}};
  EXPECT_EQ(elements_of(tensor, 0, 2), (Elements{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(elements_of(tensor, 1, 2), (Elements{6, 7, 8, 9, 10, 11}));
  const Tensor vector{.name = "b", .shape = {4}, .split = {Split::Kind::kRows, {}}};
  EXPECT_EQ(elements_of(vector, 1, 2), (Elements{2, 3}));
}

TEST(TensorPart, OfPaddedRowsEndsWithTheTensor) {
  const Tensor tensor{
      .name = "wte", .shape = {5, 2}, .split = {Split::Kind::kRows, {}}, .piece_rows = 4};
  EXPECT_EQ(elements_of(tensor, 0, 2), (Elements{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(elements_of(tensor, 1, 2), (Elements{8, 9, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(elements_of(tensor, 2, 3), (Elements(8, -1)));
}

TEST(TensorPart, OfColumnsHasItsPartOfEachSegment) {
  // Query of 4 columns, key and value of 2.
  const Tensor tensor{.name = "qkv", .shape = {2, 8}, .split = {Split::Kind::kColumns, {4, 2, 2}}};
  EXPECT_EQ(elements_of(tensor, 0, 2), (Elements{0, 1, 4, 6, 8, 9, 12, 14}));
  EXPECT_EQ(elements_of(tensor, 1, 2), (Elements{2, 3, 5, 7, 10, 11, 13, 15}));
  const Tensor bias{.name = "b", .shape = {8}, .split = {Split::Kind::kColumns, {4, 2, 2}}};
  EXPECT_EQ(elements_of(bias, 1, 2), (Elements{2, 3, 5, 7}));
}

TEST(TensorPart, RunsBeginAndEndWhereTheyAreAskedTo) {
  const Tensor tensor{.name = "w", .shape = {3, 4}, .split = {Split::Kind::kColumns, {4}}};
  const TensorPart part(tensor, 1, 2);  // 2 3 | 6 7 | 10 11
  Elements seen;
  part.for_runs(1, 5, [&](std::int64_t local, const TensorPart::Run& run) {
    for (std::int64_t i = 0; i < run.length; ++i) {
      EXPECT_EQ(local + i, std::ssize(seen) + 1);
      seen.push_back(run.global + i);
    }
  });
  EXPECT_EQ(seen, (Elements{3, 6, 7, 10}));
}

}  // namespace
}  // namespace zplan::exec
