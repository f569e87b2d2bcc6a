// What a framework runs of a plan: its configuration files are written for the plan and read again.
// Where the two plans differ the framework does otherwise; nothing else here knows what a framework
// can express.
#pragma once

#include <string_view>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/foreign/frameworks/framework.h"
#include "planner/foreign/frameworks/setup.h"
#include "planner/plan/plan.h"

namespace zplan {

// What is written for a plan, read as the framework reads it.
Setup read_back(const Framework& framework, const Plan& plan, const ModelConfig& model,
                const Cluster& cluster);

// Returns whether the framework does as the plan says in this decision, though a setup that was
// read says otherwise: only what is counted of it here differs.
bool does_as_planned(const Setup& setup, std::string_view pointer);

}  // namespace zplan
