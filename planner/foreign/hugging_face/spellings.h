// Keys of config.json that are both read and written, a thing each with the names that versions of
// transformers and families have for it. Which of them a family has, its class says
// (embedded_defaults.h); a key that is read alone stands with its reader.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string_view>

namespace zplan {

// Words in an order, a few.
class Names {
 public:
  constexpr Names() = default;
  constexpr Names(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) names_[count_++] = name;
  }
  constexpr const std::string_view* begin() const { return names_.data(); }
  constexpr const std::string_view* end() const { return names_.data() + count_; }
  constexpr bool empty() const { return count_ == 0; }

 private:
  static constexpr std::size_t kMost = 32;
  std::array<std::string_view, kMost> names_{};
  std::size_t count_ = 0;
};

namespace spelt {

inline constexpr Names kLayers{"num_hidden_layers", "n_layer"};
inline constexpr Names kHidden{"hidden_size", "n_embd", "n_embed"};
inline constexpr Names kHeads{"num_attention_heads", "n_head"};
inline constexpr Names kKeyValueHeads{"num_key_value_heads"};
inline constexpr Names kMultiQuery{"multi_query"};
inline constexpr Names kFalconGroups{"num_kv_heads"};
inline constexpr Names kHeadSize{"head_dim"};
inline constexpr Names kVocabulary{"vocab_size"};
inline constexpr Names kTied{"tie_word_embeddings"};
inline constexpr Names kEpsilon{"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
                                "norm_epsilon", "norm_eps"};
inline constexpr Names kActivation{"hidden_activation", "hidden_act", "activation_function"};
inline constexpr Names kAttentionBias{"attention_bias"};
inline constexpr Names kMlpBias{"mlp_bias"};
inline constexpr Names kQkvBias{"use_qkv_bias"};
inline constexpr Names kOutputBias{"attention_out_bias"};
inline constexpr Names kUseBias{"use_bias"};
inline constexpr Names kParallelResidual{"use_parallel_residual"};
inline constexpr Names kSegments{"type_vocab_size"};

// Widths of an MLP.
inline constexpr Names kWidth{"intermediate_size"};
inline constexpr Names kInner{"n_inner"};
inline constexpr Names kOptWidth{"ffn_dim"};

// Tokens.
inline constexpr Names kLearned{"n_positions", "max_position_embeddings", "n_ctx"};
inline constexpr Names kMostTokens{"max_position_embeddings", "seq_length", "n_positions",
                                   "max_seq_len", "model_max_length"};

inline constexpr Names kTheta{"rope_theta", "rotary_emb_base", "global_rope_theta"};
inline constexpr Names kLocalTheta{"rope_local_base_freq", "local_rope_theta"};
inline constexpr Names kTurnedLayers{"no_rope_layers"};  // 1: with positions
inline constexpr Names kRotaryShare{"partial_rotary_factor", "rotary_pct"};
inline constexpr Names kRope{"rope_parameters", "rope_scaling"};
inline constexpr Names kWindow{"sliding_window", "sliding_window_size"};
inline constexpr Names kUsesWindow{"use_sliding_window"};
inline constexpr Names kBothWayWindow{"local_attention"};
inline constexpr Names kWindowTurn{"sliding_window_pattern"};
inline constexpr Names kLayerTypes{"layer_types"};
inline constexpr std::string_view kWithWindow = "sliding_attention";
inline constexpr std::string_view kWithoutWindow = "full_attention";

inline constexpr Names kDivisor{"query_pre_attn_scalar"};
inline constexpr Names kAttentionCap{"attn_logit_softcapping"};
inline constexpr Names kLogitCap{"final_logit_softcapping"};

inline constexpr Names kEmbeddingFactor{"embedding_multiplier"};
inline constexpr Names kAttentionFactor{"attention_multiplier"};
inline constexpr Names kResidualFactor{"residual_multiplier"};
inline constexpr Names kLogitDivisor{"logits_scaling"};
inline constexpr Names kLogitScale{"logit_scale"};

// Shares of what is dropped, of which a class has a few.
inline constexpr Names kDropout{"attention_dropout",   "attention_probs_dropout_prob",
                                "attn_pdrop",          "dropout",
                                "dropout_rate",        "embd_pdrop",
                                "embedding_dropout",   "hidden_dropout",
                                "hidden_dropout_prob", "mlp_dropout",
                                "resid_pdrop",         "residual_dropout"};
inline constexpr std::string_view kActivationDropout = "activation_dropout";

// Latent attention.
inline constexpr Names kQueryRank{"q_lora_rank"};
inline constexpr Names kKeyValueRank{"kv_lora_rank"};
inline constexpr Names kNopeSize{"qk_nope_head_dim"};
inline constexpr Names kRopeSize{"qk_rope_head_dim"};
inline constexpr Names kValueSize{"v_head_dim"};
inline constexpr Names kIndexHeads{"index_n_heads"};
inline constexpr Names kIndexHeadSize{"index_head_dim"};
inline constexpr Names kIndexKeys{"index_topk"};

// Experts.
inline constexpr Names kExperts{"num_local_experts", "num_experts", "n_routed_experts"};
inline constexpr Names kPerToken{"num_experts_per_tok", "experts_per_token"};
inline constexpr Names kExpertWidth{"moe_intermediate_size"};
inline constexpr Names kShared{"n_shared_experts"};
inline constexpr Names kSharedWidth{"shared_intermediate_size"};
inline constexpr Names kFirstDense{"first_k_dense_replace"};
inline constexpr Names kDenseLayers{"mlp_only_layers"};
inline constexpr Names kSparseStep{"decoder_sparse_step"};
inline constexpr Names kInterleave{"interleave_moe_layer_step"};
inline constexpr Names kDenseWidth{"intermediate_size_mlp"};
inline constexpr Names kRenormalised{"norm_topk_prob"};
inline constexpr Names kScale{"routed_scaling_factor"};
inline constexpr Names kBalance{"router_aux_loss_coef", "aux_loss_alpha"};
inline constexpr Names kMethod{"topk_method"};
inline constexpr Names kGroups{"n_group"};
inline constexpr Names kGroupsPerToken{"topk_group"};
inline constexpr Names kLimit{"swiglu_limit"};

// Of T5.
inline constexpr Names kEncoderLayers{"num_layers"};
inline constexpr Names kDecoderLayers{"num_decoder_layers"};
inline constexpr Names kT5Hidden{"d_model"};
inline constexpr Names kT5Heads{"num_heads"};
inline constexpr Names kT5HeadSize{"d_kv"};
inline constexpr Names kT5Width{"d_ff"};
inline constexpr Names kT5Mlp{"feed_forward_proj"};
inline constexpr std::string_view kPlainMlp = "relu", kGatedMlp = "gated-gelu";
inline constexpr Names kBuckets{"relative_attention_num_buckets"};
inline constexpr Names kDistance{"relative_attention_max_distance"};

}  // namespace spelt
}  // namespace zplan
