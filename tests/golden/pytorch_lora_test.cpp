// LoRA [Hu21] on a tiny Llama and a tiny Mixtral: factors beside all products of their layers, of
// each expert its own, against PyTorch (tests/data/make_golden_lora.py).
#include <gtest/gtest.h>

#include "tests/golden/pytorch_golden.h"

namespace zplan {
namespace {

class PyTorchLora : public testing::TestWithParam<const char*> {};

TEST_P(PyTorchLora, LossesNormsAndFactorsAgreeOverFiveSteps) {
  const testing_support::PyTorchGolden golden{"golden_lora_tiny", GetParam()};
  golden.expect_lora();
}

TEST_P(PyTorchLora, OfExpertsAgreesToo) {
  const testing_support::PyTorchGolden golden{"golden_lora_mixtral_tiny", GetParam()};
  golden.expect_lora();
}

// [Dettmers23] with a base of nf4, of fp4, and of nf4 whose scales have 8 bits.
TEST_P(PyTorchLora, WithAFourBitBaseAgreesToo) {
  const testing_support::PyTorchGolden golden{"golden_qlora_tiny", GetParam()};
  golden.expect_qlora();
}

INSTANTIATE_TEST_SUITE_P(KernelSets, PyTorchLora, testing::ValuesIn(testing_support::kF64Sets));

}  // namespace
}  // namespace zplan
