// A tiny Qwen3 [Yang25]: a Llama whose queries and keys are normalised by head, with a head size of
// its own, against PyTorch (pytorch_golden.h).
#include <gtest/gtest.h>

#include "tests/golden/pytorch_golden.h"

namespace zplan {
namespace {

class PyTorchQwen3 : public testing::TestWithParam<const char*> {
 protected:
  const testing_support::PyTorchGolden golden_{"golden_qwen3_tiny", GetParam()};
};

TEST_P(PyTorchQwen3, InitialParametersAreEqual) { golden_.expect_initial_parameters(); }

TEST_P(PyTorchQwen3, LossesAndGradientNormsAgreeOverFiveSteps) {
  golden_.expect_losses_and_norms();
}

TEST_P(PyTorchQwen3, LossesAgreeWithATightClip) { golden_.expect_losses_with_a_tight_clip(); }

TEST_P(PyTorchQwen3, GradientsAgreeAtTheFirstAndTheLastStep) { golden_.expect_gradients(); }

TEST_P(PyTorchQwen3, FinalParametersAgree) { golden_.expect_final_parameters(); }

INSTANTIATE_TEST_SUITE_P(KernelSets, PyTorchQwen3, testing::ValuesIn(testing_support::kF64Sets));

}  // namespace
}  // namespace zplan
