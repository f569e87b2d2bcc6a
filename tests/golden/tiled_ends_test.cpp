// The ends of a model of hidden size 64k, as ZeRO-Infinity's 10T has it [Rajbhandari21 Table 1]:
// the gradient of its embedding, whole, is 50,304 x 65,536 elements of 2 bytes, 6.1 GiB; in tiles
// it is so many times less. Tolerance: the printed digit.
#include <gtest/gtest.h>

#include <cmath>

#include "planner/lower/lower.h"

namespace zplan {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

double embedding_gradient_gib(std::int32_t tiles) {
  Plan plan;
  plan.kernel_set = "cuda.sm70.fp16.unfused";
  plan.precision = default_recipe(plan.kernel_set);
  plan.loss_scaling = true;
  plan.parallel.dp = 512;
  plan.zero_stage = 3;
  plan.prefetch = 0;
  plan.gather = Gather::in_tiles(tiles);
  plan.batch = {.global_batch = 512, .micro_batch = 1, .sequence = 1024};
  const Job job = lower(plan, load_model("zero-infinity-10t"));
  for (const Buffer& buffer : job.classes[0].program.buffers)
    if (buffer.name == "full_grad.embedding")
      return static_cast<double>(buffer.size().value) / kGiB;
  return 0;
}

TEST(EmbeddingOf64k, HasSixGibibytesOfGradientUnlessItComesInTiles) {
  const double whole = embedding_gradient_gib(1);
  EXPECT_DOUBLE_EQ(std::round(10 * whole) / 10, 6.1);
  for (const int tiles : {2, 4, 16})
    EXPECT_NEAR(embedding_gradient_gib(tiles), whole / tiles, 1e-3 * whole) << tiles;
}

}  // namespace
}  // namespace zplan
