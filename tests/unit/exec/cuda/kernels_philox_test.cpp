// Random words and random rounding of the CUDA kernels: the same bits as on the CPU.
#include "tests/support/launch_on_host.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "exec/cpu/kernels/half.h"
#include "exec/cuda/kernels/philox.cuh"
#include "planner/core/philox.h"

namespace zplan::exec::cuda {
namespace {

TEST(CudaPhilox, PhiloxGivesTheWordsOfThePlanner) {
  for (std::uint32_t i = 0; i < 100; ++i) {
    const PhiloxWords words = philox({{i, ~i, i * i, 0x80000000u + i}}, 3 * i, 0xffffffffu - i);
    const PhiloxCounter expected =
        philox4x32({i, ~i, i * i, 0x80000000u + i}, {3 * i, 0xffffffffu - i});
    for (std::size_t k = 0; k < 4; ++k) ASSERT_EQ(words.at[k], expected[k]);
  }
}

template <typename Device, typename Host>
void expect_same_rounding() {
  const float values[] = {0.0f,     1.0f,      1.0001f, -3.14159f, 65519.0f, 1e-7f,
                          -6.1e-5f, 3.389e38f, 1e-40f,  INFINITY,  -INFINITY};
  for (const float value : values)
    for (const std::uint32_t random : {0u, 1u, 0x7fffu, 0x8000u, 0xffffu, 0x12345678u})
      ASSERT_EQ(widen(round_stochastically<Device>(value, random)),
                static_cast<float>(cpu::round_stochastically<Host>(value, random)))
          << value << ' ' << random;
}

TEST(CudaPhilox, RandomRoundingIsThatOfTheCpu) {
  expect_same_rounding<__nv_bfloat16, cpu::Bf16>();
  expect_same_rounding<__half, cpu::Fp16>();
}

}  // namespace
}  // namespace zplan::exec::cuda
