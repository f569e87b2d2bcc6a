#include "planner/foreign/frameworks/launch.h"

#include <fmt/format.h>

#include <algorithm>

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

std::string with_torchrun(const RankShape& shape, const Launched& launched) {
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "# Starts {1} ranks on each of {0} nodes. On several nodes it runs on each of them, with\n"
      "# NODE_RANK and MASTER_ADDR set.\n"
      "set -euo pipefail\n{2}{3}"
      "exec torchrun --nnodes {0} --nproc_per_node {1} --node_rank \"${{NODE_RANK:-0}}\" \\\n"
      "  --master_addr \"${{MASTER_ADDR:-127.0.0.1}}\" --master_port \"${{MASTER_PORT:-29500}}\" "
      "\\\n"
      "  {4} \"$@\"\n",
      shape.nodes, shape.gpus, kHere, exports(launched), launched.program);
}

std::string with_mpirun(const RankShape& shape, const Launched& launched) {
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "# Starts {0} ranks with Open MPI, {1} on each node of its host file.\n"
      "set -euo pipefail\n{2}{3}"
      "export MASTER_ADDR=\"${{MASTER_ADDR:-$(hostname)}}\" "
      "MASTER_PORT=\"${{MASTER_PORT:-29500}}\"\n"
      "exec mpirun -np {0} --map-by ppr:{1}:node -x MASTER_ADDR -x MASTER_PORT{4} bash -c \\\n"
      "  'export RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK\n"
      "   export WORLD_SIZE=$OMPI_COMM_WORLD_SIZE\n"
      "   exec python {5} \"$@\"' -- \"$@\"\n",
      shape.nodes * shape.gpus, shape.gpus, kHere, exports(launched),
      [&] {
        std::string out;
        for (const std::string& each : launched.environment)
          out += " -x " + each.substr(0, each.find('='));
        return out;
      }(),
      launched.program);
}

std::string with_slurm(const RankShape& shape, const Launched& launched) {
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "#SBATCH --nodes={0}\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node={1}\n"
      "#SBATCH --exclusive\n"
      "# Submit it from this folder: sbatch launch.sbatch\n"
      "set -euo pipefail\n{2}"
      "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
      "exec srun torchrun --nnodes {0} --nproc_per_node {1} --rdzv_backend c10d \\\n"
      "  --rdzv_id \"$SLURM_JOB_ID\" --rdzv_endpoint \"$MASTER_ADDR:29500\" \\\n"
      "  {3} \"$@\"\n",
      shape.nodes, shape.gpus, exports(launched), launched.program);
}

}  // namespace

std::vector<OutputFile> launch_files(const Plan& plan, const Cluster& cluster,
                                     const Launched& launched) {
  const RankShape shape = placement_of(plan, cluster);
  return {{"launch.sh", with_torchrun(shape, launched), true},
          {"launch_mpi.sh", with_mpirun(shape, launched), true},
          {"launch.sbatch", with_slurm(shape, launched), true}};
}

}  // namespace zplan
