#include "planner/cost/goodput.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "planner/program/job/ops.h"
#include "planner/program/job/piece_axes.h"

namespace zplan {
namespace {

// Of a unit on all ranks of a stage, each element once: pieces of tensor parallel ranks and of
// those with experts of their own, and once what all of them have.
double elements_of(const Unit& unit, const Mesh& mesh) {
  const double shared = static_cast<double>(unit.shared_elements);
  const double own = static_cast<double>(unit.elements) - shared;
  const double experts = mesh.size(unit.experts);
  return (own * mesh.size(piece_axes(mesh, unit.experts)) + shared) * experts;
}

double instances_of(const RankClass& c, const Unit& unit) {
  if (!unit.per_layer) return 1;
  return static_cast<double>(c.layers_with(unit).size()) / c.program.unit_layers * unit.tiles;
}

double bytes_of(const RankClass& c, const StateHome& state, double elements) {
  const Buffer& buffer = c.program.buffers[state.buffer];
  return elements / state.every * static_cast<double>(size_of(buffer.dtype).value);
}

}  // namespace

CheckpointBytes checkpoint_bytes(const Job& job) {
  CheckpointBytes sum;
  std::set<std::string> seen;  // units outside the layers that several stages have
  for (const RankClass& c : job.classes)
    for (const UnitHome& home : c.homes) {
      const Unit& unit = job.units[home.unit];
      if (!unit.per_layer && !seen.insert(unit.name).second) continue;
      const double elements = elements_of(unit, job.mesh) * instances_of(c, unit);
      sum.parameters += bytes_of(c, home.param, elements);
      if (home.master.buffer != home.param.buffer) sum.master += bytes_of(c, home.master, elements);
      for (const StateHome& moment : home.moments) sum.moments += bytes_of(c, moment, elements);
    }
  return sum;
}

CheckpointPath checkpoint_path(const Cluster& cluster, int nodes,
                               std::optional<BytesPerSecond> shared) {
  const TopologySpec& spec = cluster.node.topology;
  const BytesPerSecond gpus = spec.gpu_pcie.capacity * spec.gpu_pcie.efficiency * spec.gpus();
  const double switches = spec.sockets * spec.switches_per_socket;
  const BytesPerSecond uplinks = spec.pcie_uplink.capacity * spec.pcie_uplink.efficiency * switches;
  const BytesPerSecond drives =
      cluster.node.nvme.write_bandwidth() * cluster.node.nvme.efficiency * nodes;
  return {.to_host = std::min(gpus, uplinks) * nodes, .storage = shared.value_or(drives)};
}

BytesPerSecond storage_read(const Cluster& cluster, int nodes,
                            std::optional<BytesPerSecond> shared) {
  const NvmeProfile& nvme = cluster.node.nvme;
  return shared.value_or(nvme.read_bandwidth() * nvme.efficiency * nodes);
}

Goodput goodput(Seconds write, const Failures& failures) {
  const double d = write.value, m = failures.mtbf.value;
  const double daly = std::sqrt(2 * d * m) * (1 + std::sqrt(d / (2 * m)) / 3 + d / (18 * m)) - d;
  return goodput_at({d < 2 * m ? daly : m}, write, failures);
}

Goodput goodput_at(Seconds interval, Seconds write, const Failures& failures) {
  const double d = write.value, m = failures.mtbf.value, tau = interval.value;
  // Time per interval of work if restarts took none, and the share of the time that has none: both
  // are finite where the time itself, which is the first over the second, is not.
  const double without = m * std::expm1((tau + d) / m);
  const double up = std::exp(-failures.restart.value / m);
  return {.young = {std::sqrt(2 * d * m)},
          .interval = interval,
          .effective = tau / without * up,
          .checkpointing = d / without * up,
          .rework = (1 - (tau + d) / without) * up,
          .restarting = 1 - up};
}

}  // namespace zplan
