#include "planner/cli/explain/unexplained.h"

#include <algorithm>

namespace zplan {
namespace {

constexpr std::string_view kOther =
    "it is of another plan: why-not FAMILY compares it, explain of its plan unfolds it";

constexpr Unexplained kRows[] = {
    {"plan.*", "a decision, not a number that follows from others: zplan diff compares decisions"},
    {"infeasible.*", "bytes needed are memory.TIER.peak_bytes, those there usable less reserve"},
    {"objective.*",
     "ranks of the plan, ranks x step, tokens of a step, memory.gpu usable less peak"},
    {"rejected[].*", kOther},
    {"fastest.*", kOther},
    {"software[].*",
     "the same plan with other rates (simulate --for unfolds it), and the hardware limit "
     "(planner/search/hardware_limit.h)"},
    {"top[].*", kOther},
    {"pareto[].*", kOther},
    {"time.experts.*", "imbalances that are assumed, and the step of a plan with twice as much"},
    {"homes.*", "other homes of what is kept for backward, each simulated by itself"},
    {"timing.*", "measured, and different from call to call"},
    {"memory_calibration.*", "of what was measured, and how far it is from what was predicted"},
    {"anchors[].*", "of measured runs of the user's own, before and after they moved the rates"},
    {"infinity.*",
     "closed forms of ZeRO-Infinity (models/zero_infinity.h) beside memory.TIER.by_category"},
    {"deepspeed.*", "closed forms of DeepSpeed's estimators; no answer is made of them"},
};

// Indices left out: "top[3].step_s" is "top[].step_s".
std::string without_indices(const std::string& what) {
  std::string out;
  bool inside = false;
  for (const char c : what) {
    if (c == ']') inside = false;
    if (!inside) out += c;
    if (c == '[') inside = true;
  }
  return out;
}

}  // namespace

std::span<const Unexplained> unexplained() { return kRows; }

std::optional<std::string_view> why_unexplained(const std::string& what) {
  const std::string key = without_indices(what);
  for (const Unexplained& row : kRows) {
    const bool all = row.keys.ends_with('*');
    const std::string_view begin = row.keys.substr(0, row.keys.size() - (all ? 1 : 0));
    if (all ? key.starts_with(begin) : key == begin) return row.why;
  }
  return std::nullopt;
}

}  // namespace zplan
