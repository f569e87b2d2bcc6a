#include "tests/fit/problem.h"

#include <cmath>
#include <map>

#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/validate/record_plan.h"
#include "sim/simulate.h"

namespace zplan::fit {
namespace {

const StackRate* rate_named(const JsonNode& node, const std::string& name) {
  if (name == "settled") return nullptr;
  for (const StackRate& rate : stack_rates()) {
    if (rate.name == name) return &rate;
  }
  node.fail_expected("a rate of hwprofiles/stack.h, or settled");
}

Free read_free(const std::string& name, const JsonNode& node) {
  JsonObject row = node.object();
  Free free;
  free.rate = rate_named(node, name);
  free.usual = row.member("usual").number(1e-9, 1e3);
  free.spread = row.member("spread").number(1e-3, 10);
  if (free.rate != nullptr) {
    free.seconds = free.rate->seconds;
    free.most = free.rate->most;
  }
  row.finish();
  return free;
}

// Kin of kin is none, so that no rate is expected to be its own.
void link(std::vector<Free>& free, const std::string& stack, const std::string& kin) {
  for (Free& of_stack : free) {
    if (of_stack.owner != stack) continue;
    for (std::size_t k = 0; k < free.size(); ++k) {
      if (free[k].owner == kin && free[k].rate == of_stack.rate && !free[k].kin) of_stack.kin = k;
    }
  }
}

}  // namespace

bool Free::concerns(const Sample& sample) const {
  return owner == (rate != nullptr ? sample.stack : sample.system);
}

double expected_of(const std::vector<Free>& free, const std::vector<double>& values,
                   std::size_t k) {
  const std::optional<std::size_t> kin = free[k].kin;
  return kin ? values[*kin] : free[k].usual;
}

std::vector<Free> read_constants(const std::string& path) {
  JsonObject in = read_json_file(path).object();
  in.schema("zplan.fit/1");
  std::map<std::string, Free> rates;
  for (const auto& [name, node] : in.member("rates").members()) rates[name] = read_free(name, node);
  std::vector<Free> free;
  for (const auto& [owner, names] : in.member("free").members()) {
    for (const JsonNode& name : names.items()) {
      const auto at = rates.find(name.string());
      if (at == rates.end()) name.fail_expected("a rate listed above");
      free.push_back(at->second);
      free.back().owner = owner;
    }
  }
  for (const auto& [stack, kin] : in.member("kin").members()) link(free, stack, kin.string());
  in.finish();
  return free;
}

Problem make_problem(std::vector<Free> free, const std::vector<RunRecord>& runs, std::size_t most,
                     const std::string& left_out) {
  const RunCatalogues catalogues;
  std::map<std::string, std::size_t> all, taken, seen;
  for (const RunRecord& run : runs) ++all[run.group];
  Problem problem{std::move(free), {}};
  for (const RunRecord& run : runs) {
    const std::size_t count = all[run.group], index = seen[run.group]++;
    const bool chosen = count <= most || index * most / count != (index + 1) * most / count;
    if (run.group == left_out || !chosen || !run.measured.step_time_s) continue;
    PlannedRun planned = plan_run(run, catalogues);
    if (!planned.unsupported.empty()) continue;
    Sample& sample = problem.samples.emplace_back();
    sample.id = run.id;
    sample.group = run.group;
    sample.stack = planned.stack;
    sample.system = run.hardware.system.value_or("");
    sample.measured_s = *run.measured.step_time_s;
    sample.job = lower(planned.plan, planned.model);
    place(sample.job, {.slack = planned.plan.slack});
    sample.cluster = std::move(planned.cluster);
    sample.sustained = sample.cluster.node.device.sustained;
    if (!sample.system.empty())
      sample.sustained /= catalogues.hardware.system(sample.system).settled;
    ++taken[run.group];
  }
  for (Sample& sample : problem.samples)
    sample.weight = std::pow(static_cast<double>(taken[sample.group]), -0.25);
  return problem;
}

double log_error(const Sample& sample, const std::vector<Free>& free,
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
  return std::log(sim::simulate(sample.job, cluster).period.value / sample.measured_s);
}

}  // namespace zplan::fit
