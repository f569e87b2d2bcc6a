#include "planner/foreign/frameworks/key_list.h"

#include <fmt/format.h>

namespace zplan {

void KeyList::add(std::string_view key, double number) { put(key, fmt::format("{}", number)); }

}  // namespace zplan
