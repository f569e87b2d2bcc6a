// The reference (one rank, nothing sharded) against PyTorch in float64: initial parameters, losses,
// gradient norms, gradients and final parameters of a tiny GPT-2 over five AdamW steps. Made by
// tests/data/make_golden.py, which implements the model with autograd and the random numbers anew.
// Tolerances: both sides round differently at 1e-16 per operation; five steps of a two-layer model
// stay within 1e-12.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "exec/run.h"
#include "exec/state_access.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "tests/support/gradient_log.h"

namespace zplan {
namespace {

using Json = nlohmann::json;
using testing_support::GradientLog;

const std::string kData = ZPLAN_SOURCE_DIR "/tests/data/";
constexpr int kSteps = 5;
constexpr double kTolerance = 1e-12;

const Json& golden() {
  static const Json json = Json::parse(std::ifstream(kData + "golden_gpt2_tiny.json"));
  return json;
}

std::vector<double> golden_values(const std::string& kind, const std::string& name) {
  for (const Json& record : golden().at("tensors")) {
    if (record.at("kind") != kind || record.at("name") != name) continue;
    std::size_t elements = 1;
    for (std::size_t dim : record.at("shape")) elements *= dim;
    std::vector<double> values(elements);
    std::ifstream file(kData + "golden_gpt2_tiny.bin", std::ios::binary);
    file.seekg(record.at("offset_bytes").get<std::streamoff>());
    file.read(reinterpret_cast<char*>(values.data()),
              static_cast<std::streamsize>(elements * sizeof(double)));
    EXPECT_TRUE(file.good()) << kind << " " << name;
    return values;
  }
  ADD_FAILURE() << "no " << kind << " of " << name;
  return {};
}

ModelConfig golden_model() {
  const Json& m = golden().at("config").at("model");
  ModelConfig model;
  model.name = "golden";
  model.layers = m.at("layers");
  model.hidden = m.at("hidden");
  model.heads = m.at("heads");
  model.ffn = m.at("ffn");
  model.vocab = m.at("vocab");
  model.sequence = m.at("seq");
  model.tied_embeddings = true;
  return model;
}

Job golden_job() {
  const ModelConfig model = golden_model();
  Plan plan;
  plan.model = model.name;
  plan.kernel_set = "cpu.f64";
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = golden().at("config").at("train").at("global_batch"),
                .micro_batch = 2,
                .sequence = model.sequence};
  Job job = lower(plan, model);
  place(job);
  return job;
}

void expect_close(const std::vector<double>& got, const std::vector<double>& expected,
                  const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(got[i] - expected[i]));
  EXPECT_LE(worst, kTolerance) << what;
}

exec::RunResult run(const Job& job, int steps, double clip_norm, GradientLog* log, int log_step) {
  exec::RunOptions options;
  options.steps = steps;
  options.train.clip_norm = clip_norm;
  if (log) options.observer = log->observer(job, log_step);
  return exec::run(job, exec::DataSource::from_file(kData + "text.txt"), options);
}

TEST(PyTorchGpt2, InitialParametersAreEqual) {
  const Job job = golden_job();
  const auto result = run(job, 0, 1.0, nullptr, 0);
  for (const exec::TensorRef& ref : exec::all_tensors(job)) {
    const std::string name = exec::tensor_name(job, ref);
    expect_close(exec::read_tensor(job, result.memory, ref),
                 golden_values("initial_parameter", name), name);
  }
}

TEST(PyTorchGpt2, LossesAndGradientNormsAgreeOverFiveSteps) {
  const Job job = golden_job();
  const auto result = run(job, kSteps, 1.0, nullptr, 0);
  ASSERT_EQ(result.steps.size(), std::size_t{kSteps});
  for (std::size_t i = 0; i < kSteps; ++i) {
    EXPECT_NEAR(result.steps[i].loss, golden().at("losses")[i].get<double>(), kTolerance);
    EXPECT_NEAR(result.steps[i].gradient_norm, golden().at("gradient_norms")[i].get<double>(),
                kTolerance);
  }
}

TEST(PyTorchGpt2, LossesAgreeWithATightClip) {
  const Json& tight = golden().at("tight_clip");
  const Job job = golden_job();
  const auto result = run(job, kSteps, tight.at("clip_norm"), nullptr, 0);
  for (std::size_t i = 0; i < kSteps; ++i)
    EXPECT_NEAR(result.steps[i].loss, tight.at("losses")[i].get<double>(), kTolerance);
}

TEST(PyTorchGpt2, GradientsAgreeAtTheFirstAndTheLastStep) {
  const Job job = golden_job();
  for (int step : {0, 4}) {
    GradientLog log;
    run(job, kSteps, 1.0, &log, step);
    for (const auto& [name, gradient] : log.tensors(job))
      expect_close(gradient, golden_values("gradient_step_" + std::to_string(step), name), name);
  }
}

TEST(PyTorchGpt2, FinalParametersAgree) {
  const Job job = golden_job();
  const auto result = run(job, kSteps, 1.0, nullptr, 0);
  for (const exec::TensorRef& ref : exec::all_tensors(job)) {
    const std::string name = exec::tensor_name(job, ref);
    expect_close(exec::read_tensor(job, result.memory, ref), golden_values("final_parameter", name),
                 name);
  }
}

}  // namespace
}  // namespace zplan
