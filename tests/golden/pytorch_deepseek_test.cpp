// A tiny DeepSeek against PyTorch (pytorch_golden.h): latent attention, an MLP in the first layer
// and experts in the others, one of them shared, balanced by the auxiliary loss of sequences.
#include <gtest/gtest.h>

#include "tests/golden/pytorch_golden.h"

namespace zplan {
namespace {

class PyTorchDeepSeek : public testing::TestWithParam<const char*> {
 protected:
  const testing_support::PyTorchGolden golden_{"golden_deepseek_tiny", GetParam()};
};

TEST_P(PyTorchDeepSeek, InitialParametersAreEqual) { golden_.expect_initial_parameters(); }

TEST_P(PyTorchDeepSeek, LossesAndGradientNormsAgreeOverFiveSteps) {
  golden_.expect_losses_and_norms();
}

TEST_P(PyTorchDeepSeek, LossesAgreeWithATightClip) { golden_.expect_losses_with_a_tight_clip(); }

TEST_P(PyTorchDeepSeek, GradientsAgreeAtTheFirstAndTheLastStep) { golden_.expect_gradients(); }

TEST_P(PyTorchDeepSeek, FinalParametersAgree) { golden_.expect_final_parameters(); }

INSTANTIATE_TEST_SUITE_P(KernelSets, PyTorchDeepSeek, testing::ValuesIn(testing_support::kF64Sets));

}  // namespace
}  // namespace zplan
