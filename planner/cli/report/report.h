// What the page of `zplan report` shows: plans, of the first one all that the other answers say and
// a few figures more. The page draws what is here and computes nothing of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/cli/answer/answer.h"
#include "planner/cli/frame/options.h"
#include "planner/cli/frame/sheet.h"
#include "planner/cli/predict/simulation.h"
#include "planner/cli/sensitivity/sensitivity.h"
#include "planner/program/timeline/comparison.h"

namespace zplan {

struct ReportedPlan {
  std::string file;
  Simulation simulation;
};

// Work and time of the operations of a role, of one rank of a stage and a step.
struct RooflinePoint {
  Role role{};
  double flops = 0, bytes = 0;
  Seconds time{};  // of each alone
};

// The step of the plan on hardware with `row` and `column` times two of its quantities.
struct StepGrid {
  const HardwareQuantity *row = nullptr, *column = nullptr;
  std::vector<double> factors;
  std::vector<std::optional<Seconds>> steps;  // by row, then column; nothing: it cannot have it
};

struct Report {
  std::vector<ReportedPlan> plans;  // the first is the one in detail
  PlanPrices prices;
  Timeline timeline;  // folded
  Answer answer;      // of the search for the same model, batch and cluster
  std::vector<RooflinePoint> roofline;
  std::optional<StepGrid> grid;
  std::optional<Comparison> measured;
};

// Nothing where no plan answers the question. Plans from files are shown whether they fit or not.
std::optional<Report> make_report(const ReportCommand& command);
// Returns what the plan in detail is called: its file, where there is one.
std::string first_name(const ReportCommand& command);

std::vector<RooflinePoint> roofline_of(const Job& job, const Cluster& cluster, int stage);
// Nothing where the step follows fewer than two quantities.
std::optional<StepGrid> step_grid(const PlanPrices& prices);
// Slices by stage and lane and memory over the step, small enough for a page.
Value timeline_value(const Report& report);

// Throws Error where the build lacks a part of the page.
void check_page();
// The page, whole.
std::string report_page(const Report& report, const ReportCommand& command);

}  // namespace zplan
