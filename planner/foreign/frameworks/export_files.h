// The files that run a plan with a framework: its configuration, a training script with the model
// that it builds, and what starts it on one node, with torchrun, mpirun or under Slurm.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/foreign/frameworks/framework.h"

namespace zplan {

struct OutputFile {
  std::string name;  // within the folder
  std::string text;
  bool is_program = false;  // made executable
};

struct ExportFiles {
  std::vector<OutputFile> files;
  std::vector<Finding> findings;  // of the model's config.json, which a script reads
};

// Says why a configuration that describes its model does not describe this one; nothing: it does,
// or it describes none at all.
std::optional<std::string> other_model(const Framework& framework, const Plan& plan,
                                       const ModelConfig& model);

ExportFiles export_files(const Framework& framework, const Plan& plan, const ModelConfig& model,
                         const Cluster& cluster);

}  // namespace zplan
