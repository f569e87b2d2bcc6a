#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "planner/core/json_reader.h"
#include "planner/plan/limits.h"
#include "planner/plan/plan.h"
#include "planner/program/names.h"

namespace zplan {
namespace {

// The words of the enumerations of a Plan, in their order.
using Words = std::span<const std::string_view>;
constexpr std::string_view kGatherUnits[] = {"layer", "operator"};
constexpr std::string_view kRecomputes[] = {"none", "selective", "full"};
constexpr std::string_view kSchedules[] = {"1f1b", "gpipe"};
constexpr std::string_view kLaunchModes[] = {"stream", "graph"};
constexpr std::string_view kGradientCasts[] = {"none", "before_reduction", "after_reduction"};

template <typename Enum>
std::string_view word_of(Words words, Enum value) {
  return words[static_cast<std::size_t>(value)];
}

template <typename Enum>
Enum choice(const JsonNode& node, Words words) {
  const std::string word = node.one_of(std::vector<std::string>(words.begin(), words.end()));
  return static_cast<Enum>(std::find(words.begin(), words.end(), word) - words.begin());
}

// Those of a Job have their words in names.h.
template <typename Enum>
Enum word(const JsonNode& node, std::initializer_list<std::string_view> allowed) {
  return *parse_name<Enum>(node.one_of(allowed));
}

DType float_type(const JsonNode& node) { return word<DType>(node, {"f64", "f32", "f16", "bf16"}); }

Tier tier(const JsonNode& node) { return word<Tier>(node, {"gpu", "cpu", "nvme"}); }

std::int32_t count(const JsonNode& node, std::int64_t min, std::int64_t max) {
  return static_cast<std::int32_t>(node.integer(min, max));
}

void read_parallel(JsonObject object, Plan& plan) {
  plan.parallel.dp = count(object.member("dp"), 1, kMaxDp);
  plan.parallel.tp = count(object.member("tp"), 1, kMaxTp);
  plan.parallel.pp = count(object.member("pp"), 1, kMaxStages);
  plan.parallel.sequence_parallel = object.member("sequence_parallel").boolean();
  plan.parallel.shards = count(object.member("shards"), 0, kMaxDp);
  plan.schedule = choice<Schedule>(object.member("schedule"), kSchedules);
  for (const JsonNode& layers : object.member("stage_layers").items())
    plan.stage_layers.push_back(count(layers, 1, kMaxLayers));
  plan.order = word<RankOrder>(object.member("order"), {"data_first", "pipeline_first"});
  object.finish();
}

void read_placement(JsonObject object, Plan& plan) {
  plan.placement = {tier(object.member("params")), tier(object.member("grads")),
                    tier(object.member("optimizer")), tier(object.member("activations"))};
  object.finish();
}

void read_gather(JsonObject object, Plan& plan) {
  plan.gather = choice<GatherUnit>(object.member("unit"), kGatherUnits);
  plan.unit_layers = count(object.member("layers"), 1, kMaxUnitLayers);
  plan.owners = object.member("owners").boolean();
  plan.tiles = count(object.member("tiles"), 1, kMaxTiles);
  plan.prefetch = count(object.member("prefetch"), 0, kMaxPrefetch);
  object.finish();
}

void read_recompute(const JsonNode& node, Plan& plan) {
  plan.recompute.clear();
  for (const JsonNode& item : node.items()) {
    JsonObject run = item.object();
    const auto mode = choice<Recompute>(run.member("mode"), kRecomputes);
    plan.recompute.push_back({mode, count(run.member("layers"), 0, kMaxLayers)});
    run.finish();
  }
}

void read_precision(JsonObject object, Plan& plan) {
  plan.precision.param = float_type(object.member("param"));
  plan.precision.grad = float_type(object.member("grad"));
  plan.precision.master = float_type(object.member("master"));
  plan.precision.moments = float_type(object.member("moments"));
  plan.precision.separate_master = object.member("separate_master").boolean();
  plan.precision.main_grad = object.member("main_grad").boolean();
  if (const auto cast = object.optional_member("grad_cast"))
    plan.precision.grad_cast = choice<GradientCast>(*cast, kGradientCasts);
  object.finish();
}

void read_batch(JsonObject object, Plan& plan) {
  plan.batch.global_batch = object.member("global_batch").integer(1, kMaxGlobalBatch);
  plan.batch.micro_batch = object.member("micro_batch").integer(1, kMaxGlobalBatch);
  plan.batch.sequence = object.member("sequence").integer(1, kMaxSequence);
  object.finish();
}

Plan read_plan(const JsonNode& root) {
  Plan plan;
  JsonObject object = root.object();
  object.schema("zplan.plan/1");
  plan.model = object.member("model").non_empty_string();
  plan.hardware = object.member("hardware").non_empty_string();
  read_parallel(object.member("parallel").object(), plan);
  plan.zero_stage = count(object.member("zero_stage"), 0, 3);
  read_placement(object.member("placement").object(), plan);
  read_gather(object.member("gather").object(), plan);
  read_recompute(object.member("recompute"), plan);
  plan.partition_activations = object.member("partition_activations").boolean();
  plan.delayed_update = object.member("delayed_update").boolean();
  if (const auto dropout = object.optional_member("dropout")) plan.dropout = dropout->boolean();
  plan.kernel_set = object.member("kernel_set").non_empty_string();
  read_precision(object.member("precision").object(), plan);
  read_batch(object.member("batch").object(), plan);
  plan.launch = choice<LaunchMode>(object.member("launch"), kLaunchModes);
  plan.slack = object.member("slack").number(0, 1);
  plan.clip = object.member("clip").boolean();
  plan.loss_scaling = object.member("loss_scaling").boolean();
  object.finish();
  return plan;
}

}  // namespace

std::string_view name(GatherUnit unit) { return word_of(kGatherUnits, unit); }
std::string_view name(Recompute recompute) { return word_of(kRecomputes, recompute); }
std::string_view name(Schedule schedule) { return word_of(kSchedules, schedule); }
std::string_view name(LaunchMode launch) { return word_of(kLaunchModes, launch); }
std::string_view name(GradientCast cast) { return word_of(kGradientCasts, cast); }

std::string to_json(const Plan& plan) {
  using Json = nlohmann::ordered_json;
  Json j;
  j["schema"] = "zplan.plan/1";
  j["model"] = plan.model;
  j["hardware"] = plan.hardware;
  j["parallel"] = {{"dp", plan.parallel.dp},
                   {"tp", plan.parallel.tp},
                   {"pp", plan.parallel.pp},
                   {"sequence_parallel", plan.parallel.sequence_parallel},
                   {"shards", plan.parallel.shards},
                   {"schedule", name(plan.schedule)},
                   {"stage_layers", plan.stage_layers},
                   {"order", name(plan.order)}};
  j["zero_stage"] = plan.zero_stage;
  j["placement"] = {{"params", name(plan.placement.params)},
                    {"grads", name(plan.placement.grads)},
                    {"optimizer", name(plan.placement.optimizer)},
                    {"activations", name(plan.placement.activations)}};
  j["gather"] = {{"unit", name(plan.gather)},
                 {"layers", plan.unit_layers},
                 {"owners", plan.owners},
                 {"tiles", plan.tiles},
                 {"prefetch", plan.prefetch}};
  j["recompute"] = Json::array();
  for (const RecomputeRun& run : plan.recompute)
    j["recompute"].push_back({{"mode", name(run.mode)}, {"layers", run.layers}});
  j["partition_activations"] = plan.partition_activations;
  j["delayed_update"] = plan.delayed_update;
  if (plan.dropout) j["dropout"] = true;
  j["kernel_set"] = plan.kernel_set;
  j["precision"] = {{"param", name(plan.precision.param)},
                    {"grad", name(plan.precision.grad)},
                    {"master", name(plan.precision.master)},
                    {"moments", name(plan.precision.moments)},
                    {"separate_master", plan.precision.separate_master},
                    {"main_grad", plan.precision.main_grad}};
  if (plan.precision.grad_cast != GradientCast::kNone)
    j["precision"]["grad_cast"] = name(plan.precision.grad_cast);
  j["batch"] = {{"global_batch", plan.batch.global_batch},
                {"micro_batch", plan.batch.micro_batch},
                {"sequence", plan.batch.sequence}};
  j["launch"] = name(plan.launch);
  j["slack"] = plan.slack;
  j["clip"] = plan.clip;
  j["loss_scaling"] = plan.loss_scaling;
  return j.dump(2) + "\n";
}

Plan plan_from_json(const std::string& text, const std::string& file_name) {
  return read_plan(parse_json(text, file_name));
}

Plan load_plan(const std::string& path) { return read_plan(read_json_file(path)); }

}  // namespace zplan
