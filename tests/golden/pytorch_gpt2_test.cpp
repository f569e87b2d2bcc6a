// A tiny GPT-2 [Radford19], against PyTorch (pytorch_golden.h).
#include <gtest/gtest.h>

#include "tests/golden/pytorch_golden.h"

namespace zplan {
namespace {

class PyTorchGpt2 : public testing::TestWithParam<const char*> {
 protected:
  const testing_support::PyTorchGolden golden_{"golden_gpt2_tiny", GetParam()};
};

TEST_P(PyTorchGpt2, InitialParametersAreEqual) { golden_.expect_initial_parameters(); }

TEST_P(PyTorchGpt2, LossesAndGradientNormsAgreeOverFiveSteps) { golden_.expect_losses_and_norms(); }

TEST_P(PyTorchGpt2, LossesAgreeWithATightClip) { golden_.expect_losses_with_a_tight_clip(); }

TEST_P(PyTorchGpt2, GradientsAgreeAtTheFirstAndTheLastStep) { golden_.expect_gradients(); }

TEST_P(PyTorchGpt2, FinalParametersAgree) { golden_.expect_final_parameters(); }

INSTANTIATE_TEST_SUITE_P(KernelSets, PyTorchGpt2, testing::ValuesIn(testing_support::kF64Sets));

}  // namespace
}  // namespace zplan
