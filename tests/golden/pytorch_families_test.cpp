// Tiny models of later families against PyTorch (pytorch_golden.h): Gemma 2, GPT-NeoX, BLOOM, one
// that sees both ways, BERT as published, a Llama with the attention of GPT-OSS, GPT-OSS, encoders
// with their decoders, as BlenderBot and T5, and experts in every second layer whose bias of the
// choice follows their loads [Wang24 Algorithm 1], as tests/data/golden_families.py,
// golden_gpt_oss.py, golden_blender.py, golden_t5.py, golden_bert.py and golden_balanced.py define
// them; OLMo 3, Command R7B, Phi, ModernBERT and one with the factors of Granite, as
// golden_dense.py does; experts of fewer elements beside a gated one that all tokens share, as
// golden_gated_experts.py does; hybrids with Mamba-2, gated delta nets, Kimi delta attention,
// Mamba-1, Mamba-2 beside attention, and gated short convolutions, as golden_mamba.py,
// golden_delta.py, golden_kimi.py, golden_jamba.py, golden_falcon.py and golden_lfm2.py do; a Llama
// with a vision tower, as golden_vision.py does.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/golden/pytorch_golden.h"

namespace zplan {
namespace {

class PyTorchFamily : public testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  const testing_support::PyTorchGolden golden_{std::get<0>(GetParam()), std::get<1>(GetParam())};
};

TEST_P(PyTorchFamily, InitialParametersAreEqual) { golden_.expect_initial_parameters(); }

TEST_P(PyTorchFamily, LossesAndGradientNormsAgreeOverFiveSteps) {
  golden_.expect_losses_and_norms();
}

TEST_P(PyTorchFamily, LossesAgreeWithATightClip) { golden_.expect_losses_with_a_tight_clip(); }

TEST_P(PyTorchFamily, GradientsAgreeAtTheFirstAndTheLastStep) { golden_.expect_gradients(); }

TEST_P(PyTorchFamily, FinalParametersAgree) { golden_.expect_final_parameters(); }

INSTANTIATE_TEST_SUITE_P(
    Files, PyTorchFamily,
    testing::Combine(testing::Values("golden_gemma_tiny", "golden_neox_tiny", "golden_bloom_tiny",
                                     "golden_bert_tiny", "golden_sinks_tiny", "golden_gpt_oss_tiny",
                                     "golden_blender_tiny", "golden_t5_tiny",
                                     "golden_bert_published_tiny", "golden_balanced_tiny",
                                     "golden_olmo3_tiny", "golden_cohere2_tiny",
                                     "golden_granite_tiny", "golden_phi_tiny",
                                     "golden_modernbert_tiny", "golden_gated_experts_tiny",
                                     "golden_hybrid_tiny", "golden_delta_tiny", "golden_kimi_tiny",
                                     "golden_jamba_tiny", "golden_falcon_tiny", "golden_lfm2_tiny",
                                     "golden_vision_tiny"),
                     testing::ValuesIn(testing_support::kF64Sets)));

}  // namespace
}  // namespace zplan
