#include "planner/foreign/frameworks/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace zplan {
namespace {

struct RankShape {
  std::int64_t nodes = 1, gpus = 1;  // that the ranks fill, and of each
};

RankShape placement_of(const Plan& plan, const Cluster& cluster) {
  const std::int64_t ranks = plan.parallel.ranks();
  const std::int64_t gpus = std::min<std::int64_t>(cluster.node.devices_per_node, ranks);
  return {(ranks + gpus - 1) / gpus, gpus};
}

std::string exports(const Launched& launched) {
  std::string out;
  for (const std::string& each : launched.environment) out += fmt::format("export {}\n", each);
  return out;
}

constexpr std::string_view kHere = "cd -- \"$(dirname -- \"$0\")\"\n";

// What starts the ranks of one node, of the number `node`; the first node is at `address`.
std::string node_launcher(const RankShape& shape, const Launched& launched, std::string_view node,
                          std::string_view address, std::string_view port) {
  if (launched.accelerate_config.empty())
    return fmt::format(
        "torchrun --nnodes {} --nproc_per_node {} --node_rank {} \\\n"
        "  --master_addr {} --master_port {} \\\n  {}",
        shape.nodes, shape.gpus, node, address, port, launched.program);
  return fmt::format(
      "accelerate launch --config_file {} --num_machines {} --num_processes {} \\\n"
      "  --machine_rank {} --main_process_ip {} --main_process_port {} \\\n  {}",
      launched.accelerate_config, shape.nodes, shape.nodes * shape.gpus, node, address, port,
      launched.program);
}

// Says what the script does, as lines of a comment.
std::string started_words(const RankShape& shape) {
  const std::string ranks = shape.gpus == 1 ? "one rank" : fmt::format("{} ranks", shape.gpus);
  if (shape.nodes == 1) return fmt::format("Starts {} on this node.\n", ranks);
  return fmt::format(
      "Starts {} on each of {} nodes: it runs on each of them, with NODE_RANK and\n"
      "# MASTER_ADDR set.\n",
      ranks, shape.nodes);
}

std::string by_hand(const RankShape& shape, const Launched& launched) {
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "# {0}set -euo pipefail\n{1}{2}exec {3} \"$@\"\n",
      started_words(shape), kHere, exports(launched),
      node_launcher(shape, launched, "\"${NODE_RANK:-0}\"", "\"${MASTER_ADDR:-127.0.0.1}\"",
                    "\"${MASTER_PORT:-29500}\""));
}

// Open MPI starts the ranks themselves, or what starts those of a node.
std::string with_mpirun(const RankShape& shape, const Launched& launched) {
  std::string forwarded;
  for (const std::string& each : launched.environment)
    forwarded += " -x " + each.substr(0, each.find('='));
  const bool starts_ranks = launched.accelerate_config.empty();
  const std::string started =
      starts_ranks
          ? fmt::format(
                "export RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK\n"
                "   export WORLD_SIZE=$OMPI_COMM_WORLD_SIZE\n   exec python {}",
                launched.program)
          : "exec " + node_launcher(shape, launched, "\"$OMPI_COMM_WORLD_RANK\"",
                                    "\"$MASTER_ADDR\"", "\"$MASTER_PORT\"");
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "# Starts {0} rank{8} with Open MPI, {1} on each node of its host file.\n"
      "set -euo pipefail\n{2}{3}"
      "export MASTER_ADDR=\"${{MASTER_ADDR:-$(hostname)}}\" "
      "MASTER_PORT=\"${{MASTER_PORT:-29500}}\"\n"
      "exec mpirun -np {4} --map-by ppr:{5}:node -x MASTER_ADDR -x MASTER_PORT{6} bash -c \\\n"
      "  '{7} \"$@\"' -- \"$@\"\n",
      shape.nodes * shape.gpus, shape.gpus, kHere, exports(launched),
      starts_ranks ? shape.nodes * shape.gpus : shape.nodes, starts_ranks ? shape.gpus : 1,
      forwarded, started, shape.nodes * shape.gpus == 1 ? "" : "s");
}

std::string with_slurm(const RankShape& shape, const Launched& launched) {
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "#SBATCH --nodes={0}\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node={1}\n"
      "#SBATCH --exclusive\n"
      "# Submit it from this folder: sbatch launch.sbatch\n"
      "set -euo pipefail\n{2}"
      "export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
      "exec srun bash -c \\\n  'exec {3} \"$@\"' -- \"$@\"\n",
      shape.nodes, shape.gpus, exports(launched),
      node_launcher(shape, launched, "\"$SLURM_NODEID\"", "\"$MASTER_ADDR\"", "29500"));
}

}  // namespace

std::vector<OutputFile> launch_files(const Plan& plan, const Cluster& cluster,
                                     const Launched& launched) {
  const RankShape shape = placement_of(plan, cluster);
  return {{"launch.sh", by_hand(shape, launched), true},
          {"launch_mpi.sh", with_mpirun(shape, launched), true},
          {"launch.sbatch", with_slurm(shape, launched), true}};
}

}  // namespace zplan
