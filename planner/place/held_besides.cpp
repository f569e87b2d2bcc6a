#include "planner/place/held_besides.h"

#include <array>

namespace zplan {
namespace {

using enum Holder;

constexpr std::array<HolderRow, kHolderCount> kHolders{{
    {kJob, "job", "buffers of the Job"},
    {kAlways, "always", "libraries and buckets, always"},
    {kLoss, "loss", "logits of the loss"},
    {kResidual, "residual", "what the MLP's norm reads"},
    {kAttention, "attention", "what attention gives"},
    {kUpdate, "update", "norm and update"},
    {kRmsNorm, "rms_norm", "copies of what RMSNorms read and give, for backward"},
    {kGated, "gated", "what gates of MLPs give, for backward"},
    {kGelu, "gelu", "what the parts of GELU give, for backward"},
    {kScores, "scores", "softmax of attention in fp32, for backward"},
    {kRepeated, "repeated_keys", "keys and values, repeated for the queries that share them"},
    {kPasses, "score_gradients", "gradients of softmax in fp32"},
    {kFusedQkv, "fused_qkv", "queries and keys before rotation, beside the values"},
    {kEnds, "ends", "embedding and head, gathered for the whole step"},
    {kGather, "gather", "what a layer's parameters come into"},
    {kExperts, "experts", "rows of experts"},
}};

}  // namespace

std::span<const HolderRow> holders() { return kHolders; }

}  // namespace zplan
