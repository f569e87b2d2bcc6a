// Published training runs, one record a line: the reader of schema "zplan.runs/1" (JSON lines).
//
// Every record has exactly the keys below, in any order, but for `software` and four members of it,
// which may be left out; null means that it does not apply or that the source does not say it, and
// is allowed wherever a member is optional. A record that breaks this, or whose counts contradict
// each other, is left out and told in one line,
//   file:line:column: /pointer: expected ..., got ...
// and the others are read all the same. Blank lines are skipped.
// Units: sequences, tokens, bytes per parameter, GB/s (1e9 bytes per second), seconds, GiB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

struct RunHardware {
  std::string device;                 // ids of the hardware catalogue
  std::optional<std::string> system;  // none: the source does not identify it
  std::int32_t gpus_per_node = 1, nodes = 1, gpus = 1;
  std::optional<double> scale_out_gb_s_per_gpu;  // between nodes, per direction
};

struct RunModel {
  std::string name, family;
  std::int64_t layers = 0, hidden = 0;
  std::optional<std::int64_t> heads, kv_heads, head_dim;
  std::optional<std::int64_t> ffn;  // of the dense MLP
  bool gated_ffn = false;           // three matrices
  std::int64_t vocab = 0, seq = 0;
  std::optional<bool> tied_embeddings;
  std::optional<std::string> position, norm;  // "learned", "rope" ..; "layernorm", "rmsnorm"
  std::optional<bool> dropout;
  std::optional<std::int64_t> experts, top_k, expert_ffn, shared_expert_ffn, moe_layers;
  std::optional<double> params;  // as printed
};

struct RunParallel {
  std::int32_t tp = 1, pp = 1, dp = 1;
  std::optional<bool> sequence_parallel;
  std::optional<std::int32_t> interleave, cp, ep, zero_stage, shard_group;
  std::optional<bool> overlap_grad_reduce, overlap_param_gather, tp_comm_overlap;
  std::optional<std::string> schedule;  // "1f1b", "interleaved", "gpipe"
};

struct RunOffload {
  std::string params = "gpu", grads = "gpu", optimizer = "gpu", activations = "gpu";
  bool delayed_update = false;
};

struct RunPrecision {
  std::string compute;  // "fp16", "bf16", "fp8" ..
  std::optional<double> param_bytes, grad_bytes, optimizer_bytes_per_param;
};

// How the software launches its kernels, whichever it is.
struct RunSoftware {
  std::optional<bool> cuda_graphs;  // of whole steps or of layers, forward and backward
  std::optional<bool> compiled;     // layers through torch.compile
  // These may be left out: two as members of StackRates (hwprofiles/stack.h), whether operands in
  // fp8 have a scale for each row, and whether the loss stands outside of what is compiled.
  std::optional<bool> foreach_update, dense_mask, fp8_rows, eager_loss;
};

struct RunMeasured {
  std::optional<double> step_time_s;
  // "measured", "from_tokens_per_s", "from_tflops" ..; "simulated": no machine ran it.
  std::optional<std::string> step_time_kind;
  std::optional<double> memory_gib;
  std::optional<std::string> memory_kind;  // "allocator_peak", "reserved_peak", "nvidia_smi"
  bool out_of_memory = false;
};

struct RunRecord {
  int line = 0;
  std::string id, group, source;
  RunHardware hardware;
  RunModel model;
  RunParallel parallel;
  RunOffload offload;
  RunPrecision precision;
  RunSoftware software;
  std::optional<std::int64_t> micro_batch, global_batch;
  std::optional<bool> flash_attention;
  std::optional<std::string> recompute, recompute_detail;  // "none", "selective", "full"; words
  RunMeasured measured;
};

struct RunFile {
  std::vector<RunRecord> runs;         // in file order
  std::vector<std::string> malformed;  // a line per record left out
};

// Throws Error when the file cannot be read.
RunFile read_runs(const std::string& path);
// `name` stands for the text in messages.
RunFile parse_runs(std::string_view text, const std::string& name);

}  // namespace zplan
