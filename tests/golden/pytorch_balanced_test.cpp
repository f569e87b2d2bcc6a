// A tiny decoder with experts in every second layer and a bias of their choice that follows their
// loads, against PyTorch (pytorch_golden.h): biases move by the definition [Wang24 Algorithm 1].
#include <gtest/gtest.h>

#include "tests/golden/pytorch_golden.h"

namespace zplan {
namespace {

class PyTorchBalanced : public testing::TestWithParam<const char*> {
 protected:
  const testing_support::PyTorchGolden golden_{"golden_balanced_tiny", GetParam()};
};

TEST_P(PyTorchBalanced, InitialParametersAreEqual) { golden_.expect_initial_parameters(); }

TEST_P(PyTorchBalanced, LossesAndGradientNormsAgreeOverFiveSteps) {
  golden_.expect_losses_and_norms();
}

TEST_P(PyTorchBalanced, LossesAgreeWithATightClip) { golden_.expect_losses_with_a_tight_clip(); }

TEST_P(PyTorchBalanced, GradientsAgreeAtTheFirstAndTheLastStep) { golden_.expect_gradients(); }

TEST_P(PyTorchBalanced, FinalParametersAgree) { golden_.expect_final_parameters(); }

INSTANTIATE_TEST_SUITE_P(KernelSets, PyTorchBalanced, testing::ValuesIn(testing_support::kF64Sets));

}  // namespace
}  // namespace zplan
