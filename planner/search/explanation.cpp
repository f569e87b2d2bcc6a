#include "planner/search/explanation.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/model_formulas.h"
#include "planner/cost/step_totals.h"

namespace zplan {
namespace {

constexpr double kPerTera = 1e-12;
constexpr std::string_view kSimulated = "simulated";
constexpr std::string_view kCounted = "counted from the Job";

std::string profile_source(const Cluster& cluster, std::string_view pointer) {
  for (const ValueSource& source : cluster.node.sources)
    if (source.pointer == pointer) return fmt::format("{}: {}", source.source, source.ref);
  return "profile of the node";
}

void sort_terms(std::vector<Term>& terms) {
  std::stable_sort(terms.begin(), terms.end(),
                   [](const Term& a, const Term& b) { return a.value > b.value; });
}

std::string held_words(const sim::StepOp& op) {
  const std::string role = name(op.role);
  switch (op.by) {
    case sim::HeldBy::kPeers:
      return role + ", for its peers";
    case sim::HeldBy::kLaunch:
      return role + ", to be launched";
    case sim::HeldBy::kOp:
      break;
  }
  return fmt::format("{}, {} times", role, op.runs);
}

Explanation step(const sim::StepSplit& split) {
  Explanation out{
      .what = "time.step_s",
      .value = split.step.value,
      .unit = TermUnit::kSeconds,
      .formula = fmt::format("what the compute lane of stage {} does, or waits for", split.stage),
      .terms = {},
      .divisors = {},
      .made_of = {}};
  for (int u = 0; u < sim::kStepUseCount; ++u) {
    const auto use = static_cast<sim::StepUse>(u);
    if (split.part(use).value > 0)
      out.terms.push_back({std::string(name(use)), split.part(use).value, TermUnit::kSeconds,
                           fmt::format("time.step_split.{}", key(use))});
  }
  sort_terms(out.terms);
  return out;
}

Explanation part_of_step(const sim::StepSplit& split, sim::StepUse use) {
  Explanation out{.what = fmt::format("time.step_split.{}", key(use)),
                  .value = split.part(use).value,
                  .unit = TermUnit::kSeconds,
                  .formula = "its operations, by role: phase, part, action",
                  .terms = {},
                  .divisors = {},
                  .made_of = {}};
  for (const sim::StepOp& op : split.ops)
    if (op.use == use)
      out.terms.push_back({held_words(op), to_seconds(op.time).value / split.steps,
                           TermUnit::kSeconds, std::string(kSimulated)});
  if (use == sim::StepUse::kWait && split.unsettled.value > 0)
    out.terms.push_back({"what the lanes need beyond the last steps", split.unsettled.value,
                         TermUnit::kSeconds, "bound of a steady step (sim/simulate.h)"});
  sort_terms(out.terms);
  return out;
}

Explanation quotient(std::string what, double value, TermUnit unit, std::string formula,
                     std::vector<Term> terms, std::vector<Term> divisors, double factor = 1) {
  return {.what = std::move(what),
          .value = value,
          .unit = unit,
          .formula = std::move(formula),
          .by = Combine::kQuotient,
          .terms = std::move(terms),
          .divisors = std::move(divisors),
          .factor = factor,
          .made_of = {}};
}

void add_rates(const Explained& plan, std::vector<Explanation>& out) {
  const Throughput& t = plan.throughput;
  const Term step{"step", plan.split.step.value, TermUnit::kSeconds, "time.step_s"};
  const Term gpus{"GPUs", static_cast<double>(plan.job.world()), TermUnit::kNone, "plan"};
  out.push_back(quotient(
      "time.tokens_per_s", t.tokens_per_second, TermUnit::kPerSecond,
      "global batch x sequence / step",
      {{"global batch, sequences", static_cast<double>(plan.job.global_batch), TermUnit::kNone,
        "plan"},
       {"sequence, tokens", static_cast<double>(plan.job.sequence), TermUnit::kNone, "plan"}},
      {step}));
  const Term model{"flop of the model", plan.model_flops, TermUnit::kFlops,
                   "6 N + 6 L h s flop per token (models/model_formulas.h)"};
  const Term hardware{"flop of the Job", hardware_flops_per_step(plan.job), TermUnit::kFlops,
                      std::string(kCounted)};
  const auto add = [&](const std::string& rate, double rated, const char* share, double shared,
                       const Term& flops) {
    out.push_back(quotient("time." + rate, rated, TermUnit::kTflops, "flop / (step x GPUs)",
                           {flops}, {step, gpus}, kPerTera));
    if (t.peak_tflops <= 0) return;
    const Term peak{"peak of the products' format", t.peak_tflops, TermUnit::kTflops,
                    "profile of the node, /device/peak"};
    out.push_back(quotient(std::string("time.") + share, shared, TermUnit::kShare,
                           "flop / (step x GPUs x peak)", {flops}, {step, gpus, peak}, kPerTera));
  };
  add("model_tflops_per_gpu", t.model_tflops_per_gpu, "mfu", t.mfu, model);
  add("hardware_tflops_per_gpu", t.hardware_tflops_per_gpu, "hfu", t.hfu, hardware);
}

// The buffers of the class that needs most of the tier.
std::vector<Term> buffers(const MemoryReport& report, std::size_t tier) {
  const ClassMemory* most = nullptr;
  for (const ClassMemory& one : report.classes)
    if (most == nullptr || one.tiers[tier].slab > most->tiers[tier].slab) most = &one;
  std::vector<Term> out;
  if (most == nullptr) return out;
  const TierMemory& memory = most->tiers[tier];
  for (const LiveBuffer& buffer : memory.largest)
    out.push_back(
        {fmt::format("{} ({})", buffer.name, name(buffer.category)),
         static_cast<double>(buffer.size.value), TermUnit::kBytes,
         fmt::format("of one rank of stage {}, alive at {}", most->stage, memory.peak_op)});
  return out;
}

void add_tier(const Explained& plan, Tier tier, std::vector<Explanation>& out) {
  const auto t = static_cast<std::size_t>(tier);
  const TierUse& use = plan.use[t];
  if (use.peak.value == 0) return;
  const auto bytes = [](std::string what, Bytes size, std::string source) {
    return Term{std::move(what), static_cast<double>(size.value), TermUnit::kBytes,
                std::move(source)};
  };
  const std::string whose = tier == Tier::kGpu ? "one GPU" : "one node";
  Explanation peak{
      .what = fmt::format("memory.{}.peak_bytes", name(tier)),
      .value = static_cast<double>(use.peak.value),
      .unit = TermUnit::kBytes,
      .formula = fmt::format("alive at the fullest moment of {}, by category, and gaps", whose),
      .terms = {},
      .divisors = {},
      .made_of = buffers(plan.report, t)};
  for (int c = 0; c < kCategoryCount; ++c)
    if (const Bytes size = use.by_category[static_cast<std::size_t>(c)]; size.value > 0)
      peak.terms.push_back(bytes(std::string(name(static_cast<Category>(c))), size, "placed"));
  if (use.gaps().value > 0) peak.terms.push_back(bytes("gaps", use.gaps(), "placed"));
  sort_terms(peak.terms);
  out.push_back(std::move(peak));
  const Bytes left = use.available() - use.peak;
  Explanation free{.what = fmt::format("memory.{}.free_bytes", name(tier)),
                   .value = static_cast<double>(left.value),
                   .unit = TermUnit::kBytes,
                   .formula = fmt::format("usable - peak - reserve - headroom of {}", whose),
                   .terms = {},
                   .divisors = {},
                   .made_of = {}};
  constexpr std::string_view kPointers[] = {"/device/memory", "/host/memory", "/nvme/capacity"};
  free.terms.push_back(bytes("usable", use.capacity, profile_source(plan.cluster, kPointers[t])));
  const auto less = [&](const char* what, Bytes size, std::string source) {
    if (size.value > 0) free.terms.push_back(bytes(what, Bytes{-size.value}, std::move(source)));
  };
  less("peak", use.peak, fmt::format("memory.{}.peak_bytes", name(tier)));
  less("reserve", use.reserve, "profile of the node, reserve");
  less("headroom", use.headroom, "--headroom");
  out.push_back(std::move(free));
}

// Where layers are alike; other models have no closed form of so few terms.
void add_parameters(const ModelConfig& model, std::vector<Explanation>& out) {
  if (model.experts || model.layers == 0) return;
  const auto all = static_cast<double>(parameter_count(model));
  const auto layers = static_cast<double>(model.layers * layer_parameter_count(model));
  const double table = static_cast<double>(model.vocab) * static_cast<double>(model.hidden);
  const double tables = model.tied_embeddings ? table : 2 * table;
  if (layers + tables > all) return;
  out.push_back(
      {.what = "model.parameters",
       .value = all,
       .unit = TermUnit::kNone,
       .formula = model.tied_embeddings ? "L x layer + V h + positions and norms"
                                        : "L x layer + 2 V h + positions and norms",
       .terms = {{fmt::format("{} layers of {}", model.layers, layer_parameter_count(model)),
                  layers, TermUnit::kNone, model.source},
                 {"embedding and output head", tables, TermUnit::kNone, model.source_of("vocab")},
                 {"positions and norms outside layers", all - layers - tables, TermUnit::kNone,
                  model.source}},
       .divisors = {},
       .made_of = {}});
}

}  // namespace

double combined(const Explanation& explanation) {
  if (explanation.by == Combine::kSum) {
    double sum = 0;
    for (const Term& term : explanation.terms) sum += term.value;
    return sum;
  }
  double result = explanation.factor;
  for (const Term& term : explanation.terms) result *= term.value;
  for (const Term& divisor : explanation.divisors) result /= divisor.value;
  return result;
}

std::vector<Explanation> explain(const Explained& plan) {
  std::vector<Explanation> out{step(plan.split)};
  for (int u = 0; u < sim::kStepUseCount; ++u)
    if (const auto use = static_cast<sim::StepUse>(u); plan.split.part(use).value > 0)
      out.push_back(part_of_step(plan.split, use));
  add_rates(plan, out);
  for (const Tier tier : {Tier::kGpu, Tier::kCpu, Tier::kNvme}) add_tier(plan, tier, out);
  add_parameters(plan.model, out);
  return out;
}

}  // namespace zplan
