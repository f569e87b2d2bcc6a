// Table 1 of ZeRO [Rajbhandari20]: model states per device in GB (1e9 bytes), by data parallel
// degree and stage, from lowered Jobs. The bytes per parameter are summed from the persistent model
// state buffers without padding, then multiplied by the nominal parameter count. The paper rounds
// the 7.5B columns to the printed digits and truncates the 128B and 1T columns.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "models/model_config.h"
#include "models/model_formulas.h"
#include "planner/lower/lower.h"
#include "planner/plan/plan.h"

namespace zplan {
namespace {

struct Row {
  int dp;
  std::array<const char*, 3> b7_5;  // stages 1, 2, 3
  std::array<const char*, 3> b128;
  std::array<const char*, 3> t1;
};

constexpr Row kTable[] = {
    {1, {"120", "120", "120"}, {"2048", "2048", "2048"}, {"16000", "16000", "16000"}},
    {4, {"52.5", "41.3", "30"}, {"896", "704", "512"}, {"7000", "5500", "4000"}},
    {16, {"35.6", "21.6", "7.5"}, {"608", "368", "128"}, {"4750", "2875", "1000"}},
    {64, {"31.4", "16.6", "1.88"}, {"536", "284", "32"}, {"4187", "2218", "250"}},
    {256, {"30.4", "15.4", "0.47"}, {"518", "263", "8"}, {"4046", "2054", "62.5"}},
    {1024, {"30.1", "15.1", "0.12"}, {"513", "257", "2"}, {"4011", "2013", "15.6"}},
};

Plan table_plan(int dp, int stage) {
  Plan plan;
  plan.kernel_set = "cuda.sm70.fp16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.loss_scaling = true;
  plan.parallel.dp = dp;
  plan.zero_stage = stage;
  plan.batch = {.global_batch = 2 * dp, .micro_batch = 1, .sequence = 32};  // m = 2: gradients stay
  return plan;
}

double bytes_per_parameter(int dp, int stage) {
  const ModelConfig model = load_model("tiny-gpt");
  const Job job = lower(table_plan(dp, stage), model);
  double bytes = 0;
  for (const Buffer& b : job.classes[0].program.buffers)
    if (b.persistent) bytes += static_cast<double>(b.unpadded.value) / b.shards;
  return bytes / static_cast<double>(parameter_count(model));
}

int digits_after_point(const std::string& printed) {
  const std::size_t point = printed.find('.');
  return point == std::string::npos ? 0 : static_cast<int>(printed.size() - point - 1);
}

// Exact halves (41.25, 1.875) are printed rounded up.
double as_printed(double value, const std::string& printed, bool truncated) {
  const double scale = std::pow(10.0, digits_after_point(printed));
  const double scaled = value * scale;
  return (truncated ? std::floor(scaled + 1e-6) : std::floor(scaled + 0.5 + 1e-6)) / scale;
}

class ZeroTable1 : public testing::TestWithParam<Row> {};

TEST_P(ZeroTable1, LoweredJobsGiveThePrintedGigabytes) {
  const Row& row = GetParam();
  for (int stage = 1; stage <= 3; ++stage) {
    const double per_parameter = bytes_per_parameter(row.dp, stage);
    const auto column = static_cast<std::size_t>(stage - 1);
    const auto expect = [&](double billions, const char* printed, bool truncated) {
      EXPECT_DOUBLE_EQ(as_printed(per_parameter * billions, printed, truncated),
                       std::strtod(printed, nullptr))
          << "stage " << stage << ", dp " << row.dp << ", " << billions << "e9 parameters, "
          << per_parameter << " bytes per parameter";
    };
    expect(7.5, row.b7_5[column], false);
    expect(128, row.b128[column], true);
    expect(1000, row.t1[column], true);
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, ZeroTable1, testing::ValuesIn(kTable),
                         [](const auto& row) { return "Dp" + std::to_string(row.param.dp); });

}  // namespace
}  // namespace zplan
