// Scripts that start a training program on the ranks of a plan.
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/foreign/frameworks/export_files.h"

namespace zplan {

struct Launched {
  std::string program;                   // "train.py --sequence 4096"
  std::vector<std::string> environment;  // "CUDA_DEVICE_MAX_CONNECTIONS=1"
  // Of `accelerate launch`, which then starts the ranks of a node; else torchrun does.
  std::string accelerate_config;
};

// launch.sh (on one node or on each of several), launch_mpi.sh and launch.sbatch.
std::vector<OutputFile> launch_files(const Plan& plan, const Cluster& cluster,
                                     const Launched& launched);

}  // namespace zplan
