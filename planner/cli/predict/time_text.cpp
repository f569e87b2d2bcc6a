#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/prediction_output.h"
#include "planner/core/quantity.h"

namespace zplan {

std::string time_text(const TimePrediction& time, std::size_t indent) {
  const Throughput& t = time.throughput;
  Table table({Align::kLeft, Align::kRight, Align::kLeft});
  const TimeInterval& interval = time.certainty.interval;
  table.row({"step", format_seconds(time.sim.period),
             fmt::format("{:.0f} % interval {} .. {}; {}; cold first step {}", kIntervalPct,
                         format_seconds(interval.low), format_seconds(interval.high),
                         time.sim.steady ? "steady" : "not yet steady",
                         format_seconds(time.sim.first_step))});
  table.row({"tokens/s", grouped(static_cast<std::int64_t>(t.tokens_per_second + 0.5)),
             "global batch x sequence / step"});
  table.row({"model", tflops(t.model_tflops_per_gpu),
             fmt::format("TFLOP/s per GPU, {} MFU: 6 N + 6 L h s flop per token", percent(t.mfu))});
  table.row({"hardware", tflops(t.hardware_tflops_per_gpu),
             fmt::format("TFLOP/s per GPU, {} of the peak {}: with recomputation", percent(t.hfu),
                         tflops(t.peak_tflops))});
  return table.text(indent);
}

std::string certainty_text(const Certainty& certainty) {
  std::vector<std::string> parts = certainty.unknown;
  if (certainty.exceeded) {
    const BestRun& best = *certainty.exceeded;
    parts.push_back(fmt::format("above the best measured on {} in {}: {} MFU ({})", best.device,
                                best.format, percent(best.mfu), best.run));
  }
  if (parts.empty()) return "measured runs of the same stack, device, format and features";
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string limits_text(const TimePrediction& time) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min(kShown, time.sim.limits.size()); ++i) {
    const sim::Limit& limit = time.sim.limits[i];
    parts.push_back(fmt::format("{} {}", limit.resource, percent(limit.share)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace zplan
