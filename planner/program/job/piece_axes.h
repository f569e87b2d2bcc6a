// Along which axes ranks have different pieces of a tensor that is cut (job.h, Split).
#pragma once

#include "planner/program/job/job.h"

namespace zplan {

// `experts`: along these ranks have other experts, whole ones where that includes tensor parallel
// ranks.
inline AxisSet piece_axes(const Mesh& mesh, AxisSet experts) {
  return mesh.named(kTensorAxis) - experts;
}

}  // namespace zplan
