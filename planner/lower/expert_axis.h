// The axis of replicas that have different experts: the inner part of the data axis.
#pragma once

#include <string_view>

namespace zplan {

inline constexpr std::string_view kExpertAxis = "dp.0";

}  // namespace zplan
