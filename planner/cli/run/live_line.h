// What a training says while it lasts: a line that shows how far it is, within its steps too, and a
// file with a line of JSON for each step. Times that are left are those of what is done so far.
#pragma once

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "exec/schedule/step_result.h"
#include "planner/cli/frame/progress.h"

namespace zplan {

// "training: step 3 of 10, 40 % of it, loss 5.4210, 812 tokens/s; 75.00 s left".
class LiveLine {
 public:
  LiveLine(std::string_view title, std::int64_t steps, std::int64_t tokens_per_step)
      : title_(title), steps_(steps), tokens_(tokens_per_step) {}

  // Before the first step.
  void begin(std::int64_t first_step);
  // Steps are counted from the begin of the training.
  void end_step(std::int64_t step, const exec::StepResult& result);
  // Steps of this run, "2.25".
  void within(double done);

 private:
  using Clock = std::chrono::steady_clock;

  std::string last() const;
  std::string left(double done) const;

  Progress progress_;
  std::string title_;
  std::int64_t steps_, tokens_;
  std::int64_t first_ = 0;
  Clock::time_point start_ = Clock::now();
  std::atomic<double> loss_ = NAN, rate_ = NAN;
};

// Lines are appended: a training that goes on has one file.
class StepFile {
 public:
  // Of no path nothing is written. Throws Error(kDevice), as add() does.
  explicit StepFile(const std::string& path);
  void add(std::int64_t step, const exec::StepResult& done, std::int64_t tokens);

 private:
  void check() const;

  std::string path_;
  std::ofstream out_;
};

}  // namespace zplan
