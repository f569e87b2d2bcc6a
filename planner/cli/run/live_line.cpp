#include "planner/cli/run/live_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/core/error.h"
#include "planner/core/quantity.h"

namespace zplan {

void LiveLine::begin(std::int64_t first_step) {
  first_ = first_step;
  start_ = Clock::now();
}

void LiveLine::end_step(std::int64_t step, const exec::StepResult& result) {
  loss_ = result.loss;
  rate_ = static_cast<double>(tokens_) / result.wall.value;
  progress_.show(fmt::format("{}: step {} of {}{}{}; {} left", title_, step + 1, steps_, last(),
                             result.skipped ? ", update skipped" : "",
                             left(static_cast<double>(step + 1 - first_))));
}

void LiveLine::within(double done) {
  const double whole =
      std::clamp(std::floor(done), 0.0, std::max(0.0, static_cast<double>(steps_ - first_ - 1)));
  progress_.show(fmt::format("{}: step {} of {}, {:.0f} % of it{}; {} left", title_,
                             first_ + static_cast<std::int64_t>(whole) + 1, steps_,
                             100 * (done - whole), last(), left(done)));
}

// Of the last step; nothing in the first.
std::string LiveLine::last() const {
  if (std::isnan(rate_)) return "";
  return fmt::format(", loss {:.4f}, {:.0f} tokens/s", loss_.load(), rate_.load());
}

std::string LiveLine::left(double done) const {
  const std::chrono::duration<double> spent = Clock::now() - start_;
  const auto all = static_cast<double>(steps_ - first_);
  return format_seconds(Seconds{std::ceil(spent.count() * (all - done) / done)});
}

StepFile::StepFile(const std::string& path) : path_(path) {
  if (path.empty()) return;
  out_.open(path, std::ios::app);
  check();
}

void StepFile::add(std::int64_t step, const exec::StepResult& done, std::int64_t tokens) {
  if (path_.empty()) return;
  const auto number = [](double x) { return std::isfinite(x) ? fmt::format("{}", x) : "null"; };
  out_ << fmt::format(
      "{{\"step\": {}, \"loss\": {}, \"gradient_norm\": {}, \"skipped\": {}, \"loss_scale\": {}, "
      "\"wall_s\": {}, \"tokens_per_s\": {}}}\n",
      step + 1, number(done.loss), number(done.gradient_norm), done.skipped,
      number(done.loss_scale), number(done.wall.value),
      number(static_cast<double>(tokens) / done.wall.value));
  out_.flush();
  check();
}

void StepFile::check() const {
  if (!out_) throw Error(ExitCode::kDevice, fmt::format("{}: cannot be written", path_));
}

}  // namespace zplan
