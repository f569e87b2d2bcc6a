#include "planner/cost/core_time.h"

#include <algorithm>

namespace zplan {
namespace {

// Sizes of a kernel in the table, and how many such pieces of work it is.
struct TableWork {
  CoreProfile::Sizes sizes{1, 1, 1};
  double times = 1;
};

TableWork table_work(const Demand& demand) {
  const auto real = [](std::int64_t size) {
    return static_cast<double>(std::max<std::int64_t>(1, size));
  };
  switch (demand.kind) {
    case WorkKind::kGemm: {
      const Product& p = demand.product;
      return {{real(p.m), real(p.n), real(p.k)}, real(p.batch * p.times)};
    }
    case WorkKind::kAttention: {
      const AttentionWork& a = demand.attention;
      return {{real(a.batch * a.heads * a.sequence), real(a.sequence), real(a.head_size)}, 1};
    }
    case WorkKind::kMemory:
    case WorkKind::kHost:
      break;
  }
  return {{real(demand.bytes.value), 1, 1}, 1};
}

}  // namespace

CoreTime kernel_on_cores(KernelId kernel, const Demand& demand, const Cluster& cluster,
                         Seconds fallback) {
  const TableWork work = table_work(demand);
  const int threads = cluster.threads_per_rank;
  const auto once = cluster.node.cores->kernel(name(kernel), threads, work.sizes);
  const HardwareTime rests = demand.kind == WorkKind::kGemm        ? HardwareTime::kProducts
                             : demand.kind == WorkKind::kAttention ? HardwareTime::kAttention
                                                                   : HardwareTime::kMemory;
  return {once ? *once * work.times : fallback, demand.kind == WorkKind::kHost ? 1 : threads,
          multiplies(demand.kind), rests};
}

CoreTime copy_on_cores(Bytes bytes, const CoreProfile& cores) {
  return {cores.copy(bytes), 1, false, HardwareTime::kHostLink};
}

CoreTime collective_on_cores(CollectiveKind kind, int ranks, Bytes bytes, const CoreProfile& cores,
                             Seconds fallback) {
  const auto met = cores.collective(name(kind), ranks, bytes);
  if (!met) return {fallback, 1, false, HardwareTime::kPeerLinks};
  const double side_by_side = std::min(1.0, static_cast<double>(cores.cores) / met->ranks);
  return {met->time * side_by_side, 1, false, HardwareTime::kPeerLinks};
}

CoreTime transfer_on_cores(Bytes bytes, const CoreProfile& cores) {
  return {cores.transfer(bytes), 1, false, HardwareTime::kPeerLinks};
}

}  // namespace zplan
