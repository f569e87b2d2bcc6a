#include "planner/validate/run_tree.h"

#include <algorithm>

namespace zplan {
namespace {

bool is_below(std::string_view pointer, const RunKey& key) {
  return key.pointer.starts_with(pointer) && key.pointer.substr(pointer.size()).starts_with('/');
}

}  // namespace

std::vector<RunMember> run_members(std::string_view pointer) {
  std::vector<RunMember> out;
  for (const RunKey& key : run_keys()) {
    if (!is_below(pointer, key)) continue;
    const std::size_t begin = pointer.size() + 1, end = key.pointer.find('/', begin);
    const bool is_leaf = end == key.pointer.npos;
    const std::string_view at = key.pointer.substr(0, end);
    if (!is_leaf && std::ranges::find(out, at, &RunMember::pointer) != out.end()) continue;
    out.push_back({std::string(at.substr(begin)), std::string(at), is_leaf ? &key : nullptr});
  }
  return out;
}

bool has_below(std::string_view pointer, bool RunKey::*mark) {
  return std::ranges::any_of(
      run_keys(), [&](const RunKey& key) { return key.*mark && is_below(pointer, key); });
}

}  // namespace zplan
