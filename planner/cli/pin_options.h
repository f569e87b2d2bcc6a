// The options that pin choices of a plan: how they are typed, and which pins came to nothing.
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/cli/syntax.h"
#include "planner/search/search.h"

namespace zplan {

// Options and what they are read into; finish() turns the latter into pins.
class PinOptions {
 public:
  void add_to(Syntax& syntax, Pins& pins);
  // After the command line has been read. Throws Error.
  void finish(Pins& pins) const;

 private:
  bool sequence_parallel_ = false, no_sequence_parallel_ = false;
  bool partition_activations_ = false, delayed_update_ = false, no_clip_ = false, owners_ = false;
};

// What the user asked for that a plan, though it obeys, does not use; one line each. Also devices
// that pinned sizes leave idle.
std::vector<std::string> idle_pins(const Pins& pins, const Plan& plan, const Cluster& cluster);

}  // namespace zplan
