// The objects of a record, as the pointers of its keys (run_keys.h) make them. Reading, writing,
// the template and the schema all walk this tree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/validate/run_keys.h"

namespace zplan {

struct RunMember {
  std::string name;
  std::string pointer;
  const RunKey* key = nullptr;  // null: the member is an object
};

// Members of the object at a pointer, each once, in the order of the rows; "" is the whole record.
std::vector<RunMember> run_members(std::string_view pointer);

// Returns true if a key below the pointer has the mark, &RunKey::required or &RunKey::shown.
bool has_below(std::string_view pointer, bool RunKey::*mark);

}  // namespace zplan
