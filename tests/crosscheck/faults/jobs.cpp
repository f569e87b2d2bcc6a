#include "tests/crosscheck/faults/jobs.h"

#include <functional>

#include "tests/support/plan_space.h"

namespace zplan::seeded {

std::vector<NamedPlan> plans() {
  std::vector<NamedPlan> all;
  const auto add = [&](std::string name, std::int32_t pp, std::int32_t dp, std::int32_t zero_stage,
                       std::int64_t micro_steps, const std::function<void(Plan&)>& change) {
    Plan p = testing_support::base_plan("cpu.f32");
    p.parallel.pp = pp;
    p.parallel.dp = dp;
    p.zero_stage = zero_stage;
    p.batch.micro_batch = testing_support::kGlobalBatch / (dp * micro_steps);
    p.gather = Gather::kLayer;
    p.slack = 0;
    change(p);
    all.push_back({std::move(name), std::move(p)});
  };
  const auto nothing = [](Plan&) {};
  add("1f1b", 2, 1, 0, 4, nothing);
  add("1f1b_of_3_stages", 3, 1, 0, 4, nothing);
  add("1f1b_zero1", 2, 2, 1, 2, nothing);
  add("interleaved", 2, 1, 0, 4, [](Plan& p) { p.schedule = Schedule::kInterleaved; });
  add("zb_v_fp64", 2, 1, 0, 4, [](Plan& p) {
    p.kernel_set = "cpu.f64";
    p.precision = default_recipe(p.kernel_set);
    p.schedule = Schedule::kZeroBubbleV;
  });
  add("sequence_parallel_zero1", 1, 2, 1, 2, [](Plan& p) {
    p.parallel.tp = 2;
    p.parallel.sequence_parallel = true;
  });
  add("tensor_parallel_zero3", 1, 2, 3, 2, [](Plan& p) { p.parallel.tp = 2; });
  add("context_parallel_zero2", 1, 2, 2, 2, [](Plan& p) { p.parallel.cp = 2; });
  add("ring_zero1", 1, 1, 1, 2, [](Plan& p) { p.parallel.cp = p.parallel.ring = 4; });
  add("zero2", 1, 4, 2, 2, nothing);
  add("shards_and_tiles", 1, 4, 3, 2, [](Plan& p) {
    p.parallel.shards = 2;
    p.gather = Gather::in_tiles(2);
  });
  add("secondary", 1, 4, 3, 2, [](Plan& p) { p.secondary = 2; });
  add("parameter_shards", 1, 4, 3, 2, [](Plan& p) { p.parameter_shards = 2; });
  add("owners", 1, 2, 3, 2, [](Plan& p) { p.gather = Gather::kOwned; });
  add("states_on_host", 1, 2, 3, 2, [](Plan& p) {
    p.placement = {Tier::kCpu, Tier::kCpu, Tier::kCpu, Tier::kCpu};
    p.recompute = {{Recompute::kFull, 0}};
  });
  return all;
}

}  // namespace zplan::seeded
