// Why a plan of a family, or with the pins of the question, is not the one that is recommended: the
// best of those plans beside the best one with the same batch and stack and no other pin. Where
// none of them fits, the one that is least over, and the smallest single change that makes it fit:
// it costs lowering and placing a few plans, so only this answer has it, for the family asked for.
// JSON schema "zplan.why_not/1".
#pragma once

#include "planner/cli/answer/answer.h"

namespace zplan {

struct WhyNot {
  Answer pinned, free;
};

Sheet why_not_sheet(const WhyNot& found);

}  // namespace zplan
