// A file of what another tool measured: tells which tool by its content, and reads it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/foreign/fio.h"
#include "planner/foreign/nccl_tests.h"

namespace zplan {

struct MeasuredFile {
  std::string name;           // as given
  std::vector<NcclRun> runs;  // of nccl-tests, or
  std::optional<FioRun> fio;
};

// Lines before and after the JSON of fio, which it writes on the same stream, are passed over.
// Throws Error, one line with the place, on what neither tool writes.
MeasuredFile parse_measured(std::string text, const std::string& name);

}  // namespace zplan
