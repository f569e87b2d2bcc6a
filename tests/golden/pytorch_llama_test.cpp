// A tiny Llama [Touvron23]: rotary positions, RMSNorm, SwiGLU, two key-value heads for four query
// heads, an output head of its own, against PyTorch (pytorch_golden.h).
#include <gtest/gtest.h>

#include "tests/golden/pytorch_golden.h"

namespace zplan {
namespace {

class PyTorchLlama : public testing::TestWithParam<const char*> {
 protected:
  const testing_support::PyTorchGolden golden_{"golden_llama_tiny", GetParam()};
};

TEST_P(PyTorchLlama, InitialParametersAreEqual) { golden_.expect_initial_parameters(); }

TEST_P(PyTorchLlama, LossesAndGradientNormsAgreeOverFiveSteps) {
  golden_.expect_losses_and_norms();
}

TEST_P(PyTorchLlama, LossesAgreeWithATightClip) { golden_.expect_losses_with_a_tight_clip(); }

TEST_P(PyTorchLlama, GradientsAgreeAtTheFirstAndTheLastStep) { golden_.expect_gradients(); }

TEST_P(PyTorchLlama, FinalParametersAgree) { golden_.expect_final_parameters(); }

INSTANTIATE_TEST_SUITE_P(KernelSets, PyTorchLlama, testing::ValuesIn(testing_support::kF64Sets));

}  // namespace
}  // namespace zplan
