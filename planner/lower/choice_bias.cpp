#include "planner/lower/choice_bias.h"

#include <string>

namespace zplan {
namespace {

constexpr Part kPart = Part::kRouter;

}  // namespace

View loads_of(const Stage& stage, UnitIndex unit, std::int32_t member) {
  const std::vector<BalancedBias>& all = stage.layout.balanced[unit];
  std::size_t i = 0;
  while (all[i].member != member) ++i;
  View loads =
      view_of(*stage.choice_loads[unit], DType::kF64, {1, all[i].experts}, stage.unit_slot(unit));
  loads.offset = loads.bytes() * static_cast<std::int64_t>(i);
  return loads;
}

ChoiceBias::ChoiceBias(Stage& stage) : s_(stage) {
  s_.choice_loads.resize(s_.layout.units.size());
  for (UnitIndex u = 0; u < s_.layout.units.size(); ++u) {
    const std::vector<BalancedBias>& all = s_.layout.balanced[u];
    if (all.empty() || !s_.holds(u)) continue;
    s_.choice_loads[u] =
        s_.out.add({.name = "choice.loads." + s_.layout.units[u].name,
                    .slot_size = size_of(DType::kF64) * (all.front().experts * std::ssize(all)),
                    .slots = s_.copies(u),
                    .category = Category::kInput,
                    .dtype = DType::kF64,
                    .persistent = true});
  }
}

void ChoiceBias::begin_step() {
  const auto clear = [&](UnitIndex u, Ordinal) {
    for (const BalancedBias& bias : s_.layout.balanced[u]) {
      s_.out.repeat({.count = 1, .var = Var::kTile, .first = bias.member}, [&] {
        s_.out.kernel({Phase::kBegin, kPart, Action::kBalance}, Lane::kCompute, KernelId::kFillZero,
                      {write(loads_of(s_, u, bias.member))});
      });
    }
  };
  for (const Chunk& chunk : s_.chunks) {
    s_.enter(chunk);
    for (UnitIndex u = 0; u < s_.layout.units.size(); ++u)
      if (s_.choice_loads[u]) s_.each_unit_of({u}, {}, clear, {});
  }
}

// Where the lane that updates reads them.
View ChoiceBias::near(const View& loads, Lane lane) {
  if (lane != Lane::kCpu) return loads;
  const BufferId id = s_.body.get({.name = "choice.loads.host",
                                   .slot_size = loads.bytes(),
                                   .tier = Tier::kCpu,
                                   .category = Category::kInput,
                                   .dtype = loads.dtype});
  const View host = view_of(id, loads.dtype, loads.shape);
  s_.out.copy({Phase::kUpdate, kPart, Action::kMove}, loads, host);
  return host;
}

// One after the other, told apart by the number of a tile.
void ChoiceBias::move(UnitIndex unit, const View& master, Attribute first, Lane lane) {
  AxisSet ranks = s_.replica_group().axes;
  if (s_.plan.parallel.routes_own_tokens()) ranks = ranks | s_.tensor_group().axes;
  for (const BalancedBias& bias : s_.layout.balanced[unit])
    s_.out.repeat({.count = 1, .var = Var::kTile, .first = bias.member}, [&] {
      const View loads = loads_of(s_, unit, bias.member);
      if (s_.mesh.size(ranks) > 1)
        s_.out.collective({Phase::kUpdate, kPart, Action::kReduce}, Lane::kCommReduce,
                          CollectiveKind::kAllReduce, {ranks}, loads, loads);
      s_.out.kernel({Phase::kUpdate, kPart, Action::kBalance}, lane, KernelId::kBalanceBias,
                    {update(master), read(near(loads, lane))}, {first, bias.begin, bias.rate});
    });
}

}  // namespace zplan
