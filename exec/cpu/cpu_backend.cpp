#include "exec/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "planner/core/error.h"

namespace zplan::exec::cpu {
namespace {

// Products are built for the number of threads they will run with.
class OpenMpThreads {
 public:
  explicit OpenMpThreads(int threads) : previous_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  ~OpenMpThreads() { omp_set_num_threads(previous_); }
  OpenMpThreads(const OpenMpThreads&) = delete;
  OpenMpThreads& operator=(const OpenMpThreads&) = delete;

 private:
  int previous_;
};

void check_types(const DispatchEntry& entry, const KernelCall& call, DType compute) {
  const std::size_t letters = std::strlen(entry.types);
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    const DType type = call[i].view->dtype;
    if (fits_letter(entry.types[std::min(i, letters - 1)], type, compute)) continue;
    throw_bad_input(fmt::format("{}: {} of a {} kernel set does not take operand {} as {}",
                                name(call.node->role), name(entry.kernel), name(compute), i,
                                name(type)));
  }
}

void check_scratch(const KernelCall& call, Bytes needed) {
  const View& scratch = *call.operands.back().view;
  const Bytes available = scratch.access == Access::kScratch ? scratch.bytes() : Bytes{0};
  if (needed <= available) return;
  throw_bad_input(fmt::format("{}: {} needs {} bytes of scratch, the program gives it {}",
                              name(call.node->role), name(call.node->kernel), needed.value,
                              available.value));
}

}  // namespace

CpuBackend::CpuBackend(const Program& program, DType compute, int threads_per_rank)
    : table_(dispatch_table(compute)), compute_(compute), threads_(threads_per_rank) {
  if (table_.empty()) {
    throw_bad_input(fmt::format("the CPU backend has no kernels for {}", name(compute)));
  }
  const OpenMpThreads scope(threads_);
  for (const Node& node : program.nodes) {
    if (node.kind == OpKind::kKernel) prepare(program, node);
  }
}

void CpuBackend::prepare(const Program& program, const Node& node) {
  std::vector<Operand> operands;
  for (const View& view : program.operands(node)) operands.push_back({&view, nullptr});
  KernelCall call;
  call.node = &node;
  call.operands = operands;
  if (node.attributes < program.attributes.size())
    call.attributes = program.attributes[node.attributes];
  const DispatchEntry& entry = table_[static_cast<std::size_t>(node.kernel)];
  ZPLAN_ASSERT(entry.kernel == node.kernel);
  check_types(entry, call, compute_);
  if (entry.prepare == nullptr) return;
  check_scratch(call, entry.prepare(call, gemm_[static_cast<std::size_t>(node.lane)]));
}

// Starts the thread's OpenMP team, so that no step does.
void CpuBackend::prepare_thread() {
  omp_set_num_threads(threads_);
#pragma omp parallel
  {}
}

void CpuBackend::run_kernel(const KernelCall& call) {
  const DispatchEntry& entry = table_[static_cast<std::size_t>(call.node->kernel)];
  entry.run(call, gemm_[static_cast<std::size_t>(call.node->lane)]);
}

void CpuBackend::copy(Lane, const Operand& from, const Operand& to) {
  if (from.data == to.data) return;
  std::memcpy(to.data, from.data, static_cast<std::size_t>(from.view->bytes().value));
}

}  // namespace zplan::exec::cpu
