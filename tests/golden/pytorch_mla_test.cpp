// Multi-head latent attention [DeepSeek24 sec 2.1], to all keys and to those that an indexer
// chooses [DeepSeek25b sec 2.1], in tiny models with rotary positions, RMSNorm and SwiGLU, against
// PyTorch (pytorch_golden.h).
#include <gtest/gtest.h>

#include <tuple>

#include "tests/golden/pytorch_golden.h"

namespace zplan {
namespace {

class PyTorchLatentAttention : public testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  const testing_support::PyTorchGolden golden_{std::get<0>(GetParam()), std::get<1>(GetParam())};
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

INSTANTIATE_TEST_SUITE_P(Files, PyTorchLatentAttention,
                         testing::Combine(testing::Values("golden_mla_tiny", "golden_dsa_tiny"),
                                          testing::ValuesIn(testing_support::kF64Sets)));

}  // namespace
}  // namespace zplan
