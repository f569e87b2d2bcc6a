#include "planner/program/verify/shorten.h"

#include <algorithm>
#include <numeric>

namespace zplan {
namespace {

constexpr std::int64_t kLongestPeriod = std::int64_t{1} << 30;  // longer than any loop

bool is_micro_loop(const Block& block) { return block.var == Var::kMicro && block.count > 1; }

// Takes `removed` iterations from each micro-batch loop that has `keep` more than that.
Program shorten_by(Program program, std::int64_t removed, std::int64_t keep) {
  for (Block& block : program.blocks)
    if (is_micro_loop(block) && block.count >= removed + keep)
      block.count -= static_cast<std::int32_t>(removed);
  return program;
}

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

std::vector<Program> shorten_together(const Job& job) {
  std::int64_t reach = 0;
  std::int64_t shortest = largest_micro_loop(job.classes.front().program);
  for (const RankClass& c : job.classes) {
    reach = std::max<std::int64_t>(reach, largest_delta(c.program));
    shortest = std::min(shortest, largest_micro_loop(c.program));
  }
  const std::int64_t keep = static_cast<std::int64_t>(job.classes.size()) * (reach + 2) + 2;
  const std::int64_t removed = std::max<std::int64_t>(shortest - keep, 0);
  std::vector<Program> result;
  for (const RankClass& c : job.classes) result.push_back(shorten_by(c.program, removed, keep));
  return result;
}

}  // namespace zplan
