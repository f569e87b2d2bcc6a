// Checkpoints and validations of plans of the pairwise cover. A run that is validated, saved, and
// one that goes on end with the bits of the run that was not disturbed, on threads and on queues;
// what one plan has saved another one has, to the bit, however it cuts and keeps the states; and
// what validates gives the loss that training has on the same tokens.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "exec/kernels/dynamic_codes.h"
#include "planner/plan/plan_schedule.h"
#include "planner/program/instances/validation.h"
#include "tests/crosscheck/cover/one_rank.h"
#include "tests/support/error_message.h"
#include "tests/support/plan_cover.h"
#include "tests/support/queue_device.h"
#include "tests/support/sanitized.h"
#include "tests/support/stale_pipelines.h"

namespace zplan {
namespace {

using testing_support::Choice;
using testing_support::Trained;

constexpr int kSaved = 2, kSteps = 4;  // steps
constexpr const char* kCheckpoint = "step-000002";

class Resume : public testing::Test {
 protected:
  Resume() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Resume() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // On the text that is trained on, after each step, where the plan allows it.
  static void validate(const Plan& plan, exec::RunOptions& options) {
    if (no_validation(testing_support::placed_job(plan))) return;
    options.validation = testing_support::validation({.every = 1, .batches = 1});
  }

  // Trains, and leaves checkpoints in a folder of this name.
  std::unique_ptr<Trained> save(const Plan& plan, int steps, const std::string& name) const {
    exec::RunOptions options = testing_support::steps(steps);
    options.save = {.folder = path(name), .every = kSaved};
    validate(plan, options);
    return testing_support::train(plan, options);
  }

  std::unique_ptr<Trained> go_on(const Plan& plan, int steps, const std::string& name,
                                 bool on_queues = false) const {
    exec::RunOptions options = testing_support::steps(steps);
    options.resume.path = path(name + "/" + kCheckpoint);
    validate(plan, options);
    options.say = [](const std::string& line) { lines().push_back(line); };
    if (on_queues) {
      options.device = exec::make_queue_device({.delay_seed = 1});
      options.comm_deadline = std::chrono::seconds(60);
    }
    return testing_support::train(plan, options);
  }
  static std::vector<std::string>& lines() {
    static std::vector<std::string> all;
    return all;
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("zplan_resume_" + std::to_string(getpid()));
};

class ResumeOfCover : public Resume, public testing::WithParamInterface<Choice> {};

std::vector<double> losses(const std::vector<exec::ValidationResult>& validations) {
  std::vector<double> all;
  for (const exec::ValidationResult& each : validations) all.push_back(each.loss);
  return all;
}

// The first difference of the steps and validations that both have and of all states.
void expect_same_end(Trained& whole, const Trained& resumed, const std::string& how) {
  ASSERT_EQ(resumed.result.steps.size(), std::size_t{kSteps - kSaved}) << how;
  exec::RunResult& all = whole.result;
  const std::vector<exec::StepResult> steps = all.steps;
  all.steps.erase(all.steps.begin(), all.steps.begin() + kSaved);
  testing_support::expect_same_bits(whole, resumed, how);
  all.steps = steps;
  const std::vector<double> own = losses(all.validations);
  if (no_validation(whole.job)) return;
  ASSERT_EQ(own.size(), std::size_t{kSteps});
  // A checkpoint is ahead of the validation of its step.
  EXPECT_EQ(losses(resumed.result.validations),
            std::vector<double>(own.begin() + kSaved - 1, own.end()))
      << how;
}

// All states of two plans of the same recipe.
void expect_same_states(const Trained& a, const Trained& b, const std::string& how) {
  for (const exec::State state : exec::kStates) {
    const auto worst = exec::largest_difference(a.job, a.result.memory, b.job, b.result.memory,
                                                state, exec::Equality::kBits);
    EXPECT_FALSE(worst.has_value())
        << how << ": " << worst->tensor << "[" << worst->element << "] of " << name(state) << " is "
        << worst->first << " and " << worst->second;
  }
}

// Blocks of another cut are encoded anew.
bool encodes_anew(const Plan& plan) { return plan.optimizer.kind == OptimizerKind::kAdamW8Bit; }

TEST_P(ResumeOfCover, GoesOnAsIfNothingHadBeen) {
  const Plan plan = testing_support::plan_of(GetParam(), "cpu.f32");
  const auto undisturbed = testing_support::train(plan, testing_support::steps(kSteps));
  const auto whole = save(plan, kSteps, "run");
  testing_support::expect_same_bits(*whole, *undisturbed, "saved and validated beside training");
  expect_same_end(*whole, *go_on(plan, kSteps, "run"), "on threads");
  expect_same_end(*whole, *go_on(plan, kSteps, "run", true), "on queues");
  EXPECT_EQ(lines(), std::vector<std::string>{});
}

// Trains until so many operations are done, then as long as it takes to be asked whether it ends.
std::unique_ptr<Trained> train_until(const Plan& plan, std::int64_t operations,
                                     exec::RunOptions options) {
  std::atomic<std::int64_t> done = 0;
  options.interruption.within_step = [&] { return done >= operations; };
  options.observer = [&](const exec::NodeEvent&) {
    if (++done == operations) std::this_thread::sleep_for(std::chrono::milliseconds(60));
  };
  return testing_support::train(plan, options);
}

TEST_P(ResumeOfCover, AStepThatIsGivenUpIsDoneAnew) {
  const Plan plan = testing_support::plan_of(GetParam(), "cpu.f32");
  std::int64_t operations = 0;
  exec::RunOptions counted = testing_support::steps(kSteps);
  std::mutex mutex;
  counted.observer = [&](const exec::NodeEvent&) {
    const std::lock_guard lock(mutex);
    ++operations;
  };
  const auto undisturbed = testing_support::train(plan, counted);
  int given_up = 0;
  for (const int percent : {30, 55, 85}) {
    exec::RunOptions options = testing_support::steps(kSteps);
    options.save = {.folder = path(std::to_string(percent))};
    options.resume.path = options.save.folder;
    const auto first = train_until(plan, operations * percent / 100, options);
    given_up += first->result.gave_up_step ? 1 : 0;
    const auto rest = testing_support::train(plan, options);
    EXPECT_EQ(first->result.steps.size() + rest->result.steps.size(), std::size_t{kSteps});
    expect_same_states(*rest, *undisturbed, fmt::format("interrupted at {} %", percent));
  }
  if (!updates_each_micro_batch(plan)) {
    EXPECT_GT(given_up, 0);
  }
}

TEST_P(ResumeOfCover, ValidatesWithTheLossOfTraining) {
  const Plan plan = testing_support::plan_of(GetParam(), "cpu.f32");
  if (no_validation(testing_support::placed_job(plan)))
    GTEST_SKIP() << "a plan whose steps run into each other, which has a test of its own";
  exec::RunOptions first = testing_support::steps(1);
  first.train.dropout = 0;  // a validation has none
  const auto trained = testing_support::train(plan, first);
  exec::RunOptions options = testing_support::steps(0);
  validate(plan, options);
  const auto validated = testing_support::train(plan, options);
  ASSERT_EQ(validated->result.validations.size(), 1);
  EXPECT_EQ(validated->result.steps.size(), 0);
  const double loss = validated->result.validations.front().loss;
  if (updates_each_micro_batch(plan)) {  // within the step
    EXPECT_NE(loss, trained->result.steps.front().loss);
  } else {
    EXPECT_EQ(loss, trained->result.steps.front().loss);
  }
}

TEST_P(ResumeOfCover, AnotherCutHasTheSameStates) {
  const Plan plan = testing_support::plan_of(GetParam(), "cpu.f32");
  if (encodes_anew(plan)) GTEST_SKIP() << "8-bit moments, which have a test of their own";
  const Plan one = testing_support::on_one_rank(plan);
  const auto saved = save(plan, kSaved, "plan");
  expect_same_states(*go_on(one, kSaved, "plan"), *saved, "from the plan to one rank");
  const auto saved_by_one = save(one, kSaved, "one");
  expect_same_states(*go_on(plan, kSaved, "one"), *saved_by_one, "from one rank to the plan");
  lines().clear();
}

// What a run tells of its steps and validations, in order; steps are asked for as often as `polls`
// says before the run is interrupted.
struct Told {
  std::vector<std::string> lines;
  int polls = 0;

  void listen(exec::RunOptions& options, int most_polls) {
    options.step_done = [this](std::int64_t step, const exec::StepResult& result) {
      lines.push_back(fmt::format("step {}: {:a}", step + 1, result.loss));
    };
    options.validated = [this](const exec::ValidationResult& result) {
      lines.push_back(fmt::format("after step {}: {:a}", result.step, result.loss));
    };
    options.interruption.between_steps = [this, most_polls] { return ++polls > most_polls; };
  }
};

// Wherever they are interrupted, in a validation that is made up, too.
TEST_F(Resume, InterruptedRunsTellTogetherWhatOneTells) {
  constexpr int kNever = 1 << 20, kFew = 3;
  Plan plan = testing_support::base_plan("cpu.f32");
  plan.parallel.dp = 2;
  plan.zero_stage = 1;
  const auto train = [&](const std::string& name, std::int64_t every, int polls, Told& told) {
    exec::RunOptions options = testing_support::steps(kSteps);
    options.validation = testing_support::validation({.every = 1, .batches = 2});
    options.save = {.folder = path(name), .every = every};
    options.resume.path = path(name);
    told.polls = 0;
    told.listen(options, polls);
    return testing_support::train(plan, options);
  };
  Told whole;
  const auto undisturbed = train("whole", 0, kNever, whole);
  ASSERT_EQ(whole.lines.size(), std::size_t{2 * kSteps});
  const int polls = whole.polls;
  std::set<std::size_t> ends;
  for (int most = 1; most < polls; ++most) {
    const std::string name = std::to_string(most);
    const std::int64_t every = most % 2 == 0 ? 2 : 0;
    Told parts;
    std::unique_ptr<Trained> last = train(name, every, most, parts);
    ends.insert(parts.lines.size());
    for (const int next : {kFew, kNever})
      if (last->result.interrupted) last = train(name, every, next, parts);
    ASSERT_EQ(parts.lines, whole.lines) << "interrupted when asked " << most << " times";
    expect_same_states(*last, *undisturbed, name);
  }
  EXPECT_GE(ends.size(), std::size_t{kSteps});  // of all moments some are in validations
}

// Micro-batches are under way where a step ends.
TEST_F(Resume, APlanWhoseStepsRunIntoEachOtherIsNotValidated) {
  const Job job = testing_support::placed_job(
      testing_support::unclipped_pipeline("tiny-gpt", 4, 2, Schedule::kDoubleBuffered));
  exec::RunOptions options = testing_support::steps(1);
  options.validation = testing_support::validation({.batches = 1});
  EXPECT_THAT(
      testing_support::message_of([&] { testing_support::run_text(job, options); }),
      testing::HasSubstr("cannot be validated between two steps: its steps run into each other"));
}

// Gradients that wait for it are left as they are.
TEST_F(Resume, APlanWithADelayedUpdateIsValidated) {
  Plan plan = testing_support::base_plan("cpu.f32");
  plan.parallel.dp = 2;
  plan.zero_stage = 2;
  plan.placement.grads = plan.placement.optimizer = Tier::kCpu;
  plan.delayed_update = true;
  EXPECT_EQ(no_validation(testing_support::placed_job(plan)), std::nullopt);
}

// The first moments of a run that may keep them in blocks of 8 bits.
testing_support::Tensors first_moments(const Trained& t) {
  testing_support::Tensors values = testing_support::states(t, exec::State::kMoment1);
  for (auto& [name, scales] : testing_support::states(t, exec::State::kMoment3)) {
    std::vector<double>& codes = values.at(name);
    if (std::all_of(scales.begin(), scales.end(), [](double scale) { return scale == 0; }))
      continue;
    for (std::size_t i = 0; i < codes.size(); ++i)
      codes[i] = exec::kSignedCodes<double>.values[static_cast<std::size_t>(codes[i])] * scales[i];
  }
  return values;
}

double distance(const testing_support::Tensors& a, const testing_support::Tensors& b) {
  double sum = 0, all = 0;
  for (const auto& [name, values] : a)
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum += std::abs(values[i] - b.at(name)[i]);
      all += std::abs(values[i]);
    }
  return sum / all;
}

// Whole in 32 bits; in other blocks as near as 8 bits are: a code is a few per cent from the next.
TEST_F(Resume, MomentsIn8BitsAreThoseOfOtherCutsAndTypes) {
  Plan plan = testing_support::base_plan("cpu.f32");
  plan.optimizer = {.kind = OptimizerKind::kAdamW8Bit, .block = 256};
  Plan cut = plan, whole = plan;
  cut.parallel.dp = 2;
  cut.zero_stage = 1;
  cut.optimizer.block = 8;
  whole.optimizer = {};
  const auto saved = save(plan, kSaved, "blocks");
  const auto expected = first_moments(*saved);
  EXPECT_LT(distance(expected, first_moments(*go_on(whole, kSaved, "blocks"))), 1e-6);
  const double to_others = distance(expected, first_moments(*go_on(cut, kSaved, "blocks")));
  EXPECT_LT(to_others, 0.03);
  EXPECT_GT(to_others, 0);
  const auto in_floats = save(whole, kSaved, "floats");
  EXPECT_LT(distance(first_moments(*in_floats), first_moments(*go_on(cut, kSaved, "floats"))),
            0.03);
  EXPECT_EQ(lines(), std::vector<std::string>{});
}

// Every level; of every pair one plan in four where everything is asked for. ZPLAN_COVER_SEED draws
// others.
std::vector<Choice> some_choices() {
  if (!testing_support::is_everything_asked_for()) return testing_support::levelwise_choices();
  constexpr std::size_t kOneIn = 4;
  const std::vector<Choice>& all = testing_support::pairwise_choices();
  std::vector<Choice> some;
  for (std::size_t i = 0; i < all.size(); i += kOneIn) some.push_back(all[i]);
  return some;
}

INSTANTIATE_TEST_SUITE_P(Pairwise, ResumeOfCover, testing::ValuesIn(some_choices()),
                         [](const testing::TestParamInfo<Choice>& plan) {
                           return testing_support::name_of(plan.param);
                         });

}  // namespace
}  // namespace zplan
