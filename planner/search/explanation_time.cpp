#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/model_formulas.h"
#include "planner/core/shares.h"
#include "planner/cost/step_totals.h"
#include "planner/program/kernels/kernel_table.h"
#include "planner/search/explanation_parts.h"

namespace zplan {
namespace {

constexpr double kPerTera = 1e-12;
constexpr double kHundred = 100;

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
  Explanation out =
      sum_of("time.step_s", split.step.value, TermUnit::kSeconds,
             fmt::format("what the compute lane of stage {} does, or waits for", split.stage));
  for (int u = 0; u < sim::kStepUseCount; ++u) {
    const auto use = static_cast<sim::StepUse>(u);
    if (split.part(use).value > 0)
      out.terms.push_back(seconds_term(std::string(name(use)), split.part(use),
                                       fmt::format("time.step_split.{}", key(use))));
  }
  sort_terms(out.terms);
  out.also = {"time.step_split.step_s"};
  return out;
}

Explanation part_of_step(const sim::StepSplit& split, sim::StepUse use) {
  Explanation out = sum_of(fmt::format("time.step_split.{}", key(use)), split.part(use).value,
                           TermUnit::kSeconds, "its operations, by role: phase, part, action");
  for (const sim::StepOp& op : split.ops)
    if (op.use == use)
      out.terms.push_back(
          seconds_term(held_words(op), to_seconds(op.time) / split.steps, kSimulated));
  if (use == sim::StepUse::kWait && split.unsettled.value > 0)
    out.terms.push_back(seconds_term("what the lanes need beyond the last steps", split.unsettled,
                                     "bound of a steady step (sim/simulate.h)"));
  sort_terms(out.terms);
  out.also = {fmt::format("time.step_split.parts[{}].time_s", static_cast<int>(use))};
  return out;
}

// Shares, and percent of one decimal that add up to 100.
void add_shares(const sim::StepSplit& split, Explanations& out) {
  constexpr double kTenths = 10;
  std::vector<double> times;
  for (const Seconds part : split.parts) times.push_back(part.value);
  const std::vector<std::int64_t> tenths = rounded_shares(times, 1000);
  for (std::size_t u = 0; u < times.size(); ++u) {
    const auto use = static_cast<sim::StepUse>(u);
    const std::string at = fmt::format("time.step_split.parts[{}]", u);
    const double share = split.share(use);
    if (split.step.value > 0)
      out.push_back(quotient(at + ".share", share, TermUnit::kShare, "part / step",
                             {seconds_term(std::string(name(use)), split.part(use),
                                           fmt::format("time.step_split.{}", key(use)))},
                             {seconds_term("step", split.step, "time.step_s")}));
    const double percent = static_cast<double>(tenths[u]) / kTenths;
    out.push_back(
        sum_of(at + ".percent", percent, TermUnit::kFactor, "100 x share, to one decimal",
               {term("100 x share", kHundred * share, TermUnit::kFactor, at + ".share"),
                term("rounding, so that the parts add up to 100", percent - kHundred * share,
                     TermUnit::kFactor, "largest remainders first")}));
  }
}

// flop of products and attention over all ranks, by phase: what HFU counts and MFU does not.
std::vector<Term> flops_by_phase(const Job& job) {
  std::map<Phase, double> phases;
  for (const RankClass& rank_class : job.classes) {
    const Program& program = rank_class.program;
    const std::vector<std::int64_t> instances = instances_per_step(program);
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
      const Node& node = program.nodes[i];
      if (node.kind != OpKind::kKernel) continue;
      const Demand demand = demand_of(program, node);
      if (multiplies(demand.kind))
        phases[node.role.phase] += static_cast<double>(demand.flops.value) *
                                   static_cast<double>(instances[i]) * job.replicas();
    }
  }
  std::vector<Term> terms;
  for (const auto& [phase, flops] : phases)
    terms.push_back(term(std::string(name(phase)), flops, TermUnit::kFlops, kCounted));
  sort_terms(terms);
  return terms;
}

// 6 N and what attention adds; of frozen matrices a product less.
Explanation model_flops(const Explained& plan) {
  ModelConfig model = plan.model;
  model.sequence = plan.job.sequence;
  const double tokens = static_cast<double>(plan.job.global_batch * plan.job.sequence);
  const double whole = model_flops_per_step(model, plan.job.global_batch);
  const double matrices = 6 * static_cast<double>(active_matmul_parameter_count(model)) * tokens;
  const double heads = 6 * static_cast<double>(further_head_elements(model)) * tokens;
  constexpr std::string_view kForm = "models/model_formulas.h";
  Explanation out = sum_of(
      "flop.model", plan.model_flops, TermUnit::kFlops,
      "(6 N + attention) x tokens: forward, and backward twice as much; no recomputation",
      {term(fmt::format("6 N x {} tokens, N = {} parameters in products",
                        plan.job.global_batch * plan.job.sequence,
                        active_matmul_parameter_count(model)),
            matrices, TermUnit::kFlops, kForm),
       term(
           "attention, 6 L a s x tokens where it is causal and without windows, a columns of heads",
           whole - matrices - heads, TermUnit::kFlops, kForm)});
  if (heads > 0)
    out.terms.push_back(term(fmt::format("the head once more in each of {} modules that predict "
                                         "further tokens",
                                         model.mtp_layers),
                             heads, TermUnit::kFlops, kForm));
  if (plan.model_flops != whole)
    out.terms.push_back(term("gradients of frozen matrices, which are left out",
                             plan.model_flops - whole, TermUnit::kFlops, kForm));
  return out;
}

void add_rates(const Explained& plan, Explanations& out) {
  const Throughput& t = plan.throughput;
  const Term step = seconds_term("step", plan.split.step, "time.step_s");
  const Term gpus = term("GPUs", plan.job.world(), TermUnit::kNone, "plan");
  const std::vector<Term> tokens = {
      term("global batch, sequences", static_cast<double>(plan.job.global_batch), TermUnit::kNone,
           "plan"),
      term("sequence, tokens", static_cast<double>(plan.job.sequence), TermUnit::kNone, "plan")};
  out.push_back(quotient("time.tokens_per_s", t.tokens_per_second, TermUnit::kPerSecond,
                         "global batch x sequence / step", tokens, {step}));
  out.push_back(quotient("time.tokens_per_s_per_gpu", t.tokens_per_second / plan.job.world(),
                         TermUnit::kPerSecond, "global batch x sequence / (step x GPUs)", tokens,
                         {step, gpus}));
  out.push_back(model_flops(plan));
  const double hardware = hardware_flops_per_step(plan.job);
  out.push_back(sum_of("flop.hardware", hardware, TermUnit::kFlops,
                       "products and attention of all ranks as they are run, by phase",
                       flops_by_phase(plan.job)));
  const auto add = [&](const std::string& rate, double rated, const char* share, double shared,
                       const Term& flops) {
    out.push_back(quotient("time." + rate, rated, TermUnit::kTflops, "flop / (step x GPUs)",
                           {flops}, {step, gpus}, kPerTera));
    if (t.peak_tflops <= 0) return;
    const Term peak = term("peak of the products' format", t.peak_tflops, TermUnit::kTflops,
                           "time.peak_tflops_per_gpu");
    out.push_back(quotient(std::string("time.") + share, shared, TermUnit::kShare,
                           "flop / (step x GPUs x peak)", {flops}, {step, gpus, peak}, kPerTera));
  };
  add("model_tflops_per_gpu", t.model_tflops_per_gpu, "mfu", t.mfu,
      term("flop of the model", plan.model_flops, TermUnit::kFlops, "flop.model"));
  add("hardware_tflops_per_gpu", t.hardware_tflops_per_gpu, "hfu", t.hfu,
      term("flop of the Job, recomputation included", hardware, TermUnit::kFlops, "flop.hardware"));
  std::string peak = "/device/peak";
  for (const auto& [format, rate] : plan.cluster.node.device.peaks)
    if (rate.value * kPerTera == t.peak_tflops) peak = "/device/peak/" + format;
  out.push_back(single("time.peak_tflops_per_gpu", t.peak_tflops, TermUnit::kTflops,
                       "peak of the device in the format of the products",
                       profile_source(plan.cluster, peak)));
}

}  // namespace

void explain_times(const Explained& plan, const CostModel&, Explanations& out) {
  out.push_back(step(plan.split));
  for (int u = 0; u < sim::kStepUseCount; ++u)
    out.push_back(part_of_step(plan.split, static_cast<sim::StepUse>(u)));
  add_shares(plan.split, out);
  add_rates(plan, out);
  out.push_back(single("time.first_step_s", plan.sim.first_step.value, TermUnit::kSeconds,
                       "end of the first step, which nothing before it overlaps", kSimulated));
  const std::string stage =
      fmt::format("stage whose compute lane is the busiest of {}", plan.job.classes.size());
  for (const char* of : {"time.step_split.stage", "time.split.stage"})
    out.push_back(single(of, plan.split.stage, TermUnit::kNone, stage, kSimulated));
  for (std::size_t p = 0; p < plan.sim.split.parts.size(); ++p)
    out.push_back(
        single(fmt::format("time.split.parts[{}].time_s", p), plan.sim.split.parts[p].value,
               TermUnit::kSeconds,
               fmt::format("{}: the lane that the step of stage {} is held up by, at each instant",
                           name(static_cast<sim::TimePart>(p)), plan.sim.split.stage),
               kSimulated));
}

}  // namespace zplan
