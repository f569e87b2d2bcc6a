#include "exec/cuda/stream_budget.h"

#include <gtest/gtest.h>

namespace zplan::exec::cuda {
namespace {

TEST(StreamBudgetTest, RefusesMoreStreamsThanQueues) {
  StreamBudget budget(0, 32);
  budget.take(16);
  budget.take(16);
  EXPECT_THROW(budget.take(1), Error);
}

TEST(StreamBudgetTest, ARefusalTakesNothing) {
  StreamBudget budget(0, 32);
  budget.take(20);
  EXPECT_THROW(budget.take(13), Error);
  budget.take(12);
}

TEST(StreamBudgetTest, TakesAgainWhatWasGivenBack) {
  StreamBudget budget(1, 8);
  budget.take(8);
  budget.give_back(8);
  budget.take(8);
  try {
    budget.take(5);
    FAIL() << "took 13 of 8";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDevice);
    EXPECT_NE(std::string(error.what()).find("CUDA device 1"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("13 or more"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace zplan::exec::cuda
