#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "planner/cli/frame/output.h"
#include "planner/cli/frame/sheet.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/validate/checks.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

Value text_or_null(const std::string& text) { return text.empty() ? Value() : Value(text); }

Sheet finding_sheet(const CheckFinding& finding) {
  const auto& moved = finding.moved;
  return {{"kind", finding.kind},
          {"fails", finding.fails},
          {"run", text_or_null(finding.run)},
          {"group", text_or_null(finding.group)},
          {"before_pct", finding.before_pct},
          {"error_pct", finding.error_pct},
          {"part", moved ? Value(key(moved->use)) : nullptr},
          {"part_before_s", moved ? Value(moved->before_s) : nullptr},
          {"part_after_s", moved ? Value(moved->after_s) : nullptr},
          {"sentence", finding.sentence}};
}

// "--most-off 10%, --baseline base.json"
std::string asked_words(const Checks& checks) {
  std::vector<std::string> asked;
  if (checks.most_off) asked.push_back(fmt::format("--most-off {:g}%", *checks.most_off));
  if (checks.most_mean_off)
    asked.push_back(fmt::format("--most-mean-off {:g}%", *checks.most_mean_off));
  if (!checks.baseline.empty())
    asked.push_back(fmt::format("--baseline {} --most-worse {:g}%", visible(checks.baseline),
                                *checks.most_worse));
  return joined(asked, ", ");
}

}  // namespace

void tell_findings(const Checks& checks) {
  for (const CheckFinding& finding : checks.findings) complain(finding.sentence);
}

Value checks_value(const Checks& checks) {
  const auto failures = std::ranges::count_if(checks.findings, &CheckFinding::fails);
  Sheet out{{"passed", checks.passes()},
            {"most_off_pct", checks.most_off},
            {"most_mean_off_pct", checks.most_mean_off},
            {"baseline", text_or_null(checks.baseline)},
            {"most_worse_points", checks.most_worse},
            {"findings", each(checks.findings, finding_sheet)}};
  const std::string left_out = checks.not_predicted > 0
                                   ? fmt::format(", {} of {} not predicted", checks.not_predicted,
                                                 count_of(checks.runs, "run"))
                                   : "";
  out.print(fmt::format("Checks ({}): {}{}\n", asked_words(checks),
                        failures == 0 ? "passed" : count_of(failures, "failure"), left_out));
  return out;
}

}  // namespace zplan
