// A tiny Mixtral, two of four experts for each token, against PyTorch (pytorch_golden.h).
#include <gtest/gtest.h>

#include "tests/golden/pytorch_golden.h"

namespace zplan {
namespace {

class PyTorchMixtral : public testing::TestWithParam<const char*> {
 protected:
  const testing_support::PyTorchGolden golden_{"golden_mixtral_tiny", GetParam()};
};

TEST_P(PyTorchMixtral, InitialParametersAreEqual) { golden_.expect_initial_parameters(); }

TEST_P(PyTorchMixtral, LossesAndGradientNormsAgreeOverFiveSteps) {
  golden_.expect_losses_and_norms();
}

TEST_P(PyTorchMixtral, LossesAgreeWithATightClip) { golden_.expect_losses_with_a_tight_clip(); }

TEST_P(PyTorchMixtral, GradientsAgreeAtTheFirstAndTheLastStep) { golden_.expect_gradients(); }

TEST_P(PyTorchMixtral, FinalParametersAgree) { golden_.expect_final_parameters(); }

INSTANTIATE_TEST_SUITE_P(KernelSets, PyTorchMixtral, testing::ValuesIn(testing_support::kF64Sets));

}  // namespace
}  // namespace zplan
