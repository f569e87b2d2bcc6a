// A configuration that another one names by its path.
#pragma once

#include "planner/core/json_reader.h"

namespace zplan {

// `path` is a string; the file is looked for from the working directory, from the folder of the
// file that names it, and from the folders above that one, as paths are often relative to the top
// of a repository. Throws Error at the path where there is none, and where it is not read.
JsonNode read_named_config(const JsonNode& path);

// JSON as DeepSpeed reads it: with comments, and with commas behind last items [DeepSpeed].
JsonNode parse_lenient_json(std::string text, const std::string& name);

}  // namespace zplan
