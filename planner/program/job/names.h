// The words of every enumeration and the way back, from one table each (names.cpp). Words are
// snake_case and distinct within their enumeration; text form, Timelines and reports use no others.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/program/job/job.h"

namespace zplan {

std::string_view name(Match match);
std::string_view name(Var var);
std::string_view name(Init init);

// For every enumeration that has name(). nullopt: no such word.
template <typename Enum>
std::optional<Enum> parse_name(std::string_view word);

// "gpu, cpu or nvme", for messages.
template <typename Enum>
std::string all_names();

// "forward.qkv.compute"
std::optional<Role> parse_role(std::string_view text);
// "forward.qkv.compute[m0,l3]", "..[m0,l3,t2]"
std::optional<OpId> parse_op_name(std::string_view text);

}  // namespace zplan
