#include "exec/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "exec/cuda/check.h"
#include "exec/kernel_checks.h"
#include "planner/core/error.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan::exec::cuda {
namespace {

std::size_t at(Lane lane) { return static_cast<std::size_t>(lane); }

// Attributes that the CUDA kernels do not know: they refuse what differs from 0.
void check_attributes(const KernelCall& call) {
  constexpr std::string_view kUnknown[] = {"window", "cap", "divisor", "slopes", "both_ways"};
  const KernelDef& def = kernel_def(call.node->kernel);
  if (def.id == KernelId::kSoftCapForward || def.id == KernelId::kSoftCapBackward) return;
  for (std::size_t i = 0; i < def.attribute_names.size(); ++i) {
    const std::string_view attribute = def.attribute_names[i];
    const bool unknown =
        std::find(std::begin(kUnknown), std::end(kUnknown), attribute) != std::end(kUnknown);
    if (unknown && call.attributes[i] != 0)
      throw_bad_input(fmt::format(
          "{}: no CUDA kernel has {} {}; a cpu kernel set has, or plan and simulate alone",
          name(call.node->role), attribute, call.attributes[i]));
  }
  if (call.operands.size() > 1 && def.id == KernelId::kSoftmaxForward)
    throw_bad_input(name(call.node->role) + ": no CUDA kernel has sinks beside stored scores; a " +
                    "fused kernel set has");
}

bool is_of_host(const Node& node) { return !is_launched(node.lane); }

}  // namespace

void CudaBackend::FreeDevice::operator()(double* memory) const noexcept { cudaFree(memory); }

CudaBackend::CudaBackend(const Program& program, const KernelSet& set, int threads,
                         std::unique_ptr<CudaQueues> queues, const KnownChoices& known)
    : table_(dispatch_table(set)),
      queues_(std::move(queues)),
      host_(program, set.compute, threads, is_of_host) {
  check(cudaGetDevice(&device_), "cudaGetDevice");
  gemm_.know(known);
  if (table_.empty())
    throw_bad_input("the CUDA backend has no kernels for " + std::string(name(set.compute)));
  std::array<bool, kLaneCount> has_kernels{};
  for_each_kernel(program, [&](const KernelCall& call) {
    if (!is_launched(call.node->lane)) return;
    has_kernels[at(call.node->lane)] = true;
    prepare(program, call, set.compute);
  });
  make_lanes(has_kernels);
}

CudaBackend::~CudaBackend() = default;

std::vector<KernelChoice> CudaBackend::choices() const {
  std::vector<KernelChoice> all;
  for (const AttentionChoice& choice : attention_.choices()) all.push_back(describe(choice));
  for (const GemmChoice& choice : gemm_.choices()) all.push_back(describe(choice));
  return all;
}

void CudaBackend::prepare(const Program& program, const KernelCall& call, DType compute) {
  const DispatchEntry& entry = table_[static_cast<std::size_t>(call.node->kernel)];
  if (entry.run == nullptr) {
    throw_bad_input(name(call.node->role) + ": no CUDA kernel for " +
                    std::string(name(call.node->kernel)));
  }
  check_types(call, compute);
  check_attributes(call);
  if (entry.prepare == nullptr) return;
  check_scratch(call, entry.prepare(call, {program, gemm_, attention_}));
}

void CudaBackend::make_lanes(const std::array<bool, kLaneCount>& has_kernels) {
  const auto lanes = std::count(has_kernels.begin(), has_kernels.end(), true);
  void* memory = nullptr;
  if (lanes > 0) {
    const std::size_t bytes = static_cast<std::size_t>(lanes) * kPartials * sizeof(double);
    check(cudaMalloc(&memory, bytes), "cudaMalloc");
    partials_.reset(static_cast<double*>(memory));
  }
  double* next = partials_.get();
  for (int i = 0; i < kLaneCount; ++i) {
    const auto lane = static_cast<Lane>(i);
    if (!has_kernels[at(lane)]) continue;
    lanes_[at(lane)] = {queues_->stream(lane), next, &gemm_, &attention_};
    next += kPartials;
  }
}

void CudaBackend::prepare_thread() {
  check(cudaSetDevice(device_), "cudaSetDevice");
  host_.prepare_thread();
}

void CudaBackend::run_kernel(const KernelCall& call) {
  const Lane lane = call.node->lane;
  if (!is_launched(lane)) return host_.run_kernel(call);
  table_[static_cast<std::size_t>(call.node->kernel)].run(call, lanes_[at(lane)]);
}

void CudaBackend::copy(Lane lane, const Operand& from, const Operand& to) {
  if (from.data == to.data) return;
  if (!is_launched(lane)) return host_.copy(lane, from, to);
  const auto bytes = static_cast<std::size_t>(from.view->bytes().value);
  check(cudaMemcpyAsync(to.data, from.data, bytes, cudaMemcpyDefault, queues_->stream(lane)),
        "cudaMemcpyAsync");
}

}  // namespace zplan::exec::cuda
