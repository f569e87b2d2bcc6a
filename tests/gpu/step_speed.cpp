// Whole training steps on one device, in the bf16 recipe, without sharding: tokens per
// second in steady state, and model flop per second (no recomputation counted, attention causal)
// against the fastest matrix product. PyTorch trains the same shapes beside it (pytorch_step.py).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "models/model_formulas.h"
#include "planner/core/quantity.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/program/kernels/kernel_set.h"
#include "sim/simulate.h"
#include "tests/gpu/parts.h"
#include "tests/gpu/rates.h"
#include "tests/gpu/training.h"
#include "tests/support/source_dir.h"

namespace zplan::gpu {
namespace {

constexpr int kSteps = 12, kWarmUp = 4;
constexpr Bytes kMargin{std::int64_t{4} << 30};  // of device memory: contexts, libraries
constexpr int kFewLayers = 8;  // of a model that is cut; without --long, which draws all that fit
constexpr double kBesidePyTorch = 1.0;
constexpr double kPredicted = 0.1;  // off by

struct Workload {
  const char* model;
  std::int64_t micro_batch, sequence;
  bool cut;        // to as many layers as fit
  Tier optimizer;  // not on the GPU: with --long only, after the same model without offload
};
constexpr Workload kWorkloads[] = {
    {"gpt2-124m", 16, 1024, false, Tier::kGpu}, {"llama3-8b", 1, 4096, true, Tier::kGpu},
    {"llama3-8b", 1, 8192, true, Tier::kGpu},   {"gpt2-1.5b", 8, 1024, false, Tier::kGpu},
    {"gpt2-1.5b", 8, 1024, false, Tier::kCpu},  {"gpt2-1.5b", 8, 1024, false, Tier::kNvme},
};

Plan plan_of(const Workload& work, const ModelConfig& model, const Target& target) {
  Plan plan;
  plan.model = model.name;
  plan.hardware = "gpu";
  plan.kernel_set = target.bf16;
  plan.precision = default_recipe(target.bf16);
  plan.launch = LaunchMode::kGraph;
  plan.placement.optimizer = work.optimizer;
  plan.batch = {
      .global_batch = work.micro_batch, .micro_batch = work.micro_batch, .sequence = work.sequence};
  return plan;
}

Job job_of(const Workload& work, const ModelConfig& model, const Target& target) {
  Job job = lower(plan_of(work, model, target), model);
  place(job, {});
  return job;
}

// The job of the model, with as many of its layers as fit.
struct Fitted {
  ModelConfig model;
  Job job;
};
std::optional<Fitted> fit(const Workload& work, const Target& target, bool long_runs) {
  ModelConfig model = load_model(work.model);
  if (work.cut && !long_runs) model.layers = std::min<std::int64_t>(model.layers, kFewLayers);
  const Bytes free = target.driver->memory().free - kMargin;
  const std::int64_t least = work.cut ? 1 : model.layers;
  for (; model.layers >= least; --model.layers) {
    Job job = job_of(work, model, target);
    if (job.classes[0].placement.slab[static_cast<std::size_t>(Tier::kGpu)] <= free)
      return Fitted{model, std::move(job)};
  }
  return std::nullopt;
}

double median_step_seconds(const Job& job, const Target& target, const std::string& directory) {
  exec::RunOptions options;
  options.steps = kSteps;
  options.device = target.device;
  options.storage.directory = directory;
  const auto result =
      exec::run(job, exec::DataSource::from_file(ZPLAN_SOURCE_DIR "/tests/data/text.txt"), options);
  std::vector<double> seconds;
  for (std::size_t i = kWarmUp; i < result.steps.size(); ++i)
    seconds.push_back(result.steps[i].wall.value);
  std::nth_element(seconds.begin(), seconds.begin() + std::ssize(seconds) / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

// A cluster of one such device: what this run measured in place of the profile's rates. The fixed
// times of launches and products stay those of the base profile.
Cluster measured_cluster(const Rates& rates) {
  Cluster cluster = load_cluster("dgx-h100");
  DeviceProfile& device = cluster.node.device;
  device.peaks["bf16"] = {rates.product};
  device.gemm_efficiency = 1;
  device.attention_efficiency = rates.attention / rates.product;
  device.memory_bandwidth = {rates.copy};
  device.memory_efficiency = 1;
  return cluster;
}

// What pytorch_step.py prints: tokens per second, or why there are none.
struct Answer {
  double tokens_per_second = 0;
  std::string why_not;
};
Answer ask_pytorch(const Workload& work, const ModelConfig& model) {
  // Without what the plug-in and check_memory() tell the driver of this program.
  const std::string command = fmt::format(
      "env -u CUDA_MODULE_LOADING -u CUDA_DEVICE_MAX_CONNECTIONS "
      "-u CUDA_DEVICE_MAX_COPY_CONNECTIONS python3 "
      "{}/tests/gpu/pytorch_step.py --layers {} --hidden {} --heads {} --kv-heads {} "
      "--ffn {} --vocab {} --batch {} --sequence {}{}",
      ZPLAN_SOURCE_DIR, model.layers, model.hidden, model.heads, model.kv_heads, model.ffn,
      padded_vocab(model, 1), work.micro_batch, work.sequence, work.cut ? " --llama" : "");
  struct Close {
    void operator()(FILE* pipe) const { pclose(pipe); }
  };
  const std::unique_ptr<FILE, Close> pipe(popen(command.c_str(), "r"));
  Answer answer;
  if (!pipe || std::fscanf(pipe.get(), "tokens_per_s %lf", &answer.tokens_per_second) != 1)
    answer.why_not = "pytorch_step.py gave no figure, see its message above";
  return answer;
}

struct StepTimes {
  double measured = 0, predicted = 0;
};

// Step time that offload adds. The simulation knows the rates of the host and its drives from the
// base profile only.
void compare_exposed(const std::string& name, StepTimes with, StepTimes without, Report& report) {
  report.add({.part = "step-speed",
              .name = name + ", exposed",
              .figure = with.measured - without.measured,
              .unit = "s",
              .note = fmt::format("{} simulated",
                                  format_seconds(Seconds{with.predicted - without.predicted}))});
}

void measure(const Workload& work, const Target& target, const PartOptions& options,
             const Rates& rates, StepTimes& without_offload, Report& report) {
  const auto fitted = fit(work, target, options.long_runs);
  if (!fitted) return report.fail("step-speed", work.model, "does not fit");
  const double seconds = median_step_seconds(fitted->job, target, options.directory);
  const double tokens = static_cast<double>(work.micro_batch * work.sequence) / seconds;
  ModelConfig model = fitted->model;
  model.sequence = work.sequence;
  const double flop = tokens * static_cast<double>(model_flops_per_token(model).value);
  const bool offloads = work.optimizer != Tier::kGpu;
  const std::string name = fmt::format(
      "{} {} layers, {} x {}{}", work.model, model.layers, work.micro_batch, work.sequence,
      offloads ? fmt::format(", optimizer on {}", zplan::name(work.optimizer)) : "");
  report.add({.part = "step-speed",
              .name = name,
              .figure = tokens,
              .unit = "tokens/s",
              .note = fmt::format("{} a step", format_seconds(Seconds{seconds}))});
  report.add({.part = "step-speed",
              .name = name,
              .figure = flop / rates.product,
              .unit = "of product",
              .note = format_rate(FlopsPerSecond{flop})});
  const double predicted = sim::simulate(fitted->job, measured_cluster(rates)).period.value;
  report.add({.part = "step-speed",
              .name = name + " beside its prediction",
              .figure = std::abs(predicted / seconds - 1),
              .relation = offloads ? Goal::kNone : Goal::kAtMost,
              .goal = kPredicted,
              .note = fmt::format("{} predicted from the rates of this run",
                                  format_seconds(Seconds{predicted}))});
  if (offloads) return compare_exposed(name, {seconds, predicted}, without_offload, report);
  if (!work.cut) without_offload = {seconds, predicted};
  const Answer pytorch = ask_pytorch(work, model);
  if (!pytorch.why_not.empty())
    return report.fail("step-speed", name + ", PyTorch", pytorch.why_not);
  report.add({.part = "step-speed",
              .name = name + " against PyTorch",
              .figure = tokens / pytorch.tokens_per_second,
              .unit = "times",
              .relation = Goal::kAtLeast,
              .goal = kBesidePyTorch,
              .note = fmt::format("PyTorch {:.0f} tokens/s", pytorch.tokens_per_second)});
}

}  // namespace

void measure_steps(const Target& target, const PartOptions& options, Report& report) {
  if (target.bf16.empty()) return report.fail("step-speed", "all", "the device has no bf16");
  const Clock clock;
  std::mt19937_64 random(options.seed);
  const Rates rates = measure_rates(target, find_kernel_set(target.bf16), random);
  StepTimes without_offload;  // of the latest model that was not cut
  for (const Workload& work : kWorkloads) {
    if (work.optimizer != Tier::kGpu && !options.long_runs) continue;
    if (clock.seconds() > options.seconds) {
      report.add({.part = "step-speed",
                  .name = work.model,
                  .figure = std::numeric_limits<double>::quiet_NaN(),
                  .note = "left out: no time"});
      continue;
    }
    try {
      measure(work, target, options, rates, without_offload, report);
    } catch (const std::exception& error) {
      report.fail("step-speed", work.model, error.what());
    }
  }
}

}  // namespace zplan::gpu
