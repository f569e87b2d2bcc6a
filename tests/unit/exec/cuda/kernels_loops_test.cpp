// Kernels whose grid is smaller than their work give the bits of a grid that covers it: every
// kernel loops over what its blocks do not reach at once.
#include "tests/support/launch_on_host.h"
#include "tests/support/sanitized.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "exec/cuda/kernels/column_sums.cuh"
#include "exec/cuda/kernels/cross_entropy.cuh"
#include "exec/cuda/kernels/elementwise.cuh"
#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/norm.cuh"

namespace zplan::exec::cuda {
namespace {

std::vector<float> random_floats(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-2, 2);
  std::vector<float> values(n);
  for (float& value : values) value = uniform(engine);
  return values;
}

TEST(CudaLoops, ElementsBeyondTheGrid) {
  constexpr std::int64_t n = 1003;
  const std::vector<float> x = random_floats(n, 1);
  const auto run = [&](Grid grid) {
    std::vector<float> y(n, 77);
    launch(nullptr, "gelu_forward", grid, gelu_forward_kernel<float, 4>, y.data(), x.data(), n,
           ActivationFunction::kGeluTanh);
    return y;
  };
  EXPECT_EQ(run({2, 32}), run({8, 32}));
}

TEST(CudaLoops, RowsBeyondTheGrid) {
  constexpr std::int64_t rows = 7, h = 200;
  const std::vector<float> x = random_floats(rows * h, 1), gain = random_floats(h, 2);
  const auto run = [&](std::int64_t blocks) {
    std::vector<float> y(rows * h, 77), mean(rows), rstd(rows);
    const NormForward<float> args{y.data(), mean.data(), rstd.data(),
                                  x.data(), gain.data(), gain.data()};
    launch(nullptr, "layernorm_forward", Grid{blocks, 64}, norm_forward_kernel<true, float, 1>,
           args, NormShape{rows, h});
    y.insert(y.end(), mean.begin(), mean.end());
    y.insert(y.end(), rstd.begin(), rstd.end());
    return y;
  };
  EXPECT_EQ(run(2), run(rows));
}

TEST(CudaLoops, RowsOfSumsBeyondTheGrid) {
  constexpr std::int64_t rows = 7, h = 200;
  const std::vector<float> x = random_floats(rows * h, 1), y = random_floats(rows * h, 2);
  const std::vector<float> gain = random_floats(h, 3);
  const auto run = [&](std::int64_t blocks) {
    std::vector<float> sum(rows * h, 77), out(rows * h, 77), mean(rows), rstd(rows);
    const ResidualSum<float> residual{sum.data(), x.data(), y.data(), gain.data()};
    const NormForward<float> norm{out.data(), mean.data(), rstd.data(),
                                  sum.data(), gain.data(), gain.data()};
    launch(nullptr, "residual_layernorm_forward", Grid{blocks, 64},
           residual_norm_forward_kernel<true, float, 1>, residual, norm, NormShape{rows, h});
    out.insert(out.end(), sum.begin(), sum.end());
    out.insert(out.end(), mean.begin(), mean.end());
    out.insert(out.end(), rstd.begin(), rstd.end());
    return out;
  };
  EXPECT_EQ(run(2), run(rows));
}

TEST(CudaLoops, LossesOfRowsBeyondTheGridAreAddedByTheirBlock) {
  constexpr std::int64_t rows = 6, columns = 40;
  const std::vector<std::int32_t> tokens{0, 1, 2, 3, 4, 5, 6};
  const std::vector<float> x = random_floats(rows * columns, 1);
  const auto run = [&](std::int64_t blocks, double* loss) {
    std::vector<float> logits = x;
    std::vector<double> partials(static_cast<std::size_t>(blocks));
    launch(nullptr, "cross_entropy", Grid{blocks, 32},
           cross_entropy_gradient_kernel<false, float, 4>, logits.data(), tokens.data(),
           static_cast<const float*>(nullptr), 0, LossScaling{nullptr, partials.data(), nullptr, 1},
           CrossEntropyShape{1, rows, columns, columns, 0});
    for (const double partial : partials) *loss += partial;
    return logits;
  };
  double few = 0, all = 0;
  EXPECT_EQ(run(2, &few), run(rows, &all));
  EXPECT_NEAR(few, all, 1e-14 * all);
}

TEST(CudaLoops, TilesBeyondTheGrid) {
  constexpr std::int64_t rows = 21, columns = 100;
  const std::vector<float> in = random_floats(rows * columns, 1);
  const auto run = [&](std::int64_t blocks) {
    std::vector<float> sums(3 * columns, 77);
    launch(nullptr, "column_sums", Grid{blocks, kTileWarps * kWarp}, column_pieces_kernel<float, 1>,
           sums.data(), in.data(), rows, columns, Pieces{8, 3});
    return sums;
  };
  EXPECT_EQ(run(5), run(12));
}

// A fault of the kernel that the host shows.
TEST(CudaOnHostDeathTest, AThreadThatMissesABarrierEndsTheProcess) {
  if (testing_support::kThreadSanitized) GTEST_SKIP() << "a copy of the process has no fibers";
  const auto kernel = [](int missing) {
    if (static_cast<int>(threadIdx.x) != missing) __syncthreads();
  };
  EXPECT_DEATH(cuda_on_host::run(1, 64, [&] { kernel(5); }), "fibers wait for each other");
}

}  // namespace
}  // namespace zplan::exec::cuda
