#include "exec/schedule/step_sequence.h"

#include <gtest/gtest.h>

#include <string>

namespace zplan::exec {
namespace {

// "5 v0 v1 6": the numbers of steps that train, and batches of validations.
std::string text(const StepSequence& steps) {
  std::string all;
  for (std::int64_t i = 0; i < steps.size(); ++i) {
    const StepPlace& place = steps[i];
    all += i == 0 ? "" : " ";
    all += place.validates() ? "v" + std::to_string(place.batch) : std::to_string(place.step);
  }
  return all;
}

TEST(StepSequence, HasNothingButTrainingWhereNothingValidates) {
  const StepSequence steps(3, {.step = 7});
  EXPECT_EQ(text(steps), "7 8 9");
  EXPECT_EQ(steps.validations(), 0);
  EXPECT_TRUE(steps.follows_training(3));
  EXPECT_FALSE(steps.follows_training(0));
}

// After steps 2, 4, .. of the training, wherever the run begins, and after the last.
TEST(StepSequence, ValidatesAfterEverySoManyStepsOfTheTraining) {
  EXPECT_EQ(text(StepSequence(5, {.step = 0}, {.every = 2, .batches = 2})),
            "0 1 v0 v1 2 3 v0 v1 4 v0 v1");
  EXPECT_EQ(text(StepSequence(3, {.step = 3}, {.every = 2, .batches = 1})), "3 v0 4 5 v0");
  EXPECT_EQ(text(StepSequence(2, {}, {.every = 0, .batches = 1})), "0 1 v0");
}

// What a run before it has left undone, where it is still due.
TEST(StepSequence, BeginsWithTheValidationThatIsOpen) {
  const StartPoint open{.step = 4, .validated = false};
  EXPECT_EQ(text(StepSequence(2, open, {.every = 2, .batches = 2})), "v0 v1 4 5 v0 v1");
  EXPECT_EQ(text(StepSequence(1, open, {.every = 3, .batches = 1})), "4 v0");
  EXPECT_EQ(text(StepSequence(1, open, {.every = 0, .batches = 1})), "4 v0");
  EXPECT_EQ(text(StepSequence(1, open)), "4");
  EXPECT_EQ(text(StepSequence(0, open, {.every = 2, .batches = 2})), "v0 v1");
  EXPECT_EQ(text(StepSequence(1, {.step = 0, .validated = false}, {.every = 2, .batches = 1})),
            "0 v0");
  EXPECT_EQ(StepSequence(2, open, {.every = 2, .batches = 2}).validations(), 2);
}

// The states that are there; not those of a step that another run has validated.
TEST(StepSequence, ValidatesOnceWithoutAnyStep) {
  EXPECT_EQ(text(StepSequence(0, {.step = 4}, {.every = 2, .batches = 2})), "v0 v1");
  EXPECT_EQ(text(StepSequence(1, {.step = 4}, {.every = 2, .batches = 1})), "4 v0");
}

TEST(StepSequence, CountsWhatIsTrained) {
  const StepSequence steps(3, {.step = 10}, {.every = 2, .batches = 2});  // 10 11 v v 12 v v
  EXPECT_EQ(steps.training_steps(), 3);
  EXPECT_EQ(steps.validations(), 2);
  EXPECT_EQ(steps[2].step, 12);  // the one that comes next
  EXPECT_EQ(steps[2].trained, 2);
  EXPECT_EQ(steps.trained_before(4), 2);
  EXPECT_EQ(steps.trained_before(steps.size()), 3);
  EXPECT_TRUE(steps.follows_training(2));
  EXPECT_FALSE(steps.follows_training(3));
  EXPECT_FALSE(steps.follows_training(4));
  EXPECT_DOUBLE_EQ(steps.trained(1.25), 1.25);
  EXPECT_DOUBLE_EQ(steps.trained(2.5), 2);
  EXPECT_DOUBLE_EQ(steps.trained(4.5), 2.5);
  EXPECT_DOUBLE_EQ(steps.trained(7), 3);
}

}  // namespace
}  // namespace zplan::exec
