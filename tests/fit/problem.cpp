#include "tests/fit/problem.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "models/model_formulas.h"
#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "planner/cost/throughput.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/validate/record_plan.h"
#include "sim/simulate.h"

namespace zplan::fit {
namespace {

// A rate as hwprofiles/stack.h expects it, "gemm" or "gemm@80".
Free free_rate(const JsonNode& name) {
  const std::string key = name.string(), word = key.substr(0, key.find('@'));
  const int from = word == key ? 0 : std::atoi(key.c_str() + word.size() + 1);
  for (const StackRate& rate : stack_rates()) {
    if (rate.name == word)
      return {.owner = {},
              .rate = &rate,
              .from = from,
              .below = INT_MAX,
              .usual = rate.usual,
              .spread = rate.spread,
              .kin = {},
              .seconds = rate.seconds,
              .most = rate.most};
  }
  name.fail_expected("a rate of hwprofiles/stack.h, or settled");
}

Free read_settled(const JsonNode& node) {
  JsonObject row = node.object();
  Free free;
  free.usual = row.member("usual").number(1e-9, 1e3);
  free.spread = row.member("spread").number(1e-3, 10);
  row.finish();
  return free;
}

// Kin of kin is none, so that no rate is expected to be its own.
void link(std::vector<Free>& free, const std::string& stack, const std::string& kin) {
  for (Free& of_stack : free) {
    if (of_stack.owner != stack) continue;
    for (std::size_t k = 0; k < free.size(); ++k) {
      const bool same = free[k].rate == of_stack.rate && free[k].from == of_stack.from;
      if (free[k].owner == kin && same && !free[k].kin) of_stack.kin = k;
    }
  }
}

// Each up to the next later class of devices.
void part_classes(std::vector<Free>& free) {
  for (Free& one : free)
    for (const Free& other : free)
      if (one.owner == other.owner && one.rate == other.rate && other.from > one.from)
        one.below = std::min(one.below, other.from);
}

}  // namespace

bool Free::concerns(const Sample& sample) const {
  if (rate == nullptr) return owner == sample.system;
  return owner == sample.stack && from <= sample.capability && sample.capability < below;
}

double expected_of(const std::vector<Free>& free, const std::vector<double>& values,
                   std::size_t k) {
  const std::optional<std::size_t> kin = free[k].kin;
  return kin ? values[*kin] : free[k].usual;
}

std::vector<Free> read_constants(const std::string& path) {
  JsonObject in = read_json_file(path).object();
  in.schema("zplan.fit/1");
  const Free settled = read_settled(in.member("settled"));
  std::vector<Free> free;
  for (const auto& [owner, names] : in.member("free").members()) {
    for (const JsonNode& name : names.items()) {
      free.push_back(name.string() == "settled" ? settled : free_rate(name));
      free.back().owner = owner;
    }
  }
  part_classes(free);
  for (const auto& [stack, kin] : in.member("kin").members()) link(free, stack, kin.string());
  in.finish();
  return free;
}

Problem make_problem(std::vector<Free> free, const std::vector<RunRecord>& runs, std::size_t most,
                     const std::function<bool(const std::string& stack)>& takes_part) {
  const RunCatalogues catalogues;
  std::map<std::string, std::size_t> all, taken, seen;
  for (const RunRecord& run : runs) ++all[run.group];
  Problem problem{std::move(free), {}};
  for (const RunRecord& run : runs) {
    const std::size_t count = all[run.group], index = seen[run.group]++;
    const bool chosen = count <= most || index * most / count != (index + 1) * most / count;
    if (!chosen || !run.measured.step_time_s) continue;
    PlannedRun planned = plan_run(run, catalogues);
    if (!planned.unsupported.empty() || (takes_part && !takes_part(planned.stack))) continue;
    Sample& sample = problem.samples.emplace_back();
    sample.id = run.id;
    sample.group = run.group;
    sample.stack = planned.stack;
    sample.system = run.hardware.system.value_or("");
    sample.capability = catalogues.hardware.device(run.hardware.device).capability;
    sample.measured_s = *run.measured.step_time_s;
    sample.job = lower(planned.plan, planned.model);
    place(sample.job, {.slack = planned.plan.slack});
    sample.cluster = std::move(planned.cluster);
    sample.kind = kind_of(planned.plan, sample.cluster);
    const double flops = model_flops_per_step(planned.model, planned.plan.batch.global_batch);
    sample.mfu = throughput(sample.job, sample.cluster, Seconds{sample.measured_s}, flops).mfu;
    sample.sustained = sample.cluster.node.device.sustained;
    if (!sample.system.empty())
      sample.sustained /= catalogues.hardware.system(sample.system).settled;
    ++taken[run.group];
  }
  for (Sample& sample : problem.samples)
    sample.weight = std::pow(static_cast<double>(taken[sample.group]), -0.25);
  return problem;
}

Cluster cluster_with(const Sample& sample, const std::vector<Free>& free,
                     const std::vector<double>& values) {
  Cluster cluster = sample.cluster;
  for (std::size_t i = 0; i < free.size(); ++i) {
    if (!free[i].concerns(sample)) continue;
    if (free[i].rate != nullptr) {
      cluster.stack.*free[i].rate->member = values[i];
    } else {
      cluster.node.device.sustained = sample.sustained * values[i];
    }
  }
  return cluster;
}

double log_error(const Sample& sample, const std::vector<Free>& free,
                 const std::vector<double>& values) {
  const Cluster cluster = cluster_with(sample, free, values);
  return std::log(sim::simulate(sample.job, cluster).period.value / sample.measured_s);
}

}  // namespace zplan::fit
