// Which plans a software can run: those that the configuration files of its framework can say
// (planner/foreign/frameworks/round_trip.h), kept to what its profile states besides
// (hwprofiles/stack.h, ExpressedPlans). Profiles without a framework state all of it.
//
// A framework decides some things by itself: how it gathers, what it overlaps, in which element
// types it keeps the states. A plan is one that it can run if everything else comes back from its
// files as it was written; `as_run` is the plan with what the framework decides.
//
// [derived] What files can say does not depend on how many replicas there are beyond one, nor on
// the size of the micro-batch, so plans that differ in these alone are written once. A plan is
// written first without tensor parallelism and a pipeline: what is refused then (homes of states, a
// ZeRO stage) is refused with them, too.
#pragma once

#include <cstdint>
#include <optional>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/stack.h"
#include "models/model_config.h"
#include "planner/plan/pins.h"

namespace zplan {

// Whether what the user pinned has to be said by the files, or whether that the software runs it so
// is the user's word, whatever its files can say.
enum class Pinned : std::uint8_t { kSaid, kUsersWord };

// `asked`: what the user pinned, which the software must not decide otherwise. Nothing where the
// software can run every plan, as our own executor does. Throws Error where a statement of the
// profile is no constraint.
std::optional<SoftwarePlans> plans_of(const StackProfile& software, const ModelConfig& model,
                                      const Cluster& cluster, const Pins& asked,
                                      Pinned pinned = Pinned::kSaid);

}  // namespace zplan
