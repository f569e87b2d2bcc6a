#include "tests/golden/pytorch_golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "exec/memory/state_access.h"
#include "exec/run.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "tests/support/gradient_log.h"
#include "tests/support/source_dir.h"

namespace zplan::testing_support {
namespace {

using Json = nlohmann::json;

const std::string kData = ZPLAN_SOURCE_DIR "/tests/data/";
constexpr int kSteps = 5;
constexpr double kTolerance = 1e-12;

ModelConfig model_of(const Json& m) {
  if (m.contains("file")) return parse_model(m.at("file").dump(), "golden.json");
  ModelConfig model;
  model.name = "golden";
  model.layers = m.at("layers");
  model.hidden = m.at("hidden");
  model.heads = m.at("heads");
  model.kv_heads = m.value("kv_heads", model.heads);
  model.ffn = m.at("ffn");
  model.vocab = m.at("vocab");
  model.sequence = m.at("seq");
  model.rope_theta = m.value("rope_theta", std::int64_t{0});
  const bool llama = m.contains("rope_theta");
  set_architecture(model, llama ? Architecture::kLlama : Architecture::kGpt);
  model.own_head_size = m.value("head_size", std::int64_t{0});
  model.qk_norm = m.value("qk_norm", false);
  if (m.contains("kv_lora_rank"))
    model.latent =
        LatentShape{m.value("q_lora_rank", std::int64_t{0}), m.at("kv_lora_rank"),
                    m.at("qk_nope_head_size"), m.at("qk_rope_head_size"), m.at("v_head_size")};
  if (m.contains("experts"))
    model.experts = ExpertShape{
        .count = m.at("experts"),
        .per_token = m.at("experts_per_token"),
        .ffn = m.value("expert_ffn", model.ffn),
        .dense_layers = m.value("dense_layers", std::int64_t{0}),
        .shared_ffn = m.value("shared_expert_ffn", std::int64_t{0}),
        .scores = m.value("router_scores", "") == "sigmoid" ? Scores::kSigmoid : Scores::kSoftmax,
        .groups = m.value("router_groups", std::int64_t{1}),
        .groups_per_token = m.value("router_groups_per_token", std::int64_t{1}),
        .scale = m.value("router_scale", 1.0),
        .balance = m.value("balance_loss", 0.0)};
  model.tied_embeddings = !llama;
  model.global_batch = 1;
  return model;
}

Job job_of(const Json& config, const std::string& kernel_set, const OptimizerChoice& optimizer = {},
           const TrainedChoice& train = {}) {
  const ModelConfig model = model_of(config.at("model"));
  Plan plan;
  plan.optimizer = optimizer;
  plan.train = train;
  plan.model = model.name;
  plan.kernel_set = kernel_set;
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = config.at("train").at("global_batch"),
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

exec::RunResult run(const Job& job, int steps, double clip_norm = 1.0, GradientLog* log = nullptr,
                    int log_step = 0) {
  exec::RunOptions options;
  options.steps = steps;
  options.train.clip_norm = clip_norm;
  if (log) options.observer = log->observer(job, log_step);
  return exec::run(job, exec::DataSource::from_file(kData + "text.txt"), options);
}

}  // namespace

struct PyTorchGolden::File {
  std::string name;
  Json json;
};

PyTorchGolden::PyTorchGolden(const std::string& file, const std::string& kernel_set)
    : file_(std::make_unique<File>(File{file, Json::parse(std::ifstream(kData + file + ".json"))})),
      job_(job_of(file_->json.at("config"), kernel_set)) {}

PyTorchGolden::~PyTorchGolden() = default;

std::vector<double> PyTorchGolden::values(const std::string& kind, const std::string& name) const {
  for (const Json& record : file_->json.at("tensors")) {
    if (record.at("kind") != kind || record.at("name") != name) continue;
    std::size_t elements = 1;
    for (std::size_t dim : record.at("shape")) elements *= dim;
    std::vector<double> result(elements);
    std::ifstream file(kData + file_->name + ".bin", std::ios::binary);
    file.seekg(record.at("offset_bytes").get<std::streamoff>());
    file.read(reinterpret_cast<char*>(result.data()),
              static_cast<std::streamsize>(elements * sizeof(double)));
    EXPECT_TRUE(file.good()) << kind << " " << name;
    return result;
  }
  ADD_FAILURE() << "no " << kind << " of " << name;
  return {};
}

void PyTorchGolden::expect_parameters(int steps, const std::string& kind) const {
  const auto result = run(job_, steps);
  std::ptrdiff_t tensors = 0;
  for (const exec::TensorRef& ref : exec::all_tensors(job_)) {
    const std::string name = exec::tensor_name(job_, ref);
    expect_close(exec::read_tensor(job_, result.memory, ref), values(kind, name), name);
    ++tensors;
  }
  const auto& records = file_->json.at("tensors");
  EXPECT_EQ(tensors, std::count_if(records.begin(), records.end(),
                                   [&](const Json& r) { return r.at("kind") == kind; }));
}

void PyTorchGolden::expect_initial_parameters() const { expect_parameters(0, "initial_parameter"); }

void PyTorchGolden::expect_final_parameters() const {
  expect_parameters(kSteps, "final_parameter");
}

void PyTorchGolden::expect_losses_and_norms() const {
  const auto result = run(job_, kSteps);
  ASSERT_EQ(result.steps.size(), std::size_t{kSteps});
  for (std::size_t i = 0; i < kSteps; ++i) {
    EXPECT_NEAR(result.steps[i].loss, file_->json.at("losses")[i].get<double>(), kTolerance);
    EXPECT_NEAR(result.steps[i].gradient_norm, file_->json.at("gradient_norms")[i].get<double>(),
                kTolerance);
  }
}

void PyTorchGolden::expect_losses_with_a_tight_clip() const {
  const Json& tight = file_->json.at("tight_clip");
  const auto result = run(job_, kSteps, tight.at("clip_norm"));
  ASSERT_EQ(result.steps.size(), std::size_t{kSteps});
  for (std::size_t i = 0; i < kSteps; ++i)
    EXPECT_NEAR(result.steps[i].loss, tight.at("losses")[i].get<double>(), kTolerance);
}

void PyTorchGolden::expect_gradients() const {
  for (int step : {0, kSteps - 1}) {
    GradientLog log;
    run(job_, kSteps, 1.0, &log, step);
    for (const auto& [name, gradient] : log.tensors(job_))
      expect_close(gradient, values("gradient_step_" + std::to_string(step), name), name);
  }
}

void PyTorchGolden::expect_training_with(OptimizerKind kind) const {
  const std::string word(name(kind));
  const Json& expected = file_->json.at("optimizers").at(word);
  const Job job = job_of(file_->json.at("config"), job_.kernel_set,
                         {.kind = kind, .block = file_->json.at("block")});
  exec::RunOptions options;
  options.steps = kSteps;
  options.train.learning_rate = expected.at("learning_rate");
  const auto result = exec::run(job, exec::DataSource::from_file(kData + "text.txt"), options);
  for (std::size_t i = 0; i < kSteps; ++i)
    EXPECT_NEAR(result.steps[i].loss, expected.at("losses")[i].get<double>(), kTolerance);
  for (const exec::TensorRef& ref : exec::all_tensors(job)) {
    const std::string tensor = exec::tensor_name(job, ref);
    expect_close(exec::read_tensor(job, result.memory, ref), values("final_" + word, tensor),
                 tensor);
  }
}

void PyTorchGolden::expect_run(const std::string& name) const {
  const Json& expected = file_->json.at("runs").at(name);
  const auto result = run(job_, kSteps);
  for (std::size_t i = 0; i < kSteps; ++i) {
    EXPECT_NEAR(result.steps[i].loss, expected.at("losses")[i].get<double>(), kTolerance);
    EXPECT_NEAR(result.steps[i].gradient_norm, expected.at("gradient_norms")[i].get<double>(),
                kTolerance);
  }
  for (const exec::TensorRef& ref : exec::all_tensors(job_)) {
    const std::string tensor = exec::tensor_name(job_, ref);
    expect_close(exec::read_tensor(job_, result.memory, ref), values("final_" + name, tensor),
                 tensor);
  }
}

void PyTorchGolden::expect_lora() const {
  const Json& lora = file_->json.at("lora");
  const Job job =
      job_of(file_->json.at("config"), job_.kernel_set, {},
             {.what = Trained::kLora, .rank = lora.at("rank"), .alpha = lora.at("alpha")});
  exec::RunOptions options;
  options.steps = kSteps;
  options.train.learning_rate = lora.at("learning_rate");
  const auto result = exec::run(job, exec::DataSource::from_file(kData + "text.txt"), options);
  for (std::size_t i = 0; i < kSteps; ++i) {
    EXPECT_NEAR(result.steps[i].loss, file_->json.at("losses")[i].get<double>(), kTolerance);
    EXPECT_NEAR(result.steps[i].gradient_norm, file_->json.at("gradient_norms")[i].get<double>(),
                kTolerance);
  }
  std::size_t factors = 0;
  for (const exec::TensorRef& ref : exec::all_tensors(job)) {
    const std::string tensor = exec::tensor_name(job, ref);
    if (tensor.find(".lora_") == std::string::npos) continue;
    ++factors;
    expect_close(exec::read_tensor(job, result.memory, ref), values("final_parameter", tensor),
                 tensor);
  }
  EXPECT_EQ(factors, file_->json.at("tensors").size());
}

void PyTorchGolden::expect_qlora() const {
  const Json& lora = file_->json.at("lora");
  for (const auto& [word, expected] : file_->json.at("runs").items()) {
    const auto base = std::ranges::find(kBaseTypeWords, word) - kBaseTypeWords.begin();
    const Job job = job_of(file_->json.at("config"), job_.kernel_set, {},
                           {.what = Trained::kLora,
                            .rank = lora.at("rank"),
                            .alpha = lora.at("alpha"),
                            .by_root = expected.at("by_root"),
                            .base = static_cast<BaseType>(base)});
    exec::RunOptions options;
    options.steps = kSteps;
    options.train.learning_rate = lora.at("learning_rate");
    const auto result = exec::run(job, exec::DataSource::from_file(kData + "text.txt"), options);
    for (std::size_t i = 0; i < kSteps; ++i) {
      EXPECT_NEAR(result.steps[i].loss, expected.at("losses")[i].get<double>(), kTolerance) << word;
      EXPECT_NEAR(result.steps[i].gradient_norm, expected.at("gradient_norms")[i].get<double>(),
                  kTolerance)
          << word;
    }
  }
}

}  // namespace zplan::testing_support
