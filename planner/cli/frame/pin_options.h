// The options that pin choices of a plan: how they are typed, and which pins came to nothing.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/cli/frame/syntax.h"
#include "planner/search/search.h"

namespace zplan {

// Heading of the options that pin something, which stand on a page of their own.
inline constexpr const char* kPinsGroup = "Planning choices (searched or usual unless given)";
inline constexpr const char* kPinsPage =
    "zplan help pins lists the planning choices, which also are options here: --tp, --pp, --zero "
    "..";

// The options of the rows of choices.h, and of the recipes. What they are read into must stay where
// it is until the command line has been read.
class PinOptions {
 public:
  // The option of one decision, in the group of the options before it.
  void add(std::string_view pointer, Syntax& syntax, Pins& pins);
  // A group of all others, in their places.
  void add_others(Syntax& syntax, Pins& pins);
  // Adds all of them, a group for each subject.
  void add_by_subject(Syntax& syntax, Pins& pins);
  // After the command line has been read. Throws Error.
  void finish(Pins& pins) const;

 private:
  struct Flag {
    const Decision& row;
    bool value;
    bool is_given = false;
  };
  // Returns those that have not been added, in their places.
  std::vector<const Decision*> others() const;

  std::deque<Flag> flags_;
  std::set<const Decision*> added_;
};

// Returns whether --precision names a format of products in place of recipes: "fp8", "fp8_block",
// "mxfp8".
bool is_product_format(std::string_view word);

// Returns the heading under which the page of pins has a decision.
std::string_view subject_of(const Decision& row);
// Returns the page of `zplan help pins`.
std::string pins_page();

// What the user asked for that a plan, though it obeys, does not use; one line each. Also devices
// that pinned sizes leave idle.
std::vector<std::string> idle_pins(const Pins& pins, const Plan& plan, const Cluster& cluster);

}  // namespace zplan
