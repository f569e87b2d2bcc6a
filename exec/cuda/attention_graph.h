// Causal attention as cuDNN's graph, and the largest piece of it that there is a plan for. Internal
// to exec/cuda; a test asks cuDNN for the plans of devices that are not there with it.
#pragma once

#include <cudnn_frontend.h>

#include <functional>
#include <memory>
#include <string>

#include "exec/cuda/cudnn_attention.h"

namespace zplan::exec::cuda {

enum AttentionOperand : std::int64_t { kQ = 1, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv };

struct AttentionGraph {
  AttentionShape piece;
  cudnn_frontend::graph::Graph graph;
  Bytes workspace{0};
};

// Chooses an engine for a graph and compiles it.
using GraphBuild = std::function<cudnn_frontend::error_t(cudnn_frontend::graph::Graph&)>;

// The largest piece that runs within the scratch; null where there is none, and `why_not` says so.
std::unique_ptr<AttentionGraph> plan_attention(const AttentionKey& key, Bytes scratch,
                                               const GraphBuild& build, std::string& why_not);

}  // namespace zplan::exec::cuda
