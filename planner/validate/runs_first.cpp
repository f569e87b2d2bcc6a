#include "planner/validate/runs_first.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string_view>

#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"
#include "planner/validate/run_form.h"
#include "planner/validate/run_words.h"

namespace zplan {
namespace {

// Beyond any run; products of two counts stay within 64 bits, ratios of two numbers finite.
constexpr std::int64_t kMostCount = 1'000'000'000;
constexpr double kLeastNumber = 1e-9, kMostNumber = 1e18;

// This reads one object of a record.
class Fields {
 public:
  explicit Fields(const JsonNode& node) : object_(node) {}
  Fields(Fields& outer, std::string_view key) : object_(outer.object_.member(key)) {}

  std::string text(std::string_view key) { return object_.member(key).non_empty_string(); }
  bool flag(std::string_view key) { return object_.member(key).boolean(); }
  std::int64_t count(std::string_view key) { return object_.member(key).integer(1, kMostCount); }
  std::int32_t few(std::string_view key) { return static_cast<std::int32_t>(count(key)); }
  std::string home(std::string_view key) {
    return object_.member(key).one_of({"gpu", "cpu", "nvme"});
  }
  // It returns nothing also where the file has no such member.
  std::optional<bool> added_flag(std::string_view key) {
    const auto node = optional(key);
    return node && !node->is_null() ? std::optional(node->boolean()) : std::nullopt;
  }
  JsonNode node(std::string_view key) { return object_.member(key); }
  std::optional<JsonNode> optional(std::string_view key) { return object_.optional_member(key); }

  // Returns nothing where the file says null.
  std::optional<JsonNode> said(std::string_view key) {
    const JsonNode node = object_.member(key);
    return node.is_null() ? std::nullopt : std::optional(node);
  }
  std::optional<std::string> maybe_text(std::string_view key) {
    const auto node = said(key);
    return node ? std::optional(node->non_empty_string()) : std::nullopt;
  }
  std::optional<bool> maybe_flag(std::string_view key) {
    const auto node = said(key);
    return node ? std::optional(node->boolean()) : std::nullopt;
  }
  std::optional<double> maybe_number(std::string_view key) {
    const auto node = said(key);
    return node ? std::optional(node->number(0, kMostNumber)) : std::nullopt;
  }
  std::optional<double> maybe_positive(std::string_view key) {
    const auto node = said(key);
    return node ? std::optional(node->number(kLeastNumber, kMostNumber)) : std::nullopt;
  }
  template <typename Int>
  void maybe_count(std::string_view key, std::optional<Int>& target, std::int64_t least = 1) {
    if (const auto node = said(key)) target = static_cast<Int>(node->integer(least, kMostCount));
  }

  // Kept as a fact of the second form, under its pointer there.
  void keep(std::string_view key, std::string_view pointer, RunRecord& run) {
    const JsonNode node = object_.member(key);
    if (!node.is_null()) run.facts.emplace(pointer, fact_text(node));
  }
  void finish() const { object_.finish(); }

 private:
  JsonObject object_;
};

RunHardware read_hardware(Fields in) {
  RunHardware hardware;
  hardware.device = in.text("device");
  hardware.system = in.maybe_text("system");
  hardware.gpus_per_node = in.few("gpus_per_node");
  hardware.nodes = in.few("nodes");
  hardware.gpus = in.few("gpus");
  hardware.scale_out_gb_s_per_gpu = in.maybe_positive("scale_out_gb_s_per_gpu");
  in.finish();
  const std::int64_t devices = std::int64_t{hardware.gpus_per_node} * hardware.nodes;
  if (devices != hardware.gpus)
    in.node("gpus").fail_expected(
        fmt::format("gpus_per_node {} x nodes {}", hardware.gpus_per_node, hardware.nodes));
  return hardware;
}

RunModel read_model(Fields in) {
  RunModel model;
  model.name = in.text("name");
  model.family = in.text("family");
  model.layers = in.count("layers");
  model.hidden = in.count("hidden");
  in.maybe_count("heads", model.heads);
  in.maybe_count("kv_heads", model.kv_heads);
  in.maybe_count("head_dim", model.head_dim);
  in.maybe_count("ffn", model.ffn);
  model.gated_ffn = in.flag("gated_ffn");
  model.vocab = in.count("vocab");
  model.seq = in.count("seq");
  model.tied_embeddings = in.maybe_flag("tied_embeddings");
  model.position = in.maybe_text("position");
  model.norm = in.maybe_text("norm");
  model.dropout = in.maybe_flag("dropout");
  in.maybe_count("experts", model.experts);
  in.maybe_count("top_k", model.top_k);
  in.maybe_count("expert_ffn", model.expert_ffn);
  in.maybe_count("shared_expert_ffn", model.shared_expert_ffn);
  in.maybe_count("moe_layers", model.moe_layers);
  model.params = in.maybe_positive("params");
  in.finish();
  return model;
}

RunParallel read_parallel(Fields in, std::int64_t gpus) {
  RunParallel parallel;
  parallel.tp = in.few("tp");
  parallel.sequence_parallel = in.maybe_flag("sequence_parallel");
  parallel.pp = in.few("pp");
  in.maybe_count("interleave", parallel.interleave);
  in.maybe_count("cp", parallel.cp);
  in.maybe_count("ep", parallel.ep);
  parallel.dp = in.few("dp");
  if (const auto stage = in.said("zero_stage"))
    parallel.zero_stage = static_cast<std::int32_t>(stage->integer(0, 3));
  in.maybe_count("shard_group", parallel.shard_group);
  parallel.overlap_grad_reduce = in.maybe_flag("overlap_grad_reduce");
  parallel.overlap_param_gather = in.maybe_flag("overlap_param_gather");
  parallel.tp_comm_overlap = in.maybe_flag("tp_comm_overlap");
  parallel.schedule = in.maybe_text("schedule");
  in.finish();
  const double ranks =
      double{1} * parallel.tp * parallel.pp * parallel.dp * parallel.cp.value_or(1);
  if (ranks != static_cast<double>(gpus))
    in.node("dp").fail_expected(fmt::format("tp x pp x cp x dp = {} GPUs", gpus));
  return parallel;
}

RunOffload read_offload(Fields in) {
  RunOffload offload;
  offload.params = in.home("params");
  offload.grads = in.home("grads");
  offload.optimizer = in.home("optimizer");
  offload.activations = in.home("activations");
  offload.delayed_update = in.flag("delayed_update");
  in.finish();
  return offload;
}

RunPrecision read_precision(Fields in) {
  RunPrecision precision;
  precision.compute = in.text("compute");
  precision.param_bytes = in.maybe_number("param_bytes");
  precision.grad_bytes = in.maybe_number("grad_bytes");
  precision.optimizer_bytes_per_param = in.maybe_number("optimizer_bytes_per_param");
  in.finish();
  return precision;
}

RunSoftware read_software(Fields in) {
  RunSoftware software;
  software.cuda_graphs = in.maybe_flag("cuda_graphs");
  software.compiled = in.maybe_flag("compiled");
  software.foreach_update = in.added_flag("foreach_update");
  software.dense_mask = in.added_flag("dense_mask");
  software.fp8_rows = in.added_flag("fp8_rows");
  software.eager_loss = in.added_flag("eager_loss");
  in.finish();
  return software;
}

RunMeasured read_measured(Fields in, RunRecord& run) {
  RunMeasured measured;
  measured.step_time_s = in.maybe_positive("step_time_s");
  measured.step_time_kind = in.maybe_text("step_time_kind");
  Fields printed(in, "printed");
  printed.keep("value", "/measured/printed/value", run);
  printed.keep("unit", "/measured/printed/unit", run);
  printed.finish();
  measured.memory_gib = in.maybe_positive("memory_gib");
  measured.memory_kind = in.maybe_text("memory_kind");
  measured.out_of_memory = in.flag("out_of_memory");
  in.finish();
  return measured;
}

// These are the keys of a record; "software" may be left out.
constexpr std::array<std::string_view, 18> kRecordKeys{
    "id",        "group",    "source",  "confidence",      "recalled",         "hardware",
    "model",     "parallel", "offload", "precision",       "micro_batch",      "global_batch",
    "recompute", "measured", "note",    "flash_attention", "recompute_detail", "software"};

// Returns what to type instead of a key that the first form does not have.
std::string key_hint(const std::string& key) {
  const std::string near = did_you_mean(key, {kRecordKeys.begin(), kRecordKeys.end()});
  if (!near.empty()) return near;
  return ": say it by keys of zplan.runs/2, which zplan runs --template shows, and add "
         "\"schema\": \"zplan.runs/2\"";
}

// A record of other keys is one of the second form without its schema, or says more than the first
// form can.
void check_keys(const JsonNode& root) {
  std::set<std::string, std::less<>> keys;
  for (const auto& [key, value] : root.members()) {
    if (std::ranges::find(kRecordKeys, key) == kRecordKeys.end())
      value.fail(
          fmt::format("expected a key of zplan.runs/1, as the record has no \"schema\", got {}{}",
                      in_quotes(key), key_hint(key)));
    keys.insert(key);
  }
  for (const std::string_view key : kRecordKeys)
    if (key != "software" && !keys.contains(key))
      root.fail(
          fmt::format("expected \"schema\": \"zplan.runs/2\" or, as all records of "
                      "zplan.runs/1 have it, the key {}, got neither",
                      in_quotes(key)));
}

RunRecord read_fields(const JsonNode& root) {
  check_keys(root);
  Fields in(root);
  RunRecord run;
  run.id = in.text("id");
  run.group = in.text("group");
  run.source = in.text("source");
  in.text("confidence");
  in.keep("confidence", "/confidence", run);
  in.node("recalled").words();
  in.keep("recalled", "/recalled", run);
  run.hardware = read_hardware({in, "hardware"});
  run.model = read_model({in, "model"});
  run.parallel = read_parallel({in, "parallel"}, run.hardware.gpus);
  run.offload = read_offload({in, "offload"});
  run.precision = read_precision({in, "precision"});
  if (const auto software = in.optional("software"))
    run.software = read_software(Fields(*software));
  in.maybe_count("micro_batch", run.micro_batch);
  in.maybe_count("global_batch", run.global_batch);
  run.flash_attention = in.maybe_flag("flash_attention");
  if (const auto recompute = in.said("recompute"))
    run.recompute = recompute->one_of({"none", "selective", "full"});
  run.recompute_detail = in.maybe_text("recompute_detail");
  run.measured = read_measured({in, "measured"}, run);
  in.maybe_text("note");
  in.keep("note", "/note", run);
  in.finish();
  return run;
}

}  // namespace

RunRecord read_first_form(const JsonNode& root) {
  RunRecord run = read_fields(root);
  words_to_keys(run);
  return run;
}

}  // namespace zplan
