// What a training says while it lasts: a line that shows how far it is, within its steps too, and a
// file with a line of JSON for each step and validation. Times that are left are those of what is
// done so far.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/schedule/step_result.h"
#include "planner/certainty/step_limit.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/progress.h"
#include "planner/cost/tier_traffic.h"
#include "planner/program/job/job.h"

namespace zplan {

// "training: step 3 of 10, 40 % of it, loss 5.4210, 812 tokens/s, 12 % exposed, CPU - NVMe 1.20
// GB/s in, 1.20 GB/s out, 71 % of the measured limit (stage 0 compute); 75.00 s left", of the last
// step that is done: exposed is what its compute lane stood still, mean over the ranks of this
// process; the limit is step_limit.h's, "the profile's" where it was not measured.
class LiveLine {
 public:
  // `validates`: a validation comes after the last step. `limit`: none where nothing is known of
  // the hardware.
  LiveLine(std::string_view title, std::int64_t steps, bool validates, const Job& job,
           std::optional<StepLimit> limit)
      : title_(title),
        steps_(steps),
        validates_(validates),
        tokens_(job.global_batch * job.sequence),
        copied_(copied_per_step(job)),
        limit_(std::move(limit)) {}

  // Before the first step.
  void begin(std::int64_t first_step);
  // Steps are counted from the begin of the training.
  void end_step(std::int64_t step, const exec::StepResult& result);
  void validated(const exec::ValidationResult& result);
  // Steps of this run, "2.25".
  void within(double done);

 private:
  using Clock = std::chrono::steady_clock;

  std::string last();
  std::string left(double done) const;

  Progress progress_;
  std::string title_;
  std::int64_t steps_;
  bool validates_;
  std::int64_t tokens_;
  std::vector<CopiedBytes> copied_;
  std::optional<StepLimit> limit_;
  std::int64_t first_ = 0;
  Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::string last_;  // of the last step; nothing in the first
  std::string validation_;
};

// Lines are appended: a training that goes on has one file. A pipe that is full is not waited for.
class StepFile {
 public:
  // Of no path nothing is written. Throws Error(kBadInput); what add() cannot write is told of in a
  // line, once, and training goes on.
  StepFile(const std::string& path, const Job& job, std::optional<StepLimit> limit);
  void add(std::int64_t step, const exec::StepResult& done);
  void add(const exec::ValidationResult& result);

 private:
  void write(const std::string& line);

  std::string path_;
  std::int64_t tokens_;
  std::vector<CopiedBytes> copied_;
  std::optional<StepLimit> limit_;
  std::optional<LineWriter> out_;
};

}  // namespace zplan
