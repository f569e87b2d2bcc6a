// Where the figures of an answer come from: those of the model, of a node and of the cluster.
#pragma once

#include "planner/cli/answer/answer.h"
#include "planner/cli/frame/value.h"

namespace zplan {

// [{"of", "figure", "value", "source", "ref"}]. The words: all of them as a table, or the keys of
// models/REFERENCES.md that they name and how many figures are assumed.
Value sources_value(const Answer& answer, bool whole);

}  // namespace zplan
