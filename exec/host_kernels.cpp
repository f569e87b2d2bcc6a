#include "exec/host_kernels.h"

#include <algorithm>
#include <cmath>

#include "exec/masked_tokens.h"
#include "planner/core/error.h"
#include "planner/core/random.h"
#include "planner/program/kernels/masked_tokens.h"
#include "planner/program/step_scalars.h"

namespace zplan::exec {
namespace {

constexpr double kScaleFactor = 2;

// `clip` is that of the last step. A scale of 0 has not begun.
void adapt_loss_scale(const TrainConfig& train, const double* clip, double* state) {
  if (state[kScale] == 0) {
    state[kScale] = train.initial_loss_scale;
  } else if (clip[kClipFactor] < 0) {
    state[kScale] = std::max(kLeastLossScale, state[kScale] / kScaleFactor);
    state[kGoodSteps] = 0;
    state[kSkippedSteps] += 1;
  } else if (++state[kGoodSteps] >= static_cast<double>(train.loss_scale_interval)) {
    state[kScale] *= kScaleFactor;
    state[kGoodSteps] = 0;
  }
}

// Of the step that the call is part of.
std::int64_t first_sample(const KernelCall& call, std::int64_t global_batch) {
  const StepPlace& place = call.services->steps()[call.run_step];
  if (place.validates()) return place.batch * global_batch;
  return call.services->start().sample + place.trained * global_batch;
}

}  // namespace

void load_batch(const KernelCall& call) {
  const Operand& tokens = call[0];  // [b, s + 1] i32
  const std::int64_t of_all = call.attributes[0], global_batch = call.attributes[1];
  const std::int64_t batch = tokens.shape()[0], row = tokens.shape()[1];
  const std::int64_t first =
      first_sample(call, global_batch) + call.env.micro * of_all + call.attributes[2];
  const std::int64_t begin = call.attributes[3], ahead = call.attributes[6];
  const auto loaded = static_cast<Loaded>(call.attributes[4]);
  for (std::int64_t i = 0; i < batch; ++i) {
    const MaskedSample sample{.seed = call.services->train().seed,
                              .sample = first + i,
                              .sequence = call.services->sequence(),
                              .vocabulary = call.attributes[5]};
    const std::span own{tokens.as<std::int32_t>() + i * row, static_cast<std::size_t>(row)};
    call.services->data(call.run_step)
        .load(sample.seed, sample.sample, sample.sequence, begin + ahead, own);
    if (loaded == Loaded::kMaskedInputs) mask_inputs(sample, begin, own);
    if (loaded == Loaded::kMaskedTargets) keep_masked_targets(sample, begin, own);
  }
}

void load_pixels(const KernelCall& call) {
  const Operand& pixels = call[0];  // [T, c] f32 or, where kernels compute in it, f64
  const std::int64_t of_all = call.attributes[0], global_batch = call.attributes[1];
  const std::int64_t first =
      first_sample(call, global_batch) + call.env.micro * of_all + call.attributes[2];
  const std::int64_t of_sample = call.attributes[3] * pixels.shape()[1];
  const TensorDraws draws(call.services->train().seed, "pixels");
  const auto fill = [&](auto* values) {
    for (std::int64_t i = 0; i < pixels.shape().elements(); ++i)
      values[i] = static_cast<std::remove_reference_t<decltype(*values)>>(
          draws.normal(static_cast<std::uint64_t>(first * of_sample + i)));
  };
  if (pixels.view->dtype == DType::kF64) return fill(pixels.as<double>());
  ZPLAN_ASSERT(pixels.view->dtype == DType::kF32);
  fill(pixels.as<float>());
}

void step_scalars(const KernelCall& call) {
  const TrainConfig& train = call.services->train();
  double* scalars = call[0].as<double>();
  const bool has_loss_scale = call.operands.size() > 2;
  double* state = has_loss_scale ? call[2].as<double>() : nullptr;
  if (has_loss_scale) adapt_loss_scale(train, call[1].as<double>(), state);
  const std::int64_t lag = call.attributes[0], each = call.attributes[1];
  const std::int64_t before = each > 0 ? call.step * each + call.env.micro : call.step;
  const auto skipped = has_loss_scale ? static_cast<std::int64_t>(state[kSkippedSteps]) : 0;
  // Number of this update, from 1.
  const std::int64_t update = std::max<std::int64_t>(1, before + 1 - lag - skipped);
  const auto t = static_cast<double>(update);
  scalars[kLearningRate] = train.learning_rate_at(update);
  scalars[kBeta1] = train.beta1;
  scalars[kBeta2] = train.beta2;
  scalars[kEpsilon] = train.epsilon;
  scalars[kWeightDecay] = train.weight_decay;
  scalars[kBiasCorrection1] = 1.0 - std::pow(train.beta1, t);  // [Loshchilov19]
  scalars[kBiasCorrection2] = 1.0 - std::pow(train.beta2, t);  // [Loshchilov19]
  scalars[kMaxGradientNorm] = train.clip_norm;
  scalars[kLossScale] = has_loss_scale ? state[kScale] : kLeastLossScale;
  const StartPoint& start = call.services->start();
  const std::int64_t skipped_steps = start.goes_on ? 0 : start.step;
  const std::int64_t handed_on = before - (each > 0 ? skipped_steps * each : skipped_steps);
  scalars[kInactive] = handed_on < lag ? 1.0 : 0.0;
  scalars[kUpdateNumber] = t - 1;
  if (call.services->reports(call))
    call.services->report_of(call.run_step).loss_scale = scalars[kLossScale];
}

void report(const KernelCall& call) {
  if (!call.services->reports(call)) return;
  const double* clip = call[1].as<double>();
  StepResult& result = call.services->report_of(call.run_step);
  result.loss = call[0].as<double>()[0] / std::max<std::int64_t>(1, call.attributes[1]);
  result.gradient_norm = clip[kGradientNorm];
  result.skipped = clip[kClipFactor] < 0;
  if (call.operands.size() < 3) return;
  const double* experts = call[2].as<double>();
  result.dropped = experts[0] / static_cast<double>(call.attributes[0]);
  result.balance_loss = experts[1];
}

}  // namespace zplan::exec
