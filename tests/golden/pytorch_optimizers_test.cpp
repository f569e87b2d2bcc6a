// Other optimizers than AdamW on a tiny Llama against PyTorch: torch.optim.SGD and
// Adafactor, torch.optim.Muon in double precision, and 8-bit AdamW [Dettmers22] written with plain
// operations (tests/data/make_golden_optimizers.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/golden/pytorch_golden.h"

namespace zplan {
namespace {

class PyTorchOptimizer : public testing::TestWithParam<OptimizerKind> {};

TEST_P(PyTorchOptimizer, LossesAndFinalParametersAgree) {
  const testing_support::PyTorchGolden golden{"golden_optimizers_tiny", "cpu.f64"};
  golden.expect_training_with(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Kinds, PyTorchOptimizer,
                         testing::Values(OptimizerKind::kSgd, OptimizerKind::kSgdMomentum,
                                         OptimizerKind::kAdamW8Bit, OptimizerKind::kMuon,
                                         OptimizerKind::kAdafactor),
                         [](const auto& info) {
                           std::string word(name(info.param));
                           std::replace(word.begin(), word.end(), '-', '_');
                           return word;
                         });

}  // namespace
}  // namespace zplan
