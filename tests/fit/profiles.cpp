#include "tests/fit/profiles.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "planner/core/error.h"

namespace zplan::fit {
namespace {

// Replaces the line of a value, or adds one behind `head`; both are sought from `from` on, and the
// value before the next member "id": it is of the next system.
std::string with_value(const std::string& text, std::size_t from, const std::string& head,
                       const std::string& key, const std::string& value) {
  const std::size_t at = text.find(key, from);
  if (at < text.find("\"id\"", from + 1)) {
    const std::size_t end = text.find('\n', at);
    const bool more = text[end - 1] == ',';
    return text.substr(0, at) + key + value + (more ? "," : "") + text.substr(end);
  }
  const std::size_t behind = text.find(head, from) + head.size();
  const bool empty = text.compare(behind, 3, "  }") == 0;
  return text.substr(0, behind) + key + value + (empty ? "\n" : ",\n") + text.substr(behind);
}

// A profile's value says its uncertainty in words, where a stack's has a member for it.
std::string sourced(const Free& free, double value, double uncertainty, const std::string& groups) {
  const bool stack = free.rate != nullptr;
  return fmt::format(
      "{{\"value\": {}, {}\"source\": \"fitted\", \"ref\": \"step times of {}{} [RunFit]\"}}",
      written(value, free.seconds),
      stack ? fmt::format("\"uncertainty\": {:.2g}, ", uncertainty) : "", groups,
      stack ? "" : fmt::format(", +- {:.2g}", uncertainty));
}

// The groups whose runs determine a value.
std::string groups_of(const Problem& problem, const Free& free) {
  std::string groups;
  for (const Sample& sample : problem.samples) {
    if (!free.concerns(sample) ||
        (", " + groups + ",").find(", " + sample.group + ",") != std::string::npos)
      continue;
    groups += (groups.empty() ? "" : ", ") + sample.group;
  }
  return groups;
}

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  if (text.str().empty()) throw_bad_input(path + ": cannot be read");
  return text.str();
}

}  // namespace

std::string written(double value, bool seconds) {
  if (!seconds) return fmt::format("{:.3g}", value);
  return value < 1e-3 ? fmt::format("\"{:.3g} us\"", value * 1e6)
                      : fmt::format("\"{:.3g} ms\"", value * 1e3);
}

void write_profiles(const Problem& problem, const Solution& solution, const std::string& folder) {
  for (std::size_t k = problem.free.size(); k-- > 0;) {
    const Free& free = problem.free[k];
    const std::string groups = groups_of(problem, free);
    if (groups.empty()) continue;
    const bool stack = free.rate != nullptr;
    const std::string path = stack ? fmt::format("{}/stacks/{}.json", folder, free.owner)
                                   : folder + "/catalogue/hardware/systems.json";
    const std::string text = text_of(path);
    const std::size_t from = stack ? 0 : text.find(fmt::format("\"id\": \"{}\"", free.owner));
    const std::string head = stack ? "\"rates\": {\n" : ",\n";
    const std::string key = fmt::format("{}\"{}\": ", stack ? "    " : "      ", free.key());
    std::ofstream(path) << with_value(
        text, from, head, key, sourced(free, solution.values[k], solution.uncertainty(k), groups));
  }
}

}  // namespace zplan::fit
