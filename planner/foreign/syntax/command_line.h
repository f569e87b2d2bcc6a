// The command line of a training run as JSON, from a shell script or from its arguments alone:
//
//   {"launcher": {"--nproc_per_node": 8, ..}, "script": "pretrain_gpt.py",
//    "arguments": {"--num-layers": 24, "--bf16": true, "--split": [..]}}
//
// An option without a value is true, one with several an array; given twice, the last one counts.
// Words that are numbers are numbers. Of several commands the one with the most options counts; a
// script with none, which others read, says those that its variables hold. A script that it reads
// itself is followed where it is beside it (script_files.h).
#pragma once

#include <string>
#include <vector>

#include "planner/core/json_reader.h"
#include "planner/foreign/syntax/script_files.h"

namespace zplan {

// A variable that is not set, or what a command prints, where more options may stand.
struct UnknownWord {
  std::string place;  // "run.sh:12:1"
  std::string text;   // "$EXTRA_ARGS"
};

struct CommandLine {
  JsonNode root;
  std::vector<std::string> assumed;  // "run.sh:12:1", where a condition was taken to hold
  std::vector<ReadScript> scripts;   // that it reads
  std::vector<UnknownWord> unknown;  // which are taken to be nothing; values of options are kept
};

// Throws Error where there is no option.
CommandLine parse_command_line(std::string text, std::string name);

}  // namespace zplan
