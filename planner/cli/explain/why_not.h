// Why a plan with the pins of the question is not the one that is recommended: the best plan with
// them beside the best one with the same batch and stack and no other pin. JSON schema
// "zplan.why_not/1".
#pragma once

#include "planner/cli/answer/answer.h"

namespace zplan {

struct WhyNot {
  Answer pinned, free;
};

Sheet why_not_sheet(const WhyNot& found);

}  // namespace zplan
