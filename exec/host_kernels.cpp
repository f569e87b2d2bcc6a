#include "exec/host_kernels.h"

#include <cmath>

#include "planner/program/step_scalars.h"

namespace zplan::exec {

void load_batch(const KernelCall& call) {
  const Operand& tokens = call[0];  // [b, s + 1] i32
  const std::int64_t dp = call.attributes[0], global_batch = call.attributes[1];
  const std::int64_t batch = tokens.shape()[0], row = tokens.shape()[1];
  const std::int64_t first =
      call.step * global_batch + (call.env.micro * dp + call.dp_index) * batch;
  for (std::int64_t i = 0; i < batch; ++i) {
    call.services->data().load(
        call.services->train().seed, first + i,
        {tokens.as<std::int32_t>() + i * row, static_cast<std::size_t>(row)});
  }
}

void step_scalars(const KernelCall& call) {
  const TrainConfig& train = call.services->train();
  const double t = static_cast<double>(call.step + 1);
  double* scalars = call[0].as<double>();
  scalars[kLearningRate] = train.learning_rate;
  scalars[kBeta1] = train.beta1;
  scalars[kBeta2] = train.beta2;
  scalars[kEpsilon] = train.epsilon;
  scalars[kWeightDecay] = train.weight_decay;
  scalars[kBiasCorrection1] = 1.0 - std::pow(train.beta1, t);  // [Loshchilov19]
  scalars[kBiasCorrection2] = 1.0 - std::pow(train.beta2, t);  // [Loshchilov19]
  scalars[kMaxGradientNorm] = train.clip_norm;
}

void report(const KernelCall& call) {
  if (!call.services->reports(call.stage, call.dp_index)) return;
  call.services->report_of(call.step) = {call[0].as<double>()[0],
                                         call[1].as<double>()[kGradientNorm]};
}

}  // namespace zplan::exec
