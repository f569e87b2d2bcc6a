#include "planner/cli/run/process_memory.h"

#include "exec/offload/block_sums.h"
#include "planner/cost/step_totals.h"

namespace zplan {
namespace {

constexpr std::int64_t kKib = 1024;
// [assumed] what runs of models of 0.2M to 14M parameters held beside slabs on Debian 12, with
// oneDNN and liburing linked and one product library that packs in the slab: 12.6 to 13.5 MiB in
// all.
constexpr Bytes kProgram{12 * kKib * kKib};
constexpr Bytes kStack{96 * kKib};    // [derived] blocks of kernels on it, and the thread's record
constexpr Bytes kEngine{128 * kKib};  // [derived] 32 requests, their answers, one block of 4 KiB
constexpr std::int64_t kIndexCopies = 3;  // [derived] program, its index, the backend's calls

Bytes program_bytes(const Program& program) {
  const std::size_t bytes =
      program.nodes.size() * sizeof(Node) + program.views.size() * sizeof(View) +
      program.edges.size() * sizeof(Edge) + program.buffers.size() * sizeof(Buffer);
  return Bytes{static_cast<std::int64_t>(bytes)} * kIndexCopies;
}

std::int64_t lanes_of(const Program& program) {
  unsigned lanes = 0;
  for (const Node& node : program.nodes) lanes |= 1u << static_cast<unsigned>(node.lane);
  std::int64_t count = 0;
  for (; lanes != 0; lanes &= lanes - 1) ++count;
  return count;
}

std::int64_t operations(const Program& program) {
  std::int64_t sum = 0;
  for (const std::int64_t n : instances_per_step(program)) sum += n;
  return sum;
}

}  // namespace

ProcessUse process_use(const Job& job, const ProcessLoad& load) {
  ProcessUse use{.program = kProgram, .text = load.text, .copy = load.copy};
  const std::int64_t ranks = job.replicas();
  for (const RankClass& c : job.classes) {
    const std::int64_t kept = operations(c.program);
    use.programs += program_bytes(c.program) * ranks;
    use.stacks += kStack * (ranks * lanes_of(c.program) * load.threads_per_rank);
    const Bytes file = c.placement.slab[static_cast<std::size_t>(Tier::kNvme)];
    if (file.value > 0) use.engines += (kEngine + exec::BlockSums::memory_of(file)) * ranks;
    const auto span = static_cast<std::int64_t>(sizeof(Span));
    use.timeline += Bytes{
        kept * ranks * (span * load.recorded_steps + static_cast<std::int64_t>(sizeof(SimTime)))};
  }
  return use;
}

Bytes placed_on_host(const Job& job) {
  Bytes sum{0};
  for (const RankClass& c : job.classes)
    for (const Tier tier : {Tier::kGpu, Tier::kCpu})
      sum += c.placement.slab[static_cast<std::size_t>(tier)] * std::int64_t{job.replicas()};
  return sum;
}

}  // namespace zplan
