// Multi-token prediction: the loss is that of the definition, written here in plain loops, and
// every strategy trains a model with such modules like one rank. That gradients are the slope of
// the loss is checked in model_features_test.cpp.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "exec/data_source.h"
#include "models/model_config.h"
#include "models/model_formulas.h"
#include "planner/lower/blocks/decoder.h"
#include "planner/program/instances/edges.h"
#include "planner/program/verify/verify.h"
#include "tests/support/placed_job.h"
#include "tests/support/plan_space.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

using testing_support::placed_job;
using testing_support::Tensors;
using Matrix = std::vector<double>;  // row-major

// h 64, 4 heads of which 2 for keys, 4 layers, as Llama; the members that differ are appended.
ModelConfig tiny(const std::string& features) {
  return parse_model(R"({"schema": "zplan.model/1", "name": "tiny-mtp", "architecture": "llama",
                         "layers": 4, "hidden": 64, "heads": 4, "vocab": 256, "sequence": 32,
                         "rope_theta": 10000, "global_batch": 8, "source": "a test", )" +
                         features + "}",
                     "tiny-mtp.json");
}

struct Model {
  const char* name;
  const char* features;
};
void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }
constexpr Model kModels[] = {
    {"OneModule", R"("kv_heads": 2, "ffn": 128, "tied_embeddings": false, "mtp_layers": 1)"},
    {"TwoModulesOfATiedModel",
     R"("kv_heads": 2, "ffn": 128, "tied_embeddings": true, "mtp_layers": 2, "mtp_loss": 0.25)"},
    {"ThreeModulesWithLayerNormAndACap",
     R"("kv_heads": 4, "ffn": 128, "tied_embeddings": false, "mtp_layers": 3, "logit_cap": 5,
        "norm": "layernorm", "scaled_embedding": true, "biases": "all")"},
    {"Experts",
     R"("ffn": 128, "tied_embeddings": false, "kv_lora_rank": 16, "qk_nope_head_size": 12,
        "qk_rope_head_size": 8, "v_head_size": 16, "dense_layers": 1, "experts": 4,
        "experts_per_token": 2, "expert_ffn": 24, "shared_expert_ffn": 48,
        "router_scores": "sigmoid", "router_bias": true, "router_bias_rate": 0.001,
        "mtp_layers": 1)"},
    {"TwoModulesOfExperts",
     R"("kv_heads": 2, "ffn": 24, "tied_embeddings": false, "experts": 4, "experts_per_token": 2,
        "balance_loss": 0.25, "mtp_layers": 2)"}};

Plan one_rank() {
  Plan plan = testing_support::base_plan("cpu.f64", "tiny-mtp");
  plan.batch.micro_batch = testing_support::kGlobalBatch;
  return plan;
}

// ---- the definition -------------------------------------------------------------------------

constexpr int kHidden = 64, kHeads = 4, kKeyHeads = 2, kHeadSize = 16, kFfn = 128, kVocab = 256;

// x [n, k] times w [k, m].
Matrix product(const Matrix& x, const Matrix& w, int k) {
  const auto n = static_cast<int>(x.size()) / k, m = static_cast<int>(w.size()) / k;
  Matrix y(static_cast<std::size_t>(n * m));
  for (int i = 0; i < n; ++i)
    for (int l = 0; l < k; ++l)
      for (int j = 0; j < m; ++j)
        y[static_cast<std::size_t>(i * m + j)] +=
            x[static_cast<std::size_t>(i * k + l)] * w[static_cast<std::size_t>(l * m + j)];
  return y;
}

Matrix rms_norm(const Matrix& x, const Matrix& gain) {
  constexpr double kEpsilon = 1e-5;
  Matrix y(x.size());
  for (std::size_t row = 0; row < x.size(); row += kHidden) {
    double squares = 0;
    for (std::size_t i = row; i < row + kHidden; ++i) squares += x[i] * x[i];
    const double scale = 1 / std::sqrt(squares / kHidden + kEpsilon);
    for (std::size_t i = 0; i < kHidden; ++i) y[row + i] = x[row + i] * scale * gain[i];
  }
  return y;
}

Matrix sum(Matrix x, const Matrix& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  return x;
}

// A head at a position, in two halves that turn.
void turn(double* head, int position) {
  for (int i = 0; i < kHeadSize / 2; ++i) {
    const double angle = position * std::pow(10000.0, -2.0 * i / kHeadSize);
    const double a = head[i], b = head[i + kHeadSize / 2];
    head[i] = a * std::cos(angle) - b * std::sin(angle);
    head[i + kHeadSize / 2] = b * std::cos(angle) + a * std::sin(angle);
  }
}

// Takes queries, keys and values of each token side by side [s, (a + 2 g) d].
Matrix attention(Matrix qkv, int tokens) {
  constexpr int kWidth = (kHeads + 2 * kKeyHeads) * kHeadSize;
  Matrix out(static_cast<std::size_t>(tokens * kHidden));
  for (int t = 0; t < tokens; ++t)
    for (int head = 0; head < kHeads + kKeyHeads; ++head)
      turn(&qkv[static_cast<std::size_t>(t * kWidth + head * kHeadSize)], t);
  for (int t = 0; t < tokens; ++t)
    for (int head = 0; head < kHeads; ++head) {
      const int group = head / (kHeads / kKeyHeads);
      const auto at = [&](int token, int number) {
        return &qkv[static_cast<std::size_t>(token * kWidth + number * kHeadSize)];
      };
      std::vector<double> weights;
      double all = 0;
      for (int key = 0; key <= t; ++key) {
        double score = 0;
        for (int i = 0; i < kHeadSize; ++i) score += at(t, head)[i] * at(key, kHeads + group)[i];
        weights.push_back(std::exp(score / std::sqrt(kHeadSize)));
        all += weights.back();
      }
      for (int key = 0; key <= t; ++key)
        for (int i = 0; i < kHeadSize; ++i)
          out[static_cast<std::size_t>(t * kHidden + head * kHeadSize + i)] +=
              weights[static_cast<std::size_t>(key)] / all * at(key, kHeads + kKeyHeads + group)[i];
    }
  return out;
}

class Definition {
 public:
  Definition(const Tensors& tensors, int layers, int modules, double share)
      : tensors_(tensors), layers_(layers), modules_(modules), share_(share) {}

  // Takes tokens 0 .. s + modules of a sample.
  double loss(const std::vector<int>& tokens) const {
    const int s = static_cast<int>(tokens.size()) - 1 - modules_;
    Matrix x = embedded(tokens, s, 0);
    for (int i = 0; i < layers_; ++i) x = layer(x, i, s);
    x = rms_norm(x, of("model.norm.weight"));
    double all = cross_entropy(x, tokens, s, 1);
    for (int k = 1; k <= modules_; ++k) {
      const int number = layers_ + k - 1;
      const Matrix e = rms_norm(embedded(tokens, s, k), of_layer(number, "enorm.weight"));
      const Matrix h = rms_norm(x, of_layer(number, "hnorm.weight"));
      Matrix both;
      for (int t = 0; t < s; ++t)
        for (const Matrix* part : {&e, &h})
          both.insert(both.end(), part->begin() + t * kHidden, part->begin() + (t + 1) * kHidden);
      x = layer(product(both, of_layer(number, "eh_proj.weight"), 2 * kHidden), number, s);
      x = rms_norm(x, of_layer(number, "shared_head.norm.weight"));
      all += share_ / modules_ * cross_entropy(x, tokens, s, k + 1);
    }
    return all;
  }

 private:
  const Matrix& of(const std::string& name) const { return tensors_.at(name); }
  const Matrix& of_layer(int layer, const std::string& name) const {
    return of("model.layers." + std::to_string(layer) + "." + name);
  }

  Matrix embedded(const std::vector<int>& tokens, int s, int ahead) const {
    const Matrix& table = of("model.embed_tokens.weight");
    Matrix x;
    for (int t = 0; t < s; ++t) {
      const auto row = table.begin() + tokens[static_cast<std::size_t>(t + ahead)] * kHidden;
      x.insert(x.end(), row, row + kHidden);
    }
    return x;
  }

  Matrix layer(const Matrix& x, int number, int s) const {
    const auto w = [&](const char* name) { return of_layer(number, name); };
    const Matrix qkv =
        product(rms_norm(x, w("input_layernorm.weight")), w("self_attn.qkv_proj.weight"), kHidden);
    const Matrix middle = sum(x, product(attention(qkv, s), w("self_attn.o_proj.weight"), kHidden));
    const Matrix both = product(rms_norm(middle, w("post_attention_layernorm.weight")),
                                w("mlp.gate_up_proj.weight"), kHidden);
    Matrix inner;
    for (int t = 0; t < s; ++t)
      for (int i = 0; i < kFfn; ++i) {
        const double gate = both[static_cast<std::size_t>(t * 2 * kFfn + i)];
        const double up = both[static_cast<std::size_t>(t * 2 * kFfn + kFfn + i)];
        inner.push_back(gate / (1 + std::exp(-gate)) * up);
      }
    return sum(middle, product(inner, w("mlp.down_proj.weight"), kFfn));
  }

  double cross_entropy(const Matrix& x, const std::vector<int>& tokens, int s, int ahead) const {
    const auto tied = tensors_.find("lm_head.weight");
    const Matrix& head = tied == tensors_.end() ? of("model.embed_tokens.weight") : tied->second;
    double all = 0;
    for (int t = 0; t < s; ++t) {
      double exponentials = 0, asked = 0;
      for (int v = 0; v < kVocab; ++v) {
        double logit = 0;
        for (int i = 0; i < kHidden; ++i)
          logit += x[static_cast<std::size_t>(t * kHidden + i)] *
                   head[static_cast<std::size_t>(v * kHidden + i)];
        exponentials += std::exp(logit);
        if (v == tokens[static_cast<std::size_t>(t + ahead)]) asked = logit;
      }
      all += std::log(exponentials) - asked;
    }
    return all / s;
  }

  const Tensors& tensors_;
  int layers_, modules_;
  double share_;
};

class MtpLoss : public testing::TestWithParam<int> {};

// This compares at the initial parameters and at those that two steps lead to.
TEST_P(MtpLoss, IsThatOfItsDefinition) {
  const ModelConfig model = tiny(kModels[GetParam()].features);
  const Plan plan = one_rank();
  const Job job = placed_job(plan, model);
  const exec::DataSource data = testing_support::text();
  const std::int64_t s = plan.batch.sequence, batch = plan.batch.global_batch;
  exec::RunOptions options = testing_support::steps(3);
  const exec::RunResult run = exec::run(job, data, options);
  for (const int step : {0, 2}) {
    options.steps = step;
    const exec::RunResult before = exec::run(job, data, options);
    const Tensors tensors = testing_support::tensors(job, before);
    const Definition definition(tensors, static_cast<int>(model.layers),
                                static_cast<int>(model.mtp_layers), model.mtp_loss);
    double loss = 0;
    for (std::int64_t sample = step * batch; sample < (step + 1) * batch; ++sample) {
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(s + 1 + model.mtp_layers));
      data.load(options.train.seed, sample, s, 0, tokens);
      loss += definition.loss({tokens.begin(), tokens.end()}) / static_cast<double>(batch);
    }
    EXPECT_NEAR(run.steps[static_cast<std::size_t>(step)].loss, loss, 1e-10) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Dense, MtpLoss, testing::Values(0, 1));

// ---- strategies -----------------------------------------------------------------------------

using Change = std::function<void(Plan&)>;
const std::vector<std::pair<const char*, Change>>& strategies() {
  static const std::vector<std::pair<const char*, Change>> all = {
      {"micro-batches added up", [](Plan&) {}},
      {"ZeRO 1", [](Plan& p) { p.parallel.dp = 2, p.zero_stage = 1; }},
      {"ZeRO 2, all recomputed",
       [](Plan& p) {
         p.parallel.dp = 2;
         p.zero_stage = 2;
         p.recompute = {{Recompute::kFull, 0}};
       }},
      {"ZeRO 3 by layer, one micro-batch",
       [](Plan& p) {
         p.parallel.dp = 2;
         p.zero_stage = 3;
         p.gather = Gather::kLayer;
         p.batch.micro_batch = 4;
       }},
      {"ZeRO 3 by operator, some recomputed",
       [](Plan& p) {
         p.parallel.dp = 2;
         p.zero_stage = 3;
         p.recompute = {{Recompute::kFull, 1}, {Recompute::kNone, 2}, {Recompute::kSelective, 0}};
       }},
      {"tensor parallel", [](Plan& p) { p.parallel.tp = 2; }},
      {"tensor and sequence parallel, ZeRO 1",
       [](Plan& p) {
         p.parallel.tp = 2;
         p.parallel.dp = 2;
         p.parallel.sequence_parallel = true;
         p.zero_stage = 1;
         p.recompute = {{Recompute::kOperators, 0, {LayerOperator::kNorm, LayerOperator::kFc1}}};
       }},
      {"tensor and sequence parallel, ZeRO 3, unfused",
       [](Plan& p) {
         p.kernel_set = "cpu.f64.unfused";
         p.parallel.tp = 2;
         p.parallel.dp = 2;
         p.parallel.sequence_parallel = true;
         p.zero_stage = 3;
         p.recompute = {{Recompute::kSelective, 0}};
       }},
      {"two stages", [](Plan& p) { p.parallel.pp = 2; }},
      {"two stages, one micro-batch, ZeRO 1",
       [](Plan& p) {
         p.parallel.pp = 2;
         p.parallel.dp = 2;
         p.batch.micro_batch = 4;
         p.zero_stage = 1;
       }},
      {"a last chunk of modules alone",
       [](Plan& p) {
         p.parallel.pp = 2;
         p.parallel.chunks = 2;
         p.schedule = Schedule::kInterleaved;
         p.stage_layers = {1, 2, 1, 0};
         p.recompute = {{Recompute::kFull, 0}};
       }},
      {"two stages, tensor and sequence parallel, GPipe",
       [](Plan& p) {
         p.parallel.pp = 2;
         p.parallel.tp = 2;
         p.parallel.sequence_parallel = true;
         p.schedule = Schedule::kGpipe;
         p.batch.micro_batch = 1;
       }},
      {"two stages, ZeRO 3",
       [](Plan& p) {
         p.parallel.pp = 2;
         p.parallel.dp = 2;
         p.zero_stage = 3;
         p.stage_layers = {3, 1};
       }},
      {"interleaved",
       [](Plan& p) {
         p.parallel.pp = 2;
         p.parallel.chunks = 2;
         p.schedule = Schedule::kInterleaved;
         p.recompute = {{Recompute::kFull, 2}, {Recompute::kNone, 0}};
       }},
      {"interleaved, ZeRO 2",
       [](Plan& p) {
         p.parallel.pp = 2;
         p.parallel.dp = 2;
         p.parallel.chunks = 2;
         p.schedule = Schedule::kInterleaved;
         p.zero_stage = 2;
       }},
      {"backward in two parts",
       [](Plan& p) {
         p.parallel.pp = 2;
         p.schedule = Schedule::kZeroBubbleH1;
         p.batch.micro_batch = 1;
       }},
      {"parts of sequences", [](Plan& p) { p.parallel.cp = 2, p.zero_stage = 3; }},
      {"a ring, two stages",
       [](Plan& p) { p.parallel.cp = 2, p.parallel.ring = 2, p.parallel.pp = 2; }},
      {"products rounded to fp8",
       [](Plan& p) {
         p.kernel_set = "cpu.f64.fp8";
         p.parallel.pp = 2;
       }},
      {"the head in pieces", [](Plan& p) { p.head_chunks = 2; }},
      {"the head in pieces, two stages, ZeRO 3",
       [](Plan& p) {
         p.head_chunks = 4;
         p.parallel.pp = 2;
         p.parallel.dp = 2;
         p.zero_stage = 3;
       }},
      {"experts on ranks of their own",
       [](Plan& p) {
         p.parallel.dp = 2;
         p.parallel.ep = 2;
         p.parallel.pp = 2;
         p.zero_stage = 1;
       }},
      {"experts on ranks of their own, ZeRO 3, tensor and sequence parallel",
       [](Plan& p) {
         p.parallel.dp = 2;
         p.parallel.ep = 2;
         p.parallel.tp = 2;
         p.parallel.sequence_parallel = true;
         p.zero_stage = 3;
         p.recompute = {{Recompute::kFull, 0}};
       }},
      {"whole experts on tensor parallel ranks",
       [](Plan& p) {
         p.parallel.expert_tp = 1;
         p.parallel.ep = 2;
         p.parallel.tp = 2;
         p.parallel.dp = 2;
         p.parallel.sequence_parallel = true;
         p.zero_stage = 1;
       }},
      {"tokens exchanged beside another micro-batch",
       [](Plan& p) {
         p.parallel.dp = 2;
         p.parallel.ep = 2;
         p.overlap.exchange = true;
         p.batch.micro_batch = 1;
       }},
      {"tokens exchanged beside another micro-batch, and weight gradients, interleaved",
       [](Plan& p) {
         p.parallel.dp = 2;
         p.parallel.ep = 2;
         p.parallel.pp = 2;
         p.parallel.chunks = 2;
         p.schedule = Schedule::kInterleaved;
         p.overlap.exchange = p.overlap.weight_gradients = true;
         p.batch.micro_batch = 1;
         p.zero_stage = 2;
       }},
      {"the update on the host",
       [](Plan& p) {
         p.parallel.dp = 2;
         p.zero_stage = 2;
         p.placement = {Tier::kGpu, Tier::kCpu, Tier::kCpu, Tier::kGpu};
       }},
      {"states in storage, two stages",
       [](Plan& p) {
         p.parallel.dp = 2;
         p.parallel.pp = 2;
         p.zero_stage = 3;
         p.placement = {Tier::kNvme, Tier::kCpu, Tier::kNvme, Tier::kGpu};
       }},
      {"checkpoints on the host",
       [](Plan& p) {
         p.parallel.dp = 2;
         p.zero_stage = 3;
         p.placement.activations = Tier::kCpu;
         p.recompute = {{Recompute::kFull, 0}};
       }},
      {"checkpoints in storage, two stages",
       [](Plan& p) {
         p.parallel.pp = 2;
         p.placement.activations = Tier::kNvme;
         p.recompute = {{Recompute::kFull, 0}};
       }},
      {"checkpoints cut over tensor parallel ranks",
       [](Plan& p) {
         p.parallel.tp = 2;
         p.partition_activations = true;
         p.recompute = {{Recompute::kFull, 0}};
       }},
      {"results of operators on the host and in storage",
       [](Plan& p) {
         using enum LayerOperator;
         p.parallel.pp = 2;
         p.recompute = {
             {Recompute::kOperators, 0, {kNorm}, {kQkv, kFc1, kActivation}, {kAttention}}};
       }},
      {"the update beside backward",
       [](Plan& p) {
         p.parallel.dp = 2;
         p.zero_stage = 3;
         p.placement.optimizer = Tier::kCpu;
         p.overlap.optimizer = true;
         p.clip = false;
       }},
      {"operations fused", [](Plan& p) { p.kernel_set = "cpu.f64.fused", p.parallel.pp = 2; }}};
  return all;
}

class Mtp : public testing::TestWithParam<Model> {};

void expect_like_one_rank(const ModelConfig& model, const TrainedChoice& trained) {
  constexpr double kTolerance = 1e-10;
  const exec::RunOptions options = testing_support::steps(3);
  Plan alone = one_rank();
  alone.train = trained;
  std::size_t tried = 0;
  for (const auto& [what, change] : strategies()) {
    SCOPED_TRACE(what);
    Plan plan = alone;
    plan.batch.micro_batch = 2;
    change(plan);
    if (model.experts ? plan.parallel.cp > 1 && model.balances_experts() : plan.parallel.ep > 1)
      continue;
    if (trained.what != Trained::kAll && plan.overlap.optimizer) continue;
    if (trained.has_lora() && plan.overlap.weight_gradients) continue;
    if (plan.parallel.ep > 1) plan.expert_imbalance = 0;  // room for whatever is chosen
    const bool rounds = plan.kernel_set.ends_with("fp8");
    if (rounds && (model.experts || trained.has_lora())) continue;
    ASSERT_EQ(illegal(plan, shape_of(model)), std::nullopt);
    Plan one = alone;
    one.clip = plan.clip;
    if (rounds) one.kernel_set = plan.kernel_set;
    const Job expected_job = placed_job(one, model), job = placed_job(plan, model);
    EXPECT_EQ(verify(job), std::vector<std::string>{});
    const exec::RunResult expected = testing_support::run_text(expected_job, options);
    const exec::RunResult got = testing_support::run_text(job, options);
    EXPECT_EQ(exec::replica_mismatch(job, got.memory), std::nullopt);
    for (std::size_t i = 0; i < got.steps.size(); ++i) {
      EXPECT_NEAR(got.steps[i].loss, expected.steps[i].loss, kTolerance);
      EXPECT_NEAR(got.steps[i].gradient_norm, expected.steps[i].gradient_norm, kTolerance);
      EXPECT_NEAR(got.steps[i].balance_loss, expected.steps[i].balance_loss, kTolerance);
    }
    const auto worst = exec::largest_difference(job, got.memory, expected_job, expected.memory);
    if (worst) {
      EXPECT_NEAR(worst->first, worst->second, kTolerance) << worst->tensor;
    }
    ++tried;
  }
  EXPECT_GT(tried, 15U);
}

TEST_P(Mtp, EveryStrategyTrainsItLikeOneRank) {
  expect_like_one_rank(tiny(GetParam().features), {});
}

TEST_P(Mtp, EveryStrategyTrainsItsFactorsLikeOneRank) {
  expect_like_one_rank(tiny(GetParam().features), {.what = Trained::kLora, .rank = 4});
}

TEST_P(Mtp, EveryStrategyTrainsItsLayersAloneLikeOneRank) {
  expect_like_one_rank(tiny(GetParam().features), {.what = Trained::kLayers});
}

TEST_P(Mtp, ParametersAreThoseThatTheFormulasCount) {
  const ModelConfig model = tiny(GetParam().features);
  Plan plan = one_rank();
  plan.parallel.pp = 2;
  plan.batch.micro_batch = 2;
  const Job job = placed_job(plan, model);
  const exec::RunResult run = testing_support::run_text(job, testing_support::steps(0));
  std::int64_t elements = 0;
  for (const auto& [name, values] : testing_support::tensors(job, run))
    elements += std::ssize(values);
  EXPECT_EQ(elements, parameter_count(model));
}

// A single rank goes on with what two stages have saved.
TEST_P(Mtp, CheckpointsAreThoseOfAnyPlan) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("zplan_mtp_" + std::to_string(getpid()));
  std::filesystem::remove_all(folder);
  const ModelConfig model = tiny(GetParam().features);
  const Plan alone = one_rank();
  Plan plan = alone;
  plan.parallel.pp = plan.parallel.dp = 2;
  plan.batch.micro_batch = 2;
  plan.zero_stage = 3;
  const Job staged = placed_job(plan, model), job = placed_job(alone, model);
  exec::RunOptions saving = testing_support::steps(2);
  saving.save = {.folder = folder.string(), .every = 2};
  testing_support::run_text(staged, saving);
  exec::RunOptions resuming = testing_support::steps(4);
  resuming.resume.path = (folder / "step-000002").string();
  const exec::RunResult resumed = testing_support::run_text(job, resuming);
  const exec::RunResult whole = testing_support::run_text(job, testing_support::steps(4));
  const auto worst = exec::largest_difference(job, resumed.memory, job, whole.memory);
  if (worst) {
    EXPECT_NEAR(worst->first, worst->second, 1e-10) << worst->tensor;
  }
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Models, Mtp, testing::ValuesIn(kModels),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace zplan
