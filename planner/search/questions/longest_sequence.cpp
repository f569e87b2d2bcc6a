#include "planner/search/questions/longest_sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/core/error.h"
#include "planner/plan/limits.h"
#include "planner/search/questions/largest_model.h"

namespace zplan {
namespace {

constexpr std::int64_t kUnit = 1024;  // tokens
constexpr std::int64_t kSmallUnit = 128;

class Sequences {
 public:
  Sequences(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
            const QuestionRun& run)
      : model_(model), cluster_(cluster), pins_(pins), run_(run) {
    const std::int64_t positions = shape_of(model).positions;
    const auto batch = pins.get<std::int64_t>("/batch/global_batch", model.global_batch);
    found_.positions = positions;
    most_ = std::min(kMaxSequence, kMaxTokensPerStep / std::max<std::int64_t>(1, batch));
    if (positions > 0) most_ = std::min(most_, positions);
    found_.most = most_;
  }

  LongestSequence find() {
    if (most_ < kUnit || !fits(kUnit)) {
      bisect(kSmallUnit, std::min(most_, kUnit - kSmallUnit), 0);
    } else {
      bisect(kUnit, most_, 1);
    }
    return std::move(found_);
  }

 private:
  // Multiples of the unit, and the most. The first `good` of them fit.
  void bisect(std::int64_t unit, std::int64_t most, std::int64_t good) {
    const std::int64_t end = (most + unit - 1) / unit + 1;
    std::int64_t bad = end;
    bool doubles = true;
    while (bad - good > 1 && !found_.interrupted) {
      const std::int64_t next = doubles ? std::min(std::max<std::int64_t>(1, 2 * good), end - 1)
                                        : good + (bad - good) / 2;
      if (fits(std::min(next * unit, most))) {
        good = next;
      } else {
        bad = next;
        doubles = false;
      }
    }
  }

  bool fits(std::int64_t tokens) {
    ++found_.tried;
    run_.tell(fmt::format("whether a plan fits with {} tokens", tokens));
    Pins pins = pins_;
    pins.set("/batch/sequence", tokens);
    Fitting fitting;
    std::string why;
    try {
      fitting = fitting_plan(model_, cluster_, pins, run_.threads);
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadInput) throw;
      why = error.what();
    }
    const bool fits = fitting.plan.has_value();
    if (fits) {
      found_.tokens = tokens;
    } else {
      found_.too_long = tokens;
      found_.misfit = std::move(fitting.misfit);
      found_.why = std::move(why);
    }
    found_.interrupted = run_.stopped();
    return fits;
  }

  const ModelConfig& model_;
  const Cluster& cluster_;
  const Pins& pins_;
  const QuestionRun& run_;
  std::int64_t most_ = 0;
  LongestSequence found_;
};

}  // namespace

LongestSequence longest_sequence(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
                                 const QuestionRun& run) {
  return Sequences(model, cluster, pins, run).find();
}

}  // namespace zplan
