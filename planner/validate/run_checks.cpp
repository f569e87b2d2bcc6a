// Contradictions within a record of "zplan.runs/2", each said at the key that has it.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "planner/core/text.h"
#include "planner/validate/pipeline_layout.h"
#include "planner/validate/record_refusals.h"
#include "planner/validate/run_form.h"
#include "planner/validate/run_keys.h"

namespace zplan {
namespace {

// The node at a pointer, or the nearest object above it that the document has.
JsonNode node_at(JsonNode node, std::string_view pointer) {
  while (!pointer.empty() && node.is_object()) {
    pointer.remove_prefix(1);
    const std::size_t end = pointer.find('/');
    const auto below = node.object().optional_member(pointer.substr(0, end));
    if (!below) break;
    node = *below;
    pointer = end == pointer.npos ? std::string_view() : pointer.substr(end);
  }
  return node;
}

class Checks {
 public:
  Checks(const JsonNode& root, const RunRecord& run) : root_(root), run_(run) {}

  void all() const {
    counts();
    expert_model();
    expert_ranks();
    latent();
    pipeline();
    sharding();
    trained();
    recomputation();
    contexts();
    homes();
    batches();
    memory();
  }

 private:
  void demand(bool holds, std::string_view pointer, const std::string& expected) const {
    if (!holds) node_at(root_, pointer).fail_expected(expected);
  }
  bool says(std::string_view pointer) const { return !said(run_, pointer).empty(); }
  // Keys that only some records have a use for.
  void only_with(std::string_view prefix, bool holds, const std::string& expected) const {
    if (holds) return;
    for (const RunKey& key : run_keys())
      if (key.pointer.starts_with(prefix) && says(key.pointer))
        node_at(root_, key.pointer).fail(expected);
  }

  std::int64_t replicas() const {
    return std::int64_t{run_.parallel.dp} * run_.parallel.cp.value_or(1);
  }

  void counts() const {
    const RunHardware& h = run_.hardware;
    demand(std::int64_t{h.gpus_per_node} * h.nodes == h.gpus, "/hardware/gpus",
           fmt::format("gpus_per_node {} x nodes {}", h.gpus_per_node, h.nodes));
    const RunParallel& p = run_.parallel;
    const double ranks = double{1} * p.tp * p.pp * p.dp * p.cp.value_or(1);
    demand(ranks == h.gpus, "/parallel/dp", fmt::format("tp x pp x cp x dp = {} GPUs", h.gpus));
    demand(!p.ring || p.cp.value_or(1) % *p.ring == 0, "/parallel/ring",
           fmt::format("a divisor of cp {}", p.cp.value_or(1)));
  }

  void expert_model() const {
    const RunModel& m = run_.model;
    const std::string needs = "expected /model/experts/count beside it";
    only_with("/model/experts/", m.experts.has_value(), needs);
    only_with("/experts/", m.experts.has_value(), needs);
    if (!m.experts) return;
    demand(m.top_k.has_value() && m.expert_ffn.has_value(), "/model/experts/count",
           "top_k and ffn beside it");
    demand(*m.top_k <= *m.experts, "/model/experts/top_k",
           fmt::format("at most the {} experts", *m.experts));
    const std::int64_t dense = m.routed.dense_layers.value_or(0);
    const std::int64_t every = m.routed.every.value_or(1);
    demand(dense < m.layers, "/model/experts/dense_layers",
           fmt::format("fewer than {} layers", m.layers));
    const std::int64_t with = (m.layers - dense + every - 1) / every;
    const bool stated = m.routed.dense_layers || m.routed.every;
    demand(!stated || !m.moe_layers || *m.moe_layers == with, "/model/experts/layers",
           fmt::format("{} of {} layers, by dense_layers and every", with, m.layers));
    demand(!m.moe_layers || *m.moe_layers <= m.layers, "/model/experts/layers",
           fmt::format("at most {} layers", m.layers));
  }

  void expert_ranks() const {
    const RunExperts& e = run_.experts;
    demand(run_.parallel.ep.value_or(1) == 1 || run_.model.experts, "/parallel/ep",
           "1 of a model without experts");
    demand(!e.dropless.value_or(false) || !e.capacity_factor, "/experts/capacity_factor",
           "none where dropless is true");
    demand(e.dropless.value_or(true) || e.capacity_factor, "/experts/dropless",
           "true, or a capacity_factor beside it");
    demand(e.routing != "balanced" || e.imbalance.value_or(1) == 1, "/experts/imbalance",
           "1 where routing is balanced");
    const std::int64_t copies = copies_of_experts(run_);
    demand(!e.dp || *e.dp == copies, "/experts/dp",
           fmt::format("{} = GPUs / (pp x ep x experts/tp)", copies));
    // The cluster decides where the record does not state the domain (record_experts.cpp).
    const auto& domain = run_.hardware.nvlink_domain;
    const std::string inside = domain ? wrong_about_domain(run_, *domain) : "";
    demand(inside.empty(), "/experts/in_nvlink_domain", inside);
    const std::string shards = said(run_, "/experts/shard_group");
    demand(shards.empty() || std::stoll(shards) <= copies, "/experts/shard_group",
           fmt::format("at most the {} copies of an expert", copies));
  }

  void latent() const {
    const RunLatent& l = run_.model.latent;
    const bool any = l.query_rank || l.key_value_rank || l.nope_size || l.rope_size || l.value_size;
    demand(!any || (l.key_value_rank && l.nope_size && l.rope_size && l.value_size), "/model/mla",
           "key_value_rank, nope_size, rope_size and value_size");
    const bool indexed = l.index_heads || l.index_head_size || l.index_keys;
    demand(!indexed || (l.index_heads && l.index_head_size && l.index_keys && l.query_rank),
           "/model/mla/index_heads",
           "index_heads, index_head_size and index_keys, beside a query_rank");
    const std::string activation = run_.model.activation.value_or("");
    demand(run_.model.gated_ffn || !activation.ends_with("glu"), "/model/gated_ffn",
           fmt::format("true with {}", activation));
    only_with("/model/window/", run_.model.window.tokens.has_value(),
              "expected /model/window/tokens beside it");
  }

  void pipeline() const {
    const RunParallel& p = run_.parallel;
    const std::int64_t chunks = p.interleave.value_or(1), pieces = p.pp * chunks;
    demand(chunks == 1 || p.pp > 1, "/pipeline/virtual_stages", "1 with pp 1");
    const bool has_one = p.schedule == "gpipe" || p.schedule == "zb-h1";
    const bool has_two =
        p.schedule == "zb-v" || p.schedule == "dualpipe-v" || p.schedule == "dualpipe";
    demand(!has_one || chunks == 1, "/pipeline/virtual_stages",
           fmt::format("1 with schedule {}", p.schedule.value_or("")));
    demand(!has_two || !p.interleave || chunks == 2, "/pipeline/virtual_stages",
           fmt::format("2 with schedule {}", p.schedule.value_or("")));
    demand(!p.ends_count_as_layers.value_or(false) || (run_.model.layers + 2) % pieces == 0,
           "/pipeline/ends_count_as_layers",
           fmt::format("false: {} layers and both ends do not come to {} equal pieces",
                       run_.model.layers, pieces));
    demand(p.schedule != "interleaved" || chunks > 1, "/pipeline/virtual_stages",
           "2 or more with schedule interleaved");
    layout(pieces);
    if (!p.stage_layers) return;
    const std::int64_t sum =
        std::accumulate(p.stage_layers->begin(), p.stage_layers->end(), std::int64_t{0});
    demand(static_cast<std::int64_t>(p.stage_layers->size()) == pieces, "/pipeline/stage_layers",
           fmt::format("{} numbers, pp x virtual_stages", pieces));
    demand(sum == run_.model.layers, "/pipeline/stage_layers",
           fmt::format("{} layers together", run_.model.layers));
  }

  void layout(std::int64_t pieces) const {
    const std::string text = said(run_, "/pipeline/layout");
    if (text.empty() || pieces == 1) return;
    const auto layers = layers_of_layout(std::string_view(text).substr(1, text.size() - 2));
    if (!layers) return;
    demand(
        *layers == run_.parallel.stage_layers, "/pipeline/layout",
        fmt::format("the layers of each chunk as in stage_layers, not {}", joined(*layers, ", ")));
  }

  void sharding() const {
    const RunParallel& p = run_.parallel;
    const std::int64_t all = replicas();
    const std::int64_t copies = p.optimizer_instances.value_or(1);
    demand(all % copies == 0, "/parallel/optimizer_instances",
           fmt::format("a divisor of {} replicas", all));
    demand(!p.shard_group || !p.optimizer_instances || *p.shard_group * copies == all,
           "/parallel/optimizer_instances", fmt::format("replicas {} / shard_group", all));
    demand(!p.shard_group || *p.shard_group <= all, "/parallel/shard_group",
           fmt::format("at most the {} replicas", all));
    const std::int32_t stage = p.zero_stage.value_or(0);
    demand(!p.reshard_after_forward.value_or(false) || !p.zero_stage || stage != 2,
           "/parallel/reshard_after_forward", "false with zero_stage 2, which keeps parameters");
    const std::int64_t group = p.shard_group.value_or(static_cast<std::int32_t>(all / copies));
    for (const auto& [fewer, pointer] : {std::pair{p.parameter_shard_group, "parameter"},
                                         std::pair{p.secondary_shard_group, "secondary"}})
      demand(!fewer || group % *fewer == 0, fmt::format("/parallel/{}_shard_group", pointer),
             fmt::format("a divisor of the shard group {}", group));
  }

  void trained() const {
    const RunTrained& t = run_.trained;
    only_with("/trained/lora/", t.what == "lora", "expected /trained/what \"lora\" beside it");
    demand(t.what != "lora" || t.lora_rank, "/trained/what", "/trained/lora/rank beside it");
    demand(t.what == "lora" || !says("/trained/quantized_base"), "/trained/quantized_base",
           "/trained/what \"lora\" beside it");
    demand(!t.frozen || t.frozen->empty() || t.what != "all", "/trained/frozen",
           "nothing frozen where all is trained");
  }

  void recomputation() const {
    const RunRecompute& r = run_.recomputed;
    demand(run_.recompute != "none" || !r.modules || r.modules->empty(), "/recompute/modules",
           "none where mode is none");
    demand(!r.layers || *r.layers <= run_.model.layers, "/recompute/layers",
           fmt::format("at most {} layers", run_.model.layers));
    demand(run_.recompute != "none" || !r.layers, "/recompute/layers", "none where mode is none");
    demand(run_.software.cuda_graphs.value_or(true) || !run_.software.graphed_modules ||
               run_.software.graphed_modules->empty(),
           "/software/graphed_modules", "none where cuda_graphs is false");
    const std::string& compute = run_.precision.compute;
    const bool wide = compute == "bf16" || compute == "fp16" || compute == "fp32";
    demand(!run_.precision.fp8_recipe || !wide, "/precision/fp8/recipe",
           fmt::format("none where products are in {}", compute));
    demand(!run_.software.fp8_rows.value_or(false) || !wide, "/software/fp8_rows",
           fmt::format("false where products are in {}", compute));
    bytes("/precision/grad_bytes", run_.precision.grad_bytes, run_.precision.gradients);
  }

  // Bytes that are stated beside a type are its own.
  void bytes(std::string_view pointer, const std::optional<double>& count,
             const std::optional<std::string>& type) const {
    if (!count || !type) return;
    const double own = *type == "fp64" ? 8 : *type == "fp32" ? 4 : type->ends_with("16") ? 2 : 1;
    demand(*count == own, pointer, fmt::format("{} as of {}", own, *type));
  }

  void contexts() const {
    const RunParallel& p = run_.parallel;
    const std::int32_t cp = p.cp.value_or(1);
    const std::string& how = p.cp_communication.value_or("");
    if (cp == 1) return;
    demand(how != "a2a+p2p" || p.ring, "/parallel/cp_communication", "/parallel/ring beside it");
    demand((how != "ulysses" && how != "a2a") || p.ring.value_or(1) == 1, "/parallel/ring",
           fmt::format("1 with {}", how));
    demand((how != "ring" && how != "p2p") || p.ring.value_or(cp) == cp, "/parallel/ring",
           fmt::format("cp {} with {}", cp, how));
  }

  void homes() const {
    const RunOffload& o = run_.offload;
    demand(run_.optimizer.cpu_fraction.value_or(1) > 0 || o.optimizer == "gpu",
           "/optimizer/cpu_fraction", "above 0 where /offload/optimizer is not gpu");
    demand(!run_.model.padded_vocab || *run_.model.padded_vocab >= run_.model.vocab,
           "/model/padded_vocab", fmt::format("at least vocab {}", run_.model.vocab));
  }

  void batches() const {
    const RunKernels& k = run_.kernels;
    demand(!k.head_chunks || !k.head_chunk_tokens, "/kernels/head_chunk_tokens",
           "one of head_chunks and head_chunk_tokens");
    demand(run_.sequences.packed.value_or(true) || !run_.sequences.document_tokens,
           "/sequences/packed", "true where document_tokens is given");
    demand(run_.sequences.document_tokens.value_or(1) <= run_.model.seq,
           "/sequences/document_tokens", fmt::format("at most seq {}", run_.model.seq));
    const std::int64_t together = run_.micro_batch.value_or(1) * run_.parallel.dp;
    demand(!run_.global_batch || *run_.global_batch * 2 > together, "/global_batch",
           fmt::format("at least micro_batch x dp = {}", together));
  }

  void memory() const {
    demand(!says("/measured/memory_gb") || !run_.measured.memory_gib, "/measured/memory_gb",
           "one of memory_gb and memory_gib");
  }

  const JsonNode& root_;
  const RunRecord& run_;
};

}  // namespace

void check_run(const JsonNode& root, const RunRecord& run) { Checks(root, run).all(); }

}  // namespace zplan
