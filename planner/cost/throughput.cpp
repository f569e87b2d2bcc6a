#include "planner/cost/throughput.h"

#include <optional>

#include "planner/cost/kernel_time.h"
#include "planner/cost/step_totals.h"

namespace zplan {
namespace {

constexpr double kTera = 1e12;

std::optional<DType> matrix_type(const Job& job) {
  for (const RankClass& rank_class : job.classes) {
    for (const Node& node : rank_class.program.nodes) {
      if (node.kind != OpKind::kKernel || kernel_def(node.kernel).kind != WorkKind::kGemm) continue;
      return rank_class.program.operands(node)[0].dtype;
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
  if (const auto dtype = matrix_type(job)) {
    result.peak_tflops = cluster.node.device.peak(peak_name(*dtype)).value / kTera;
    result.mfu = result.model_tflops_per_gpu / result.peak_tflops;
    result.hfu = result.hardware_tflops_per_gpu / result.peak_tflops;
  }
  return result;
}

}  // namespace zplan
