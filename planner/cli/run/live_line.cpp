#include "planner/cli/run/live_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/cli/frame/output.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

std::string json_number(double x) { return std::isfinite(x) ? fmt::format("{}", x) : "null"; }

}  // namespace

void LiveLine::begin(std::int64_t first_step) {
  first_ = first_step;
  start_ = Clock::now();
}

void LiveLine::end_step(std::int64_t step, const exec::StepResult& result) {
  const double wall = result.wall.value;
  std::string words = fmt::format(", loss {:.4f}, {:.0f} tokens/s", result.loss,
                                  static_cast<double>(tokens_) / wall);
  if (result.exposed)
    words += fmt::format(", {:.0f} % exposed", 100 * result.exposed->value / wall);
  for (const CopiedBytes& copied : copied_)
    words += fmt::format(", {} {} in, {} out", name(copied.hop),
                         format_rate(BytesPerSecond{copied.nearer / wall}),
                         format_rate(BytesPerSecond{copied.farther / wall}));
  if (limit_)
    words +=
        fmt::format(", {:.0f} % of the {} limit ({})", 100 * limit_->bound.seconds.value / wall,
                    limit_->calibrated ? "measured" : "profile's", limit_->bound.resource);
  {
    const std::lock_guard lock(mutex_);
    last_ = std::move(words);
  }
  progress_.show(fmt::format("{}: step {} of {}{}{}{}", title_, step + 1, steps_, last(),
                             result.skipped ? ", update skipped" : "",
                             left(static_cast<double>(step + 1 - first_))));
}

void LiveLine::validated(const exec::ValidationResult& result) {
  const std::lock_guard lock(mutex_);
  validation_ = fmt::format(", validation loss {:.4f}", result.loss);
}

void LiveLine::within(double done) {
  const auto all = static_cast<double>(std::max<std::int64_t>(0, steps_ - first_));
  if (validates_ && done >= all)
    return progress_.show(
        fmt::format("{}: validating after step {}{}", title_, std::max(first_, steps_), last()));
  const double whole = std::clamp(std::floor(done), 0.0, std::max(0.0, all - 1));
  progress_.show(fmt::format("{}: step {} of {}, {:.0f} % of it{}{}", title_,
                             first_ + static_cast<std::int64_t>(whole) + 1, steps_,
                             100 * (done - whole), last(), left(done)));
}

std::string LiveLine::last() {
  const std::lock_guard lock(mutex_);
  return last_ + validation_;
}

// "; 75.00 s left"; nothing where nothing is done yet.
std::string LiveLine::left(double done) const {
  if (done <= 0) return "";
  const std::chrono::duration<double> spent = Clock::now() - start_;
  const auto all = static_cast<double>(steps_ - first_);
  return fmt::format("; {} left",
                     format_seconds(Seconds{std::ceil(spent.count() * (all - done) / done)}));
}

StepFile::StepFile(const std::string& path, const Job& job, std::optional<StepLimit> limit)
    : path_(path),
      tokens_(job.global_batch * job.sequence),
      copied_(copied_per_step(job)),
      limit_(std::move(limit)) {
  if (!path.empty()) out_.emplace(path);
}

void StepFile::add(std::int64_t step, const exec::StepResult& done) {
  const double wall = done.wall.value;
  std::string line = fmt::format(
      "{{\"step\": {}, \"loss\": {}, \"gradient_norm\": {}, \"skipped\": {}, \"loss_scale\": {}, "
      "\"wall_s\": {}, \"tokens_per_s\": {}",
      step + 1, json_number(done.loss), json_number(done.gradient_norm), done.skipped,
      json_number(done.loss_scale), json_number(wall),
      json_number(static_cast<double>(tokens_) / wall));
  if (done.exposed) line += fmt::format(", \"exposed_s\": {}", json_number(done.exposed->value));
  for (const CopiedBytes& copied : copied_)
    line += fmt::format(", \"{0}_in_bytes_per_s\": {1}, \"{0}_out_bytes_per_s\": {2}",
                        copied.hop == Hop::kCpuNvme ? "nvme" : "cpu",
                        json_number(copied.nearer / wall), json_number(copied.farther / wall));
  if (limit_)
    line += fmt::format(", \"limit_share\": {}, \"limit\": \"{}\", \"limit_is_measured\": {}",
                        json_number(limit_->bound.seconds.value / wall), limit_->bound.resource,
                        limit_->calibrated);
  write(line + "}\n");
}

void StepFile::add(const exec::ValidationResult& result) {
  write(fmt::format("{{\"step\": {}, \"validation_loss\": {}, \"wall_s\": {}}}\n", result.step,
                    json_number(result.loss), json_number(result.wall.value)));
}

void StepFile::write(const std::string& line) {
  if (!out_) return;
  const std::optional<std::string> why_not = out_->add(line);
  if (!why_not) return;
  complain(fmt::format("{}: cannot be written: {}; training goes on without it", path_, *why_not));
  out_.reset();
}

}  // namespace zplan
