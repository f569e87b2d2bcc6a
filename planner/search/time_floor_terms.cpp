// A floor unfolded: of the stage whose floor it is, what its micro-batches spend in each pass.
#include <fmt/format.h>

#include <algorithm>

#include "planner/search/counted_layers.h"
#include "planner/search/time_floor.h"

namespace zplan {
namespace {

// Of one stage and micro-batch.
struct StageFloor {
  std::size_t stage = 0;
  double layers = 0;
  PassTimes kernels, waits;
  Seconds ends{};    // embedding, head
  Seconds before{};  // stages before it, once
  Seconds once() const { return kernels.sum() + waits.sum() + ends; }
};

PassTimes scaled(const PassTimes& times, double factor) {
  return {times.forward * factor, times.recompute * factor, times.backward * factor};
}

PassTimes operator+(const PassTimes& a, const PassTimes& b) {
  return {a.forward + b.forward, a.recompute + b.recompute, a.backward + b.backward};
}

}  // namespace

std::vector<FloorTerm> TimeFloors::terms(const Plan& plan, const StagePieces& stages) {
  const KernelTimes times = times_of(plan);
  const auto micro_steps = static_cast<double>(plan.micro_steps());
  const std::int32_t pieces = plan.pieces();
  const bool in_order = ends_in_order(plan);
  const auto floor = [&](const StageFloor& one) { return one.before + one.once() * micro_steps; };
  StageFloor most;
  Seconds before{}, passed{};
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    StageFloor own{.stage = stage, .kernels = {}, .waits = {}, .before = before};
    for (const PieceInFlight& at : stages[stage]) {
      const auto layers = static_cast<double>(counted_layers(plan, model_, at.piece));
      own.layers += layers;
      own.kernels = own.kernels + scaled(times.layer, layers);
      own.waits = own.waits + scaled(times.between, std::max(0.0, layers - 1));
      if (pieces == 1) own.ends += times.embedding.sum();
      if (at.piece == pieces - 1) own.ends += times.head.sum();
    }
    if (in_order)
      passed += own.kernels.forward + own.kernels.backward + own.waits.forward + own.waits.backward;
    before = passed;
    if (floor(own) > floor(most)) most = own;
  }
  std::vector<FloorTerm> terms;
  const auto add = [&](std::string what, Seconds time) {
    if (time.value > 0) terms.push_back({std::move(what), time});
  };
  const std::string of = fmt::format("stage {}, {} micro-batches of {} layers: ", most.stage,
                                     plan.micro_steps(), most.layers);
  add(of + "forward", most.kernels.forward * micro_steps);
  add(of + "recomputation", most.kernels.recompute * micro_steps);
  add(of + "backward", most.kernels.backward * micro_steps);
  add(of + "waits for ranks that work on a layer together", most.waits.sum() * micro_steps);
  add(of + "embedding and head", most.ends * micro_steps);
  add("the first micro-batch through the stages before it, and back", most.before);
  return terms;
}

}  // namespace zplan
