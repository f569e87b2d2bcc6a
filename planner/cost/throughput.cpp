#include "planner/cost/throughput.h"

#include <optional>
#include <string_view>

#include "planner/cost/kernel_time.h"
#include "planner/cost/step_totals.h"

namespace zplan {
namespace {

constexpr double kTera = 1e12;

// Of the first product: of a layer, where a stage has one.
std::optional<std::string_view> product_format(const Job& job) {
  const KernelSet* kernels = built_in_kernels(job);
  for (const RankClass& rank_class : job.classes) {
    for (const Node& node : rank_class.program.nodes) {
      if (node.kind != OpKind::kKernel || kernel_def(node.kernel).kind != WorkKind::kGemm) continue;
      return format_of(rank_class.program, node, kernels);
    }
  }
  return std::nullopt;
}

}  // namespace

Throughput throughput(const Job& job, const Cluster& cluster, Seconds period,
                      double model_flops_per_step) {
  const double gpu_seconds = period.value * job.world();
  Throughput result;
  result.tokens_per_second = static_cast<double>(job.global_batch * job.sequence) / period.value;
  result.model_tflops_per_gpu = model_flops_per_step / gpu_seconds / kTera;
  result.hardware_tflops_per_gpu = hardware_flops_per_step(job) / gpu_seconds / kTera;
  if (const auto format = product_format(job)) {
    result.peak_tflops = cluster.node.device.peak(*format).value / kTera;
    result.mfu = result.model_tflops_per_gpu / result.peak_tflops;
    result.hfu = result.hardware_tflops_per_gpu / result.peak_tflops;
  }
  return result;
}

}  // namespace zplan
