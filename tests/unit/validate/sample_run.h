// A record of zplan.runs/1 that is in order: a GPT of 24 layers on one node of 8 A100. Tests change
// parts of its text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "planner/validate/runs.h"

namespace zplan {

inline constexpr const char* kSampleRun =
    R"({"id": "a/1", "group": "a", "source": "Somebody, Fast training, 2023", )"
    R"("confidence": "stored", "recalled": [], )"
    R"("hardware": {"device": "a100_sxm4_80gb", "system": null, "gpus_per_node": 8, "nodes": 1, )"
    R"("gpus": 8, "scale_out_gb_s_per_gpu": null}, )"
    R"("model": {"name": "GPT", "family": "gpt", "layers": 24, "hidden": 2048, "heads": 16, )"
    R"("kv_heads": 16, "head_dim": 128, "ffn": 8192, "gated_ffn": false, "vocab": 51200, )"
    R"("seq": 1024, "tied_embeddings": true, "position": "learned", "norm": "layernorm", )"
    R"("dropout": null, "experts": null, "top_k": null, "expert_ffn": null, )"
    R"("shared_expert_ffn": null, "moe_layers": null, "params": 1.3e9}, )"
    R"("parallel": {"tp": 2, "sequence_parallel": false, "pp": 1, "interleave": 1, "cp": 1, )"
    R"("ep": 1, "dp": 4, "zero_stage": 0, "shard_group": null, "overlap_grad_reduce": false, )"
    R"("overlap_param_gather": null, "tp_comm_overlap": null, "schedule": null}, )"
    R"("offload": {"params": "gpu", "grads": "gpu", "optimizer": "gpu", "activations": "gpu", )"
    R"("delayed_update": false}, )"
    R"("precision": {"compute": "bf16", "param_bytes": null, "grad_bytes": null, )"
    R"("optimizer_bytes_per_param": null}, )"
    R"("micro_batch": 4, "global_batch": 64, "flash_attention": false, "recompute": "full", )"
    R"("recompute_detail": null, )"
    R"("measured": {"step_time_s": 1.5, "step_time_kind": "measured", )"
    R"("printed": {"value": 1.5, "unit": "s"}, "memory_gib": null, "memory_kind": null, )"
    R"("out_of_memory": false}, "note": null})";

// The text with `from`, which it has, replaced.
inline std::string changed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// The sample with changes, read.
inline RunRecord sample_run(
    std::initializer_list<std::pair<const char*, const char*>> changes = {}) {
  std::string text = kSampleRun;
  for (const auto& [from, to] : changes) text = changed(text, from, to);
  RunFile file = parse_runs(text, "sample");
  EXPECT_TRUE(file.malformed.empty()) << file.malformed.front();
  return file.runs.empty() ? RunRecord{} : file.runs.front();
}

}  // namespace zplan
