#include "planner/program/timeline/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "planner/core/error.h"

namespace zplan {
namespace {

constexpr double kPicosecondsPerSecond = 1e12;

// What one rank does in one step under one key of the join.
struct Key {
  std::int32_t stage = 0;  // 0 by role, once the stages are added up
  OpId op = 0;             // of the first operation of the role, when by role
  Lane lane = Lane::kCompute;
  friend auto operator<=>(const Key&, const Key&) = default;
};
struct Amount {
  std::int64_t operations = 0;
  double picoseconds = 0;
};
using Amounts = std::map<Key, Amount>;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::int32_t last_step(const Timeline& timeline) {
  std::int32_t last = -1;
  for (const RankTimeline& rank : timeline.ranks)
    for (const Span& s : rank.spans) last = std::max(last, s.step);
  return last;
}

// The first step is cold.
std::int32_t first_steady(const Timeline& timeline) { return last_step(timeline) > 0 ? 1 : 0; }

Seconds period(const Timeline& timeline) {
  std::map<std::int32_t, double> ends;
  double begin = 0;
  bool is_first = true;
  for (const RankTimeline& rank : timeline.ranks) {
    for (const Span& s : rank.spans) {
      double& end = ends[s.step];
      end = std::max(end, static_cast<double>(s.end.value));
      const auto start = static_cast<double>(s.start.value);
      begin = is_first ? start : std::min(begin, start);
      is_first = false;
    }
  }
  std::vector<double> periods;
  for (auto step = std::next(ends.begin()); step != ends.end(); ++step)
    periods.push_back(step->second - std::prev(step)->second);
  if (periods.empty()) periods.push_back(ends.begin()->second - begin);
  return {median(std::move(periods)) / kPicosecondsPerSecond};
}

// Medians over the ranks of a stage and the steady steps.
Amounts amounts_of(const Timeline& timeline, JoinBy join) {
  std::map<Key, std::vector<double>> samples;
  std::map<Key, std::int64_t> operations;
  const std::int32_t first = first_steady(timeline);
  for (const RankTimeline& rank : timeline.ranks) {
    std::map<std::pair<Key, std::int32_t>, Amount> steps;
    for (const Span& s : rank.spans) {
      if (s.step < first) continue;
      const OpId op = join == JoinBy::kRole ? op_id(role_of(s.op), {}) : s.op;
      Amount& amount = steps[{{rank.stage, op, s.lane}, s.step}];
      ++amount.operations;
      amount.picoseconds += static_cast<double>((s.end - s.start).value);
    }
    for (const auto& [at, amount] : steps) {
      samples[at.first].push_back(amount.picoseconds);
      operations[at.first] = std::max(operations[at.first], amount.operations);
    }
  }
  Amounts result;
  for (auto& [key, values] : samples) {
    Key joined = key;
    if (join == JoinBy::kRole) joined.stage = 0;
    result[joined].operations += operations[key];
    result[joined].picoseconds += median(std::move(values));
  }
  return result;
}

void add(ComparedSide& side, const Amount& amount) {
  side.operations += amount.operations;
  side.time = Seconds{side.time.value + amount.picoseconds / kPicosecondsPerSecond};
}

std::string_view words_of(OpKind kind) {
  switch (kind) {
    case OpKind::kKernel:
      return "kernel";
    case OpKind::kCopy:
      return "copy";
    case OpKind::kCollective:
      return "collective";
    case OpKind::kSend:
    case OpKind::kReceive:
      return "send or receive";
    case OpKind::kMark:
      break;
  }
  return "mark";
}

// Rows by the place in which they are shown.
class Rows {
 public:
  void add_pair(int place, std::string_view name, const Amount& predicted, const Amount& measured) {
    ComparedRow& row = rows_[place];
    row.name = name;
    add(row.predicted, predicted);
    add(row.measured, measured);
  }
  std::vector<ComparedRow> take() {
    std::vector<ComparedRow> result;
    for (auto& [place, row] : rows_) result.push_back(std::move(row));
    return result;
  }

 private:
  std::map<int, ComparedRow> rows_;
};

void check_joinable(const Timeline& predicted, const Timeline& measured, JoinBy join) {
  const auto check_side = [](const Timeline& timeline, std::string_view source) {
    if (timeline.source != source)
      throw_bad_input(
          fmt::format("expected a timeline of \"{}\", got one of \"{}\"", source, timeline.source));
    if (last_step(timeline) < 0)
      throw_bad_input(fmt::format("the timeline of \"{}\" holds no operation", source));
  };
  check_side(predicted, "sim");
  check_side(measured, "exec");
  if (join == JoinBy::kOperation && predicted.fingerprint != measured.fingerprint)
    throw_bad_input(fmt::format(
        "the timelines are of different jobs, {} and {}; --by role compares them all the same",
        predicted.fingerprint, measured.fingerprint));
}

constexpr std::string_view kKinds[] = {"kernel", "copy", "collective", "send or receive"};

}  // namespace

std::optional<double> ratio(Seconds predicted, Seconds measured) {
  if (predicted.value <= 0) return std::nullopt;
  return measured.value / predicted.value;
}

Comparison compare(const Timeline& predicted, const Timeline& measured, JoinBy join) {
  check_joinable(predicted, measured, join);
  Comparison result;
  result.join = join;
  result.predicted_fingerprint = predicted.fingerprint;
  result.measured_fingerprint = measured.fingerprint;
  result.predicted_steps = last_step(predicted) + 1 - first_steady(predicted);
  result.measured_steps = last_step(measured) + 1 - first_steady(measured);
  result.predicted_period = period(predicted);
  result.measured_period = period(measured);
  result.total.name = "all operations";
  const Amounts left = amounts_of(predicted, join);
  Amounts right = amounts_of(measured, join);
  Rows kinds, phases, lanes, parts;
  for (const auto& [key, amount] : left) {
    const auto partner = right.find(key);
    if (partner == right.end()) {
      add(result.only_predicted, amount);
      continue;
    }
    const Role role = role_of(key.op);
    const std::string_view kind = words_of(kind_of(role.action, key.lane));
    const auto place = std::find(std::begin(kKinds), std::end(kKinds), kind) - std::begin(kKinds);
    kinds.add_pair(static_cast<int>(place), kind, amount, partner->second);
    phases.add_pair(static_cast<int>(role.phase), name(role.phase), amount, partner->second);
    lanes.add_pair(static_cast<int>(key.lane), name(key.lane), amount, partner->second);
    parts.add_pair(static_cast<int>(role.part), name(role.part), amount, partner->second);
    add(result.total.predicted, amount);
    add(result.total.measured, partner->second);
    right.erase(partner);
  }
  for (const auto& [key, amount] : right) add(result.only_measured, amount);
  result.kinds = kinds.take();
  result.phases = phases.take();
  result.lanes = lanes.take();
  result.parts = parts.take();
  return result;
}

}  // namespace zplan
