// Multi-head latent attention [DeepSeek24 sec 2.1] in a tiny model with rotary positions, RMSNorm
// and SwiGLU, against PyTorch (pytorch_golden.h).
#include <gtest/gtest.h>

#include "tests/golden/pytorch_golden.h"

namespace zplan {
namespace {

class PyTorchLatentAttention : public testing::TestWithParam<const char*> {
 protected:
  const testing_support::PyTorchGolden golden_{"golden_mla_tiny", GetParam()};
};

TEST_P(PyTorchLatentAttention, InitialParametersAreEqual) { golden_.expect_initial_parameters(); }

TEST_P(PyTorchLatentAttention, LossesAndGradientNormsAgreeOverFiveSteps) {
  golden_.expect_losses_and_norms();
}

TEST_P(PyTorchLatentAttention, LossesAgreeWithATightClip) {
  golden_.expect_losses_with_a_tight_clip();
}

TEST_P(PyTorchLatentAttention, GradientsAgreeAtTheFirstAndTheLastStep) {
  golden_.expect_gradients();
}

TEST_P(PyTorchLatentAttention, FinalParametersAgree) { golden_.expect_final_parameters(); }

INSTANTIATE_TEST_SUITE_P(KernelSets, PyTorchLatentAttention,
                         testing::ValuesIn(testing_support::kF64Sets));

}  // namespace
}  // namespace zplan
