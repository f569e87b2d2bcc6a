#include "planner/program/verify_shorten.h"

#include <algorithm>
#include <numeric>

namespace zplan {
namespace {

constexpr std::int64_t kLongestPeriod = std::int64_t{1} << 30;  // longer than any loop

bool is_micro_loop(const Block& block) { return block.var == Var::kMicro && block.count > 1; }

}  // namespace

std::int64_t micro_period(const Program& program) {
  std::int64_t period = 1;
  for (const View& v : program.views) {
    const std::int64_t slots = program.buffers[v.buffer].slots;
    period = std::lcm(period, slots / std::gcd(slots, std::int64_t{v.slot.per_micro}));
    if (period > kLongestPeriod) return kLongestPeriod;
  }
  return period;
}

std::int32_t largest_delta(const Program& program) {
  std::int32_t largest = 0;
  for (const Edge& e : program.edges) largest = std::max(largest, e.delta);
  return largest;
}

std::int64_t largest_micro_loop(const Program& program) {
  std::int64_t largest = 0;
  for (const Block& block : program.blocks)
    if (is_micro_loop(block)) largest = std::max<std::int64_t>(largest, block.count);
  return largest;
}

Program shorten(Program program, std::int64_t period, std::int64_t keep) {
  for (Block& block : program.blocks)
    if (is_micro_loop(block) && block.count > keep)
      block.count -= static_cast<std::int32_t>((block.count - keep) / period * period);
  return program;
}

Program shorten_by(Program program, std::int64_t removed, std::int64_t keep) {
  for (Block& block : program.blocks)
    if (is_micro_loop(block) && block.count >= removed + keep)
      block.count -= static_cast<std::int32_t>(removed);
  return program;
}

}  // namespace zplan
