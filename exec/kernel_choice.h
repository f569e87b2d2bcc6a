// Which kernel a backend runs where a device has several for one operation: for reports, and to
// choose the same again, since kernels that compute the same may differ in their last bits.
#pragma once

#include <map>
#include <string>

namespace zplan::exec {

struct KernelChoice {
  std::string operation;    // the first of those with this kernel
  std::string kernel = {};  // for people
  std::string slow = {};    // why it does not use what the device is made for; empty: it does
  // What it was chosen for, and what chooses it again; empty: there was nothing to choose.
  std::string key = {}, value = {};
};

// Values by key.
using KnownChoices = std::map<std::string, std::string>;

}  // namespace zplan::exec
