#include "hwprofiles/network.h"

#include <fmt/format.h>

#include "planner/core/text.h"

namespace zplan {

std::string switch_name(const SwitchSet& set, std::span<const std::int64_t> indices) {
  if (indices.empty()) return set.name;
  return fmt::format("{}[{}]", set.name, joined(indices, ","));
}

std::string port_name(std::int64_t node, std::int64_t port) {
  return fmt::format("node[{}].port[{}]", node, port);
}

}  // namespace zplan
