// Every key of zplan.runs/2 does what its row says: it changes the model, the cluster, its rates or
// the plan, or what is compared; or it refuses the record by name; or it is flagged; or it changes
// nothing, where it is a statement of the source. A new key without an effect fails here.
#include "planner/validate/run_keys.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "hwprofiles/memory_quantity.h"
#include "planner/validate/evaluate.h"
#include "planner/validate/record_plan.h"
#include "planner/validate/run_form.h"
#include "tests/unit/validate/second_form.h"

namespace zplan {
namespace {

using testing::Contains;
using testing::HasSubstr;

Json fsdp() {
  return with(base(), {{"/software/name", "hf"},
                       {"/parallel/dp", 8},
                       {"/parallel/tp", 1},
                       {"/parallel/sequence_parallel", false},
                       {"/parallel/zero_stage", 3}});
}
Json experts() {
  return with(base(), {{"/model/experts/count", 16},
                       {"/model/experts/top_k", 2},
                       {"/model/experts/ffn", 1024},
                       {"/model/experts/shared_ffn", 1024},
                       {"/parallel/ep", 4}});
}
Json pipeline() {
  return with(base(),
              {{"/parallel/dp", 2}, {"/parallel/pp", 2}, {"/parallel/sequence_parallel", false}});
}
Json latent() {
  return with(base(), {{"/model/mla/query_rank", 256},
                       {"/model/mla/key_value_rank", 128},
                       {"/model/mla/nope_size", 64},
                       {"/model/mla/rope_size", 32},
                       {"/model/mla/value_size", 64}});
}
Json with_states() {
  return with(base(), {{"/model/mamba/heads", 16},
                       {"/model/mamba/head_dim", 32},
                       {"/model/mamba/groups", 4},
                       {"/model/mamba/state", 64}});
}
Json with_delta() {
  return with(base(), {{"/model/linear_attention/kind", "gated_delta_net"},
                       {"/model/linear_attention/every", 2},
                       {"/model/linear_attention/key_heads", 8},
                       {"/model/linear_attention/key_dim", 64},
                       {"/model/linear_attention/value_heads", 16},
                       {"/model/linear_attention/value_dim", 64}});
}

// Records that keys are set in; each key has its effect in one at least.
std::vector<Json> bases() {
  const Json lora = {{"what", "lora"}, {"lora", {{"rank", 8}}}};
  return {
      base(),
      fsdp(),
      experts(),
      pipeline(),
      latent(),
      with(latent(), {{"/model/mla/index_heads", 4},
                      {"/model/mla/index_head_size", 64},
                      {"/model/mla/index_keys", 128}}),
      with_states(),
      with(with_states(), {{"/model/hybrid_pattern", "M-*-"}}),
      with_delta(),
      with(fsdp(), {{"/trained", lora}}),
      with(base(), {{"/parallel/cp", 2}, {"/parallel/dp", 2}}),
      with(fsdp(), {{"/offload/optimizer", "cpu"}, {"/recompute/mode", "full"}}),
      with(fsdp(), {{"/offload/optimizer", "cpu"}, {"/optimizer/clip", false}}),
      with(base(), {{"/hardware/nodes", 2}, {"/hardware/gpus", 16}, {"/parallel/dp", 8}}),
      with(base(), {{"/precision/compute", "fp8"}}),
      with(fsdp(), {{"/model/norm", "layernorm"},
                    {"/model/gated_ffn", false},
                    {"/model/position", "learned"},
                    {"/kernels/attention", "unfused"}}),
      with(base(), {{"/optimizer/kind", "adamw-8bit"}}),
      with(fsdp(), {{"/software/compiled", true}}),
      with(base(), {{"/software/cuda_graphs", true}}),
      with(base(), {{"/recompute/mode", "full"}, {"/parallel/sequence_parallel", false}}),
      with(base(), {{"/model/window/tokens", 256}, {"/model/window/full_layers", 2}}),
      with(experts(), {{"/model/experts/groups", 4}, {"/model/experts/selection_bias", true}}),
      with(experts(), {{"/model/experts/load_balancing", "aux_loss"}}),
      with(fsdp(), {{"/model/position", "alibi"}, {"/model/norm", "layernorm"}}),
      with(base(), {{"/measured/memory_gib", nullptr}}),
      with(base(), {{"/precision/gradients", "bf16"}}),
      with(base(), {{"/software/name", "a trainer of ours"}}),
      with(experts(), {{"/parallel/ep", 2}}),
      with(experts(), {{"/experts/routing", "balanced"}}),
      with(experts(),
           {{"/hardware/device", "b200_sxm_180gb"}, {"/experts/dispatcher", "hybridep"}}),
      with(fsdp(), {{"/precision/compute", "fp16"}, {"/hardware/device", "v100_sxm3_32gb"}}),
  };
}

// Values with an effect where the example of the template has none.
const std::map<std::string_view, const char*> kOtherValues{
    {"/model/family", R"("mpt")"},
    {"/software/name", R"("nemo2024")"},
    {"/software/libraries", R"(["NeMo"])"},
    {"/model/norm", R"("layernorm")"},
    {"/model/activation", R"("relu")"},
    {"/measured/memory_kind", R"("nvidia_smi")"},
    {"/pipeline/schedule", R"("gpipe")"},
    {"/pipeline/stage_layers", "[5, 3]"},
    {"/pipeline/layout", R"("Et*5|t*3L")"},
    {"/experts/dispatcher", R"("allgather")"},
    {"/micro_batch", "4"},
    {"/model/experts/layers", "7"},
    {"/overlap/tensor_parallel", "true"},
    {"/precision/params", R"("bf16")"},
    {"/parallel/ring", "1"},
    {"/model/heads", "16"},
    {"/model/kv_heads", "4"},
    {"/precision/loss_scaling", "false"},
    {"/kernels/head_chunk_tokens", "1024"},
    {"/model/rope_theta", "20000"},
    {"/hardware/nvlink_domain", "4"},
    {"/model/experts/groups_per_token", "2"},
    {"/offload/grads", R"("cpu")"},
    {"/model/mamba/conv", "3"},
    {"/model/linear_attention/conv", "3"},
    {"/precision/fp8/activations", "false"},
};
// Counts that others must go with.
const std::map<std::string_view, Json>& companions() {
  static const std::map<std::string_view, Json> all{
      {"/hardware/gpus_per_node", {{"/hardware/gpus_per_node", 4}, {"/hardware/nodes", 2}}},
      {"/hardware/nodes", {{"/hardware/nodes", 2}, {"/hardware/gpus_per_node", 4}}},
      {"/hardware/gpus",
       {{"/hardware/gpus", 4}, {"/hardware/gpus_per_node", 4}, {"/parallel/dp", 2}}},
      {"/parallel/dp", {{"/parallel/dp", 2}, {"/parallel/pp", 2}}},
      {"/parallel/tp", {{"/parallel/tp", 4}, {"/parallel/dp", 2}}},
      {"/parallel/pp", {{"/parallel/pp", 2}, {"/parallel/dp", 2}}},
      {"/parallel/cp", {{"/parallel/cp", 2}, {"/parallel/dp", 2}}},
      {"/parallel/secondary_shard_group", {{"/parallel/secondary_shard_group", 2}}},
      {"/offload/params", {{"/offload/params", "cpu"}, {"/offload/optimizer", "cpu"}}},
      {"/offload/grads", {{"/offload/grads", "cpu"}, {"/offload/optimizer", "cpu"}}},
  };
  return all;
}
const RunCatalogues& catalogues() {
  static const RunCatalogues all;
  return all;
}

std::string rates_of(const Cluster& cluster) {
  std::string out;
  for (const StackRate& rate : stack_rates()) out += fmt::format(" {}", cluster.stack.*rate.member);
  const StackRates& stack = cluster.stack;
  out += fmt::format(" {} {} {} {} {}", static_cast<int>(stack.modules), stack.sums_apart,
                     stack.autocast, stack.foreach_update, stack.dense_mask);
  constexpr int kHopper = 90;
  for (const MemoryQuantityRow& row : memory_quantities())
    out += fmt::format(" {}", cluster.memory.at(row.quantity, kHopper));
  return out;
}

std::string model_of(const ModelConfig& model) {
  std::string out = model.name;
  for (const ModelField& field : fields_of(model))
    out += std::visit([&](const auto& value) { return fmt::format(" {}={}", field.name, value); },
                      field.value);
  return out;
}

// All that a prediction is made of, or why there is none.
std::string made_of(const PlannedRun& planned) {
  if (!planned.unsupported.empty()) return planned.unsupported;
  const Cluster& cluster = planned.cluster;
  const TopologySpec& wires = cluster.node.topology;
  return to_json(planned.plan) + model_of(planned.model) + rates_of(cluster) +
         fmt::format(" {} {} {} {} {} {}", cluster.devices(), cluster.node.name,
                     cluster.fast_link_domain, wires.nics_per_switch, wires.nic.capacity.value,
                     cluster.node.device.memory.value);
}
std::string made_of(const RunRecord& run) { return made_of(plan_run(run, catalogues())); }

// This adds what is compared.
std::string compared(const RunRecord& run) {
  const RunResult result = evaluate(run, catalogues());
  const auto words = [](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : "none";
  };
  return fmt::format("{} {} {} {} {}", words(result.predicted_s), words(result.measured_s),
                     words(result.predicted_gib), words(result.measured_gib), result.out_of_memory);
}

bool is_of_figures(const RunKey& key) {
  return key.pointer.starts_with("/measured/") || key.pointer == "/software/deterministic";
}

std::string seen(const RunRecord& run, const RunKey& key) {
  return made_of(run) + (is_of_figures(key) ? compared(run) : "");
}

Json value_of(const RunKey& key) {
  const auto other = kOtherValues.find(key.pointer);
  return Json::parse(other != kOtherValues.end() ? std::string_view(other->second) : key.example);
}

bool is_planned(const std::optional<RunRecord>& run) {
  return run && plan_run(*run, catalogues()).unsupported.empty();
}

// The record without the key, or as it is where the key must be there, and with its value.
struct Pair {
  std::optional<RunRecord> without, with_it;
};
Pair pair_of(const Json& record, const RunKey& key) {
  const Json::json_pointer at{std::string(key.pointer)};
  Json without = record;
  if (without.contains(at)) without[at.parent_pointer()].erase(at.back());
  Json with_it = record;
  with_it[at] = value_of(key);
  if (const auto together = companions().find(key.pointer); together != companions().end())
    for (const auto& [pointer, value] : together->second.items())
      with_it[Json::json_pointer(pointer)] = value;
  const auto plain = read(without);
  const auto as_it_is = read(record);
  const bool must_be_there = !plain || (!is_planned(plain) && is_planned(as_it_is));
  return {must_be_there ? as_it_is : plain, read(with_it)};
}

// Returns true if the key changes what a prediction is made of in one of the bases that are planned
// with it and without it: a refusal is no effect, as any value may be refused for another reason.
bool has_effect(const RunKey& key) {
  for (const Json& record : bases()) {
    const auto [without, with_it] = pair_of(record, key);
    if (!is_planned(without) || !is_planned(with_it)) continue;
    if (seen(*without, key) != seen(*with_it, key)) return true;
  }
  return false;
}

// Returns true for a key some words of which are refused by name where others are flagged, and the
// software then counts as one whose ways are a guess.
bool is_flagged_by_word(const RunKey& key) {
  if (key.told.empty()) return false;
  for (const Json& record : bases()) {
    const auto [without, with_it] = pair_of(record, key);
    if (!is_planned(without) || !is_planned(with_it)) continue;
    const PlannedRun before = plan_run(*without, catalogues());
    const PlannedRun after = plan_run(*with_it, catalogues());
    if (before.stack_stated != after.stack_stated && before.flags != after.flags) return true;
  }
  return false;
}

// Returns true for a key whose first word that no plan expresses refuses a record by name.
bool refuses_a_word(const RunKey& key) {
  const std::string word(key.told.substr(0, key.told.find('=')));
  if (key.told.find('=') == key.told.npos) return false;
  const std::string name(key.told.substr(word.size() + 1, key.told.find('|') - word.size() - 1));
  for (const Json& record : bases()) {
    Json changed = record;
    changed[Json::json_pointer(std::string(key.pointer))] = word;
    const auto run = read(changed);
    if (run && plan_run(*run, catalogues()).unsupported == "not modelled: " + name) return true;
  }
  return false;
}

// Returns true if the key changes anything at all, refusals among it.
bool is_noticed(const RunKey& key) {
  for (const Json& record : bases()) {
    const auto [without, with_it] = pair_of(record, key);
    if (without.has_value() != with_it.has_value()) return true;
    if (with_it && seen(*without, key) != seen(*with_it, key)) return true;
  }
  return false;
}

TEST(RunKeys, AreOnceInTheTableAndHaveWords) {
  std::set<std::string_view> pointers;
  for (const RunKey& key : run_keys()) {
    EXPECT_TRUE(pointers.insert(key.pointer).second) << key.pointer;
    EXPECT_FALSE(key.meaning.empty()) << key.pointer;
    EXPECT_TRUE(Json::accept(key.example)) << key.pointer;
    const bool needs_words = key.use == RunKeyUse::kUnmodelled || key.use == RunKeyUse::kAside ||
                             key.use == RunKeyUse::kFlagged;
    EXPECT_EQ(needs_words, !key.told.empty() && key.use != RunKeyUse::kPlan) << key.pointer;
  }
}

TEST(RunKeys, OfPlansChangeWhatAPredictionIsMadeOf) {
  for (const RunKey& key : run_keys())
    if (key.use == RunKeyUse::kPlan) {
      EXPECT_TRUE(has_effect(key) || is_flagged_by_word(key) || refuses_a_word(key)) << key.pointer;
    }
}

TEST(RunKeys, OfStatementsChangeNothing) {
  for (const RunKey& key : run_keys())
    if (key.use == RunKeyUse::kStatement && key.pointer != "/id" && key.pointer != "/group") {
      EXPECT_FALSE(is_noticed(key)) << key.pointer;
    }
}

TEST(RunKeys, ThatAreNotModelledRefuseByName) {
  for (const RunKey& key : run_keys()) {
    if (key.use != RunKeyUse::kUnmodelled) continue;
    int refused = 0;
    for (const Json& record : bases()) {
      const auto [without, with_it] = pair_of(record, key);
      if (!with_it) continue;
      const std::string why = plan_run(*with_it, catalogues()).unsupported;
      refused += why == fmt::format("not modelled: {}", key.told) ? 1 : 0;
      EXPECT_FALSE(why.empty() && made_of(*without) != made_of(*with_it)) << key.pointer;
    }
    EXPECT_GT(refused, 0) << key.pointer;
    for (const std::string& plain : parts_of(key.plain)) {
      const Json::json_pointer at{std::string(key.pointer)};
      for (Json record : bases()) {
        const auto before = read(record);
        record[at] = Json::parse(plain);
        const auto after = read(record);
        if (before && after) {
          EXPECT_EQ(made_of(*before), made_of(*after)) << key.pointer;
        }
      }
    }
  }
}

TEST(RunKeys, WordsThatNoPlanExpressesRefuseByName) {
  for (const RunKey& key : run_keys()) {
    if (key.use != RunKeyUse::kPlan) continue;
    for (const std::string& part : parts_of(key.told)) {
      const std::size_t equals = part.find('=');
      ASSERT_NE(equals, part.npos) << key.pointer;
      int refused = 0;
      for (Json record : bases()) {
        record[Json::json_pointer{std::string(key.pointer)}] = part.substr(0, equals);
        const auto run = read(record);
        refused += run && plan_run(*run, catalogues()).unsupported ==
                               "not modelled: " + part.substr(equals + 1)
                       ? 1
                       : 0;
      }
      EXPECT_GT(refused, 0) << part;
    }
  }
}

TEST(RunKeys, ThatStandAsideAreFlaggedAndWidenTheInterval) {
  for (const RunKey& key : run_keys()) {
    if (key.use != RunKeyUse::kAside) continue;
    int flagged = 0;
    for (const Json& record : bases()) {
      const auto [without, with_it] = pair_of(record, key);
      if (!with_it) continue;
      const PlannedRun planned = plan_run(*with_it, catalogues());
      const bool told = std::ranges::find(planned.flags, key.told) != planned.flags.end();
      if (told) {
        EXPECT_FALSE(planned.stack_stated) << key.pointer;
      }
      flagged += told ? 1 : 0;
    }
    EXPECT_GT(flagged, 0) << key.pointer;
  }
}

TEST(RunKeys, ThatThePlanLeavesOutAreFlaggedAndChangeNothing) {
  const auto flags = [](const PlannedRun& planned, const RunKey& key) {
    return std::ranges::count(planned.flags, key.told);
  };
  for (const RunKey& key : run_keys()) {
    if (key.use != RunKeyUse::kFlagged) continue;
    int flagged = 0;
    for (const Json& record : bases()) {
      const auto [without, with_it] = pair_of(record, key);
      if (!is_planned(without) || !is_planned(with_it)) continue;
      const PlannedRun before = plan_run(*without, catalogues());
      const PlannedRun after = plan_run(*with_it, catalogues());
      EXPECT_EQ(made_of(before), made_of(after)) << key.pointer;
      EXPECT_EQ(before.stack_stated, after.stack_stated) << key.pointer;
      EXPECT_EQ(flags(before, key), 0) << key.pointer;
      flagged += flags(after, key) == 1 ? 1 : 0;
    }
    EXPECT_GT(flagged, 0) << key.pointer;
  }
}

TEST(RunKeys, NumbersTakeZeroOnlyWhereItIsAValue) {
  const std::set<std::string_view> zero{
      "/model/experts/balance", "/model/experts/bias_rate", "/precision/grad_bytes",
      "/precision/optimizer_bytes_per_param", "/optimizer/cpu_fraction"};
  for (const RunKey& key : run_keys()) {
    if (key.kind != RunKeyKind::kNumber) continue;
    Json record = with(experts(), {{"/measured/memory_gib", nullptr}});
    const Json::json_pointer at{std::string(key.pointer)};
    record[at] = key.least;
    EXPECT_EQ(complaint(record), "") << key.pointer;
    record[at] = 0;
    EXPECT_EQ(complaint(record).empty(), zero.contains(key.pointer)) << key.pointer;
  }
}

TEST(RunKeys, TakeTheValuesThatThePlanHasAnyway) {
  for (const RunKey& key : run_keys()) {
    if (key.kind != RunKeyKind::kCount) continue;
    for (const std::string& plain : parts_of(key.plain)) {
      EXPECT_GE(std::stod(plain), key.least) << key.pointer;
    }
  }
}

TEST(RunKeys, WhatOtherCountsDecideContradictsThem) {
  std::set<std::string_view> checked;
  for (const RunKey& key : run_keys())
    if (key.use == RunKeyUse::kChecked) checked.insert(key.pointer);
  const std::pair<const char*, Json> wrong[] = {
      {"/experts/dp", with(experts(), {{"/experts/dp", 3}})},
      {"/experts/dropless", with(experts(), {{"/experts/dropless", false}})},
      {"/experts/in_nvlink_domain",
       with(experts(), {{"/hardware/nvlink_domain", 8}, {"/experts/in_nvlink_domain", false}})},
  };
  for (const auto& [pointer, record] : wrong) {
    EXPECT_THAT(complaint(record), HasSubstr(fmt::format("{}: expected", pointer)));
    checked.erase(pointer);
  }
  EXPECT_TRUE(checked.empty()) << *checked.begin();
}

}  // namespace
}  // namespace zplan
