// What `zplan models` and `zplan clusters` print. JSON schemas "zplan.models/1" and
// "zplan.clusters/1".
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"

namespace zplan {

std::string models_json(const std::vector<ModelConfig>& models);
std::string clusters_json(const std::vector<Cluster>& clusters);

}  // namespace zplan
