// The axis of context parallel ranks [Jacobs23 sec 3.1]. Each has an equal part of every sequence,
// in the order of their places, for all but the core of attention, in which each has a part of the
// heads of whole sequences (blocks/context_parallel.h). As far as parameters, gradients and ZeRO go
// they are replicas like those along the data axis [Jacobs23 sec 3.3].
#pragma once

#include <string_view>

namespace zplan {

inline constexpr std::string_view kContextAxis = "cp";

}  // namespace zplan
