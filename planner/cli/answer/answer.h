// The answer of `zplan plan`: what was asked, the plan that was found with its predictions, or why
// there is none. JSON schema "zplan.answer/1".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/cli/answer/objective.h"
#include "planner/cli/frame/options.h"
#include "planner/cli/frame/sheet.h"
#include "planner/cli/predict/prediction.h"
#include "planner/cli/predict/stack_use.h"
#include "planner/search/search.h"
#include "planner/validate/anchoring.h"

namespace zplan {

struct FoundPlan {
  PlannedJob planned;
  MemoryPrediction memory;
  TimePrediction time;
};

// A line of the table says the step with a software, or the hardware limit.
struct SoftwareLine {
  std::string title;    // "DeepSpeed 2021"
  std::string profile;  // of hwprofiles/stacks; empty: the hardware limit
  Seconds step{};
  double mfu = 0;
  std::optional<TimeInterval> interval{};  // of a prediction
  std::string basis;                       // "11 runs on V100, within 30 %", "a bound"
  std::string runs;                        // the same without the device
  std::optional<Plan> plan{};              // where it is not that of the answer
};

struct Answer {
  ModelConfig model;
  Cluster cluster;
  std::int64_t global_batch = 0;  // sequences per step, as planned for
  std::int64_t sequence = 0;      // tokens
  ObjectiveAnswer objective;
  SearchResult search;
  // Nothing when no plan fits, unless capacity is ignored: then the closest one.
  std::optional<FoundPlan> best;
  std::string relaxing;         // where nothing fits: an option without which a plan does
  std::vector<Anchor> anchors;  // what --anchor and --measured changed
  std::optional<MemoryCalibration> memory_calibration{};
  Evidence evidence;                           // of the software whose rates the cluster has
  bool has_chosen_software = false;            // nobody asked for it
  std::string unmeasured{};                    // plans that it can run and was not asked for
  std::optional<Simulated> beyond{};           // one of these that is faster than the answer
  std::string calibration{};                   // the file of --anchor
  std::string not_said{};                      // what the software's files cannot say of the pins
  std::vector<SoftwareLine> software{};        // only where it was asked for
  std::optional<SoftwareLine> other{};         // of other measured software, with its own plan
  Pins pins;                                   // those of the stack, too
  std::optional<Seconds> elapsed;              // only when asked for: differs from call to call
  std::vector<std::string> assumed, left_out;  // of a foreign model, a sentence each
};

// Whether a plan of the space fits.
inline bool fits(const Answer& answer) { return answer.search.best.has_value(); }

// With the software of --for; without one with that which is measured best for such plans
// (planner/software/choice.h).
Answer find_answer(const PlanCommand& command);
// The same question with the software of an answer, so that two answers can be compared.
PlanCommand with_software_of(PlanCommand question, const Answer& answer);
// Says what the plan that was found takes with its software.
SoftwareLine software_line(const Answer& answer);
// The plan with its software, other software that was measured, the plan with our own executor, and
// the hardware limit. Where another was measured and our own executor never ran on such devices, it
// has no line.
std::vector<SoftwareLine> software_lines(const Answer& answer, const PlanCommand& command);

// What the objective counts of the plan that was found.
std::optional<ObjectiveStep> objective_step(const Answer& answer);

// "zero-infinity-1t does not fit on dgx2: at the least ..", one line, of the plan least over.
std::string misfit_line(const Answer& answer);

// Names what the space has not; no sentence about its plans speaks of it: "context parallelism".
std::vector<std::string> left_out_of_space(const Answer& answer);

// Why the slower tiers that the plan uses are needed: "only with NVMe: ..", or nothing.
std::string tier_reason(const Answer& answer);

// Of a plan that was simulated, beside the one that is recommended.
Sheet simulated_sheet(const Simulated& one, const Plan& best);

Sheet answer_sheet(const Answer& answer, const PlanCommand& command);

}  // namespace zplan
