// A configuration file of a framework: which syntax it is in and whose it is, told by its name and
// content.
#pragma once

#include <string>
#include <vector>

#include "planner/core/json_reader.h"
#include "planner/foreign/frameworks/framework.h"

namespace zplan {

struct ConfigFile {
  JsonNode root;
  const Framework* framework = nullptr;
  std::vector<Finding> findings{};  // of the syntax: what was taken where it leaves a choice
};

// Throws Error, one line with the place, on broken syntax and on what no framework writes.
ConfigFile read_config(const std::string& path);
ConfigFile parse_config(std::string text, const std::string& name);

}  // namespace zplan
