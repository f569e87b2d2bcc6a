#include "exec/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <omp.h>

#include <cstring>

#include "exec/kernel_checks.h"
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

}  // namespace

CpuBackend::CpuBackend(const Program& program, DType compute, int threads_per_rank,
                       NodeFilter filter)
    : table_(dispatch_table(compute)), threads_(threads_per_rank) {
  if (table_.empty()) {
    throw_bad_input(fmt::format("the CPU backend has no kernels for {}", name(compute)));
  }
  const OpenMpThreads scope(threads_);
  for_each_kernel(program, [&](const KernelCall& call) {
    if (filter == nullptr || filter(*call.node)) prepare(call, compute);
  });
}

void CpuBackend::prepare(const KernelCall& call, DType compute) {
  const Node& node = *call.node;
  const DispatchEntry& entry = table_[static_cast<std::size_t>(node.kernel)];
  if (entry.run == nullptr)
    throw_bad_input(
        fmt::format("{}: the CPU backend has no kernel {}", name(node.role), name(node.kernel)));
  check_types(call, compute);
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
