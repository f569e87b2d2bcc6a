// Figures of papers that arithmetic contradicts, or that two places of a paper print differently:
// what is printed, what counting gives, and the command that shows it. Nothing is taken from them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/cli/frame/sheet.h"

namespace zplan {

enum class ClaimUnit : std::uint8_t { kGigabytes, kGibibytes, kGpus, kShare, kCount, kBillions };

struct Claim {
  std::string_view source;   // key and place
  std::string_view what;     // a few words
  double printed = 0;        // in the unit
  std::string_view formula;  // what is counted
  double counted = 0;
  ClaimUnit unit{};
  std::string_view remark;
  std::string_view command;  // that shows it
};

std::vector<Claim> paper_claims();
// Adds them to an answer, under "claims".
void say_claims(Sheet& out);

}  // namespace zplan
