// The parts of a model that the roles of nodes name, one row each: enumerator and word. The order
// is that of the numbers of Part, which no file holds. Each reader defines ZPLAN_PART(Id, word) and
// includes this file, which undefines it.
#ifndef ZPLAN_PART
#error "define ZPLAN_PART(Id, word) before this file"
#endif

ZPLAN_PART(Batch, "batch")
ZPLAN_PART(Scalars, "scalars")
ZPLAN_PART(Embedding, "embedding")
ZPLAN_PART(Position, "position")
ZPLAN_PART(EmbeddingNorm, "embedding_norm")
ZPLAN_PART(EncoderTokens, "encoder_tokens")  // what an encoder before the decoder reads
ZPLAN_PART(EncoderPosition, "encoder_position")
ZPLAN_PART(EncoderNorm, "encoder_norm")
ZPLAN_PART(Encoded, "encoded")  // what the layers of the decoder read
ZPLAN_PART(Layer, "layer")      // the whole layer: its gather unit, its checkpoint
ZPLAN_PART(AttentionNorm, "attention_norm")
ZPLAN_PART(Qkv, "qkv")
ZPLAN_PART(QueryDown, "query_down")  // of latent attention: a product for queries alone
ZPLAN_PART(KeyDown, "key_down")
ZPLAN_PART(KeyRope, "key_rope")  // the part of keys that all heads share
ZPLAN_PART(QueryUp, "query_up")
ZPLAN_PART(KeyUp, "key_up")
ZPLAN_PART(QueryNorm, "query_norm")
ZPLAN_PART(KeyNorm, "key_norm")
ZPLAN_PART(Rope, "rope")
ZPLAN_PART(Attention, "attention")  // the fused kernel, or the product of scores and values
ZPLAN_PART(Keys, "keys")  // keys and values on their way around a ring, and their gradients
ZPLAN_PART(KeyGradients, "key_gradients")
ZPLAN_PART(Sinks, "sinks")
ZPLAN_PART(Scores, "scores")
ZPLAN_PART(ScoreCap, "score_cap")
ZPLAN_PART(Softmax, "softmax")
ZPLAN_PART(AttentionGate, "attention_gate")    // a product beside it
ZPLAN_PART(GatedAttention, "gated_attention")  // what attention gives, times its sigmoid
ZPLAN_PART(Projection, "projection")
ZPLAN_PART(AttentionPostNorm, "attention_post_norm")
ZPLAN_PART(AttentionResidual, "attention_residual")
ZPLAN_PART(CrossNorm, "cross_norm")  // of cross-attention: its core has the parts of attention
ZPLAN_PART(Cross, "cross")           // queries, keys and values on their way side by side
ZPLAN_PART(CrossQuery, "cross_query")
ZPLAN_PART(CrossKey, "cross_key")
ZPLAN_PART(CrossValue, "cross_value")
ZPLAN_PART(CrossProjection, "cross_projection")
ZPLAN_PART(CrossResidual, "cross_residual")
// A mixer with a state [Dao24], [Yang24b]: its first product, the convolution, the recurrence, the
// norm with a gate and the last product.
ZPLAN_PART(StateIn, "state_in")
ZPLAN_PART(Convolution, "convolution")
ZPLAN_PART(Scan, "scan")
ZPLAN_PART(GateNorm, "gate_norm")
ZPLAN_PART(StateOut, "state_out")
ZPLAN_PART(MlpNorm, "mlp_norm")
ZPLAN_PART(Fc1, "fc1")
ZPLAN_PART(Gelu, "gelu")  // or SwiGLU: whatever stands between the products of the MLP
ZPLAN_PART(Fc2, "fc2")
ZPLAN_PART(Router, "router")           // of experts: scores, choices and weights
ZPLAN_PART(Dispatch, "dispatch")       // rows of tokens on their way to experts
ZPLAN_PART(ExpertUp, "expert_up")      // the first products of experts
ZPLAN_PART(ExpertGate, "expert_gate")  // what stands between their products
ZPLAN_PART(ExpertDown, "expert_down")
ZPLAN_PART(Combine, "combine")  // rows on their way back, and their weighted sum
ZPLAN_PART(MlpPostNorm, "mlp_post_norm")
ZPLAN_PART(MlpResidual, "mlp_residual")
ZPLAN_PART(FinalNorm, "final_norm")
ZPLAN_PART(HeadDense, "head_dense")  // what comes between that norm and the output matrix
ZPLAN_PART(HeadActivation, "head_activation")
ZPLAN_PART(HeadNorm, "head_norm")
ZPLAN_PART(Head, "head")
ZPLAN_PART(HeadBias, "head_bias")
ZPLAN_PART(Loss, "loss")
// A module of multi-token prediction multiplies the embedding of the further token and what the
// module before it gives, each normalised, with a matrix.
ZPLAN_PART(MtpEmbedding, "mtp_embedding")
ZPLAN_PART(MtpHidden, "mtp_hidden")
ZPLAN_PART(MtpProjection, "mtp_projection")
ZPLAN_PART(Boundary, "boundary")  // layer inputs: between pipeline stages, to and from checkpoints
// What operators of a layer gave, together, to and from where it is kept.
ZPLAN_PART(KeptOnCpu, "kept_on_cpu")
ZPLAN_PART(KeptOnNvme, "kept_on_nvme")
ZPLAN_PART(GradientNorm, "gradient_norm")
// Parameters that every tensor parallel rank and tile holds alike: norms, row biases.
ZPLAN_PART(Shared, "shared")
// Factors of LoRA beside the matrices of experts, where replicas have other experts.
ZPLAN_PART(ExpertFactors, "expert_factors")
// Frozen parameters of a layer whose matrices are codes: norms, biases, the router.
ZPLAN_PART(Plain, "plain")

// These are of experts: the gate of the one that all tokens share, and the products before and
// behind those of fewer elements.
ZPLAN_PART(SharedGate, "shared_gate")
ZPLAN_PART(LatentIn, "latent_in")
ZPLAN_PART(LatentOut, "latent_out")

// An indexer beside latent attention [DeepSeek25b]: its products, the norm of its keys, rotations,
// its scores with the choice of keys, and what attention gives these.
ZPLAN_PART(IndexQuery, "index_query")
ZPLAN_PART(IndexKey, "index_key")
ZPLAN_PART(IndexWeights, "index_weights")
ZPLAN_PART(IndexNorm, "index_norm")
ZPLAN_PART(IndexQueryRope, "index_query_rope")
ZPLAN_PART(IndexKeyRope, "index_key_rope")
ZPLAN_PART(Index, "index")

// These are of Kimi delta attention: the products of the decays of channels and of the gate.
ZPLAN_PART(DecayDown, "decay_down")
ZPLAN_PART(DecayUp, "decay_up")
ZPLAN_PART(GateDown, "gate_down")
ZPLAN_PART(GateUp, "gate_up")

// These are of Mamba-1: the products that give short vectors, norms of these, and steps.
ZPLAN_PART(StepDown, "step_down")
ZPLAN_PART(StateInput, "state_input")
ZPLAN_PART(StateOutput, "state_output")
ZPLAN_PART(StepNorm, "step_norm")
ZPLAN_PART(StateInputNorm, "state_input_norm")
ZPLAN_PART(StateOutputNorm, "state_output_norm")
ZPLAN_PART(StepUp, "step_up")

// These are of a vision tower: what is before its layers, behind them, and its tokens in the text.
ZPLAN_PART(Patches, "patches")
ZPLAN_PART(PatchPosition, "patch_position")
ZPLAN_PART(PatchNorm, "patch_norm")
ZPLAN_PART(Projector, "projector")
ZPLAN_PART(ProjectorNorm, "projector_norm")
ZPLAN_PART(ProjectorActivation, "projector_activation")
ZPLAN_PART(ImageRows, "image_rows")

#undef ZPLAN_PART
