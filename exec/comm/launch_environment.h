// Which process of a job this one is, as its launcher tells by environment variables. The first
// family of which a variable is set decides:
//
//   RANK, WORLD_SIZE, LOCAL_RANK                     torchrun, or set by hand
//   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK         mpirun of Open MPI
//   PMI_RANK, PMI_SIZE, MPI_LOCALRANKID              mpirun of MPICH and Intel MPI
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID  srun
//
// srun comes last: mpirun's processes inside a Slurm allocation have variables of both. Of the
// tasks of an allocation (SLURM_NTASKS) only those of a step, which srun starts, are processes:
// without SLURM_STEP_NUM_TASKS, SLURM_NTASKS counts where SLURM_STEP_ID is set.
//
// Rank 0 is met at MASTER_ADDR; else, but for the first family, at the first node of
// SLURM_STEP_NODELIST, SLURM_JOB_NODELIST or SLURM_NODELIST, else at SLURM_LAUNCH_NODE_IPADDR; else
// on this host. The port is MASTER_PORT, else kDefaultPort, to which Slurm's job number is added
// modulo kSlurmPorts so that jobs on one node do not meet. Under torchrun the port above
// MASTER_PORT: it listens at that one itself (TORCHELASTIC_USE_AGENT_STORE).
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace zplan::exec {

inline constexpr int kDefaultPort = 29500;
inline constexpr int kSlurmPorts = 1000;

struct LaunchEnvironment {
  int rank = 0;
  int world = 1;
  int local_rank = 0;  // among the processes of this host; the rank where the launcher is silent
  std::string address = "127.0.0.1";  // of rank 0: a host name or an IPv4 address
  int port = kDefaultPort;
};

// The value of a variable; nothing when it is unset or empty.
using Lookup = std::function<std::optional<std::string>(const char* variable)>;
Lookup process_environment();

// Nothing when no launcher is there or the job is one process. Throws Error(kBadInput) naming the
// variable whose value makes no sense.
std::optional<LaunchEnvironment> launch_environment(const Lookup& lookup);

// The first host of a list as Slurm writes it: "node[003-007,9],login" -> "node003".
std::string first_host(const std::string& node_list);

}  // namespace zplan::exec
