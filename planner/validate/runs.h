// Published training runs, one record each: what a record can say, and the reader of files of them.
//
// Two forms, by record. "zplan.runs/2" has that tag in the key "schema"; its keys, with units and
// words, stand in one table (run_keys.h) from which reading, writing, `zplan schema zplan.runs/2`
// and `zplan runs --template` derive. A key that is absent, or null, is one that the source does
// not say. A record without the tag is "zplan.runs/1" (runs_first.h), whose words about
// recomputation and software become keys as it is read; `zplan runs --convert` writes it in the
// second form.
//
// A record that breaks its form, or whose counts contradict each other, is left out and reported in
// one line,
//   file:line:column: /pointer: expected ..., got ...
// and the others are read all the same. A record begins with a brace in the first column and may
// take several lines. Blank lines are skipped, and lines that begin with #.
// Units: sequences, tokens, bytes per parameter, GB/s (1e9 bytes per second), seconds, GiB.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
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
  std::optional<std::int32_t> nvlink_domain;     // GPUs that share the peer link
  std::optional<double> ports_per_gpu;           // of the network, of a node's GPUs each
};

// Multi-head latent attention [DeepSeek24 sec 2.1]; query_rank 0: queries have no latent. An
// indexer beside it chooses keys [DeepSeek25b sec 2.1].
struct RunLatent {
  std::optional<std::int64_t> query_rank, key_value_rank, nope_size, rope_size, value_size;
  std::optional<std::int64_t> index_heads, index_head_size, index_keys;
};

// This says what a model's experts are beside their counts and widths.
struct RunExpertModel {
  std::optional<std::int64_t> dense_layers, every, groups, groups_per_token;
  std::optional<std::string> scores;          // "softmax", "sigmoid"
  std::optional<std::string> load_balancing;  // the word of a loss, "bias", "none"
  std::optional<double> scale, balance, bias_rate;
  std::optional<bool> renormalised, selection_bias, shared_gate;
  std::optional<std::int64_t> latent;  // width that experts read and write; none: hidden
};

// A query sees the last `tokens` tokens only in turns of `window_layers` layers, and all before it
// in the `full_layers` behind them.
struct RunWindow {
  std::optional<std::int64_t> tokens, window_layers, full_layers;
};

// Mixers beside attention: a letter for each layer, sizes of Mamba-2, and of a gated delta net in
// all layers but every so-many-th.
struct RunMixers {
  std::optional<std::string> pattern, kind;
  std::optional<std::int64_t> heads, head_dim, groups, state, conv, chunk;
  std::optional<std::int64_t> every, key_heads, key_dim, value_heads, value_dim, linear_conv;
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
  std::optional<std::int64_t> mtp_layers;
  std::optional<double> params;  // as printed
  std::optional<std::int64_t> padded_vocab, rope_theta;
  std::optional<double> rotary_fraction;           // of a head's elements
  std::optional<double> attention_cap, logit_cap;  // c of c tanh(x / c)
  std::optional<std::string> biases, activation, parallel_residual;
  std::optional<bool> qk_norm, attention_sinks, post_norms, embedding_norm, scaled_embedding;
  std::optional<bool> attention_gate;
  RunMixers mixers;
  RunLatent latent;
  RunExpertModel routed;
  RunWindow window;
};

struct RunParallel {
  std::int32_t tp = 1, pp = 1, dp = 1;
  std::optional<bool> sequence_parallel;
  std::optional<std::int32_t> interleave, flushes, cp, ep, zero_stage, shard_group;
  std::optional<bool> overlap_grad_reduce, overlap_param_gather, tp_comm_overlap, overlap_update;
  std::optional<bool> overlap_exchange, overlap_weight_gradients, overlap_shared_expert;
  std::optional<std::string> schedule;                    // "1f1b", "interleaved", "gpipe"
  std::optional<std::vector<std::int32_t>> stage_layers;  // of each model chunk, in model order
  std::optional<bool> ends_count_as_layers;  // embedding and loss, where stages are made equal
  std::optional<bool> reshard_after_forward;
  std::optional<std::int32_t> parameter_shard_group, secondary_shard_group, optimizer_instances;
  std::optional<std::int32_t> ring, prefetch;  // ranks of a ring; gather units ahead
  std::optional<std::string> cp_communication, order, gather_unit;
};

// This says how experts are spread and what goes to them.
struct RunExperts {
  std::optional<std::int32_t> tp, dp;
  std::optional<std::string> dispatcher, routing;
  std::optional<double> capacity_factor, imbalance;
  std::optional<bool> dropless;
  std::optional<bool> fused_mlp;
  std::optional<std::int32_t> communication_sms;  // that the kernels of the exchange keep
};

struct RunOffload {
  std::string params = "gpu", grads = "gpu", optimizer = "gpu", activations = "gpu";
  bool delayed_update = false;
  // Operators whose results go off the GPU, "layer_inputs" those of whole layers; states that the
  // GPU fetches for its update, "master", "moment1", "moment2".
  std::optional<std::vector<std::string>> activation_modules, states;
};

struct RunRecompute {
  std::optional<std::vector<std::string>> modules;
  std::optional<std::int32_t> layers, layers_per_checkpoint;
  std::optional<bool> partitioned;
};

struct RunPrecision {
  std::string compute;  // "fp16", "bf16", "fp8" ..
  std::optional<double> param_bytes, grad_bytes, optimizer_bytes_per_param;
  // Element types: "fp32", "bf16" ..
  std::optional<std::string> params, gradients, reduction, master, moments;
  std::optional<std::string> fp8_recipe;
  std::optional<bool> fp8_weights, fp8_gathers, fp8_activations;
  std::optional<bool> loss_scaling;
};

struct RunOptimizer {
  std::optional<std::string> kind;
  std::optional<std::int32_t> block;
  std::optional<bool> precision_aware, clip;
  std::optional<double> cpu_fraction;  // of its states, with its update
};

// Training changes these parameters; the rest is frozen.
struct RunTrained {
  std::optional<std::string> what, objective, base, lora_saved;
  std::optional<std::int32_t> lora_rank, lora_alpha;
  std::optional<std::vector<std::string>> lora_targets, frozen;
};

// These say which kernels there are for what; "fused" is in one kernel.
struct RunKernels {
  std::optional<std::string> attention, cross_entropy;
  std::optional<bool> fused_norm, fused_activation, fused_rope, sums_gradients;
  std::optional<std::int64_t> head_chunks, head_chunk_tokens, attention_backward_pieces;
};

struct RunSequences {
  std::optional<bool> packed;  // several documents in each, which attention keeps apart
  std::optional<std::int64_t> document_tokens;  // of the mean document
};

// How the software launches its kernels, whichever it is.
struct RunSoftware {
  std::optional<bool> cuda_graphs;  // of whole steps or of layers, forward and backward
  std::optional<bool> compiled;     // layers through torch.compile
  // These may be left out: two as members of StackRates (hwprofiles/stack.h), whether operands in
  // fp8 have a scale for each row, and whether the loss stands outside of what is compiled.
  std::optional<bool> foreach_update, dense_mask, fp8_rows, eager_loss;
  std::optional<std::string> name;                    // "Megatron-LM", or a profile: "nemo2024"
  std::optional<std::vector<std::string>> libraries;  // "FSDP2", "Transformer Engine"
  std::optional<std::vector<std::string>> graphed_modules;
  std::string cited;  // text of which words name the software: what the first form cites
};

struct RunMeasured {
  std::optional<double> step_time_s;
  // "measured", "from_tokens_per_s", "from_tflops" ..; "simulated": no machine ran it.
  std::optional<std::string> step_time_kind;
  std::optional<double> memory_gib;
  std::optional<std::string> memory_kind;  // "allocator_peak", "reserved_peak", "nvidia_smi"
  std::optional<std::string> memory_rank;  // whose: "first", "last", "highest", "unknown"
  bool out_of_memory = false;
};

struct RunRecord {
  int line = 0;
  bool second_form = false;
  std::string id, group, source;
  RunHardware hardware;
  RunModel model;
  RunParallel parallel;
  RunOffload offload;
  RunPrecision precision;
  RunSoftware software;
  RunOptimizer optimizer;
  RunTrained trained;
  RunExperts experts;
  RunKernels kernels;
  RunSequences sequences;
  std::optional<std::int64_t> micro_batch, global_batch;
  std::optional<bool> flash_attention;  // fused, by kernels.attention
  // "none", "selective", "full", "automatic"; words of the source
  std::optional<std::string> recompute, recompute_detail;
  RunRecompute recomputed;
  RunMeasured measured;
  // Facts that no member is for, by pointer in the second form, as JSON: what a plan cannot say yet
  // and what it is not made of.
  std::map<std::string, std::string, std::less<>> facts;
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
