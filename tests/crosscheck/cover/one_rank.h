// Plans against training on one rank, nothing sharded, recomputed or offloaded: the same model,
// kernel set, recipe and delay of the update.
#pragma once

#include <memory>

#include "tests/support/gradient_log.h"
#include "tests/support/trained.h"

namespace zplan::testing_support {

// The third step is the first that reuses the events of a queue, and the first whose parameters a
// delayed update has changed.
inline constexpr int kCoverSteps = 3;

// The plan that trains so.
Plan on_one_rank(const Plan& plan);

struct Logged : Trained {
  GradientLog gradients;  // of the first step whose gradients an update uses
};

// Threaded, with a timeline.
std::unique_ptr<Logged> train_logged(const Plan& plan);

// Trains the plan in fp64, where any disagreement is a bug, since rounding is 1e-16.
void expect_agreement_in_fp64(const Plan& plan);
// Leaves room for another order of summation: of losses, first gradients and parameters in fp32,
// of losses in 16 bits.
void expect_agreement_within_rounding(const Plan& plan, const Logged& got);

}  // namespace zplan::testing_support
