// The options of torchtitan from 0.3 on, which has no TOML, as the sections that its TOML had:
//
//   torchrun .. -m torchtitan.train --module llama3 --config llama3_8b --training.seq_len 4096 ..
//   activation-checkpoint:full
//
// Read are `training`, `parallelism` and the way of recomputation; what the named configuration
// sets besides is not: where an option is not given the default of its class counts.
#pragma once

#include <map>
#include <string>

#include "planner/core/json_reader.h"

namespace zplan {

struct OptionSections {
  JsonNode root;
  std::map<std::string, std::string> places;  // of keys by their dotted paths, where they stand
};

bool has_torchtitan_options(const JsonNode& root);
// Of a root that has some.
OptionSections torchtitan_sections(const JsonNode& root);

}  // namespace zplan
