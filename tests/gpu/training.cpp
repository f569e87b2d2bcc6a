#include "tests/gpu/training.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "tests/support/source_dir.h"
#include "tests/support/tensor_values.h"

namespace zplan::gpu {
namespace {

using testing_support::distance;
using testing_support::is_qkv_bias;
using testing_support::norm;

// Query, key and value part of a QKV bias; else the whole.
std::vector<std::vector<double>> parts(const std::string& tensor, const std::vector<double>& v) {
  if (is_qkv_bias(tensor)) return testing_support::thirds(v);
  return {v};
}
constexpr std::size_t kKeyPart = 1;

// Whether a part of a tensor is the bias of keys.
bool is_of_keys(const std::string& tensor, std::size_t part) {
  return testing_support::is_key_bias(tensor) || (is_qkv_bias(tensor) && part == kKeyPart);
}

std::string layer_of_keys(const std::string& tensor) {
  const bool crosses = testing_support::is_key_bias(tensor);
  return tensor.substr(0, tensor.find(crosses ? "crossattention." : "attn."));
}

// Of all tensors whose names begin alike.
double norm_of_layer(const Tensors& tensors, const std::string& prefix) {
  double square = 0;
  for (const auto& [tensor, values] : tensors)
    if (tensor.starts_with(prefix)) square += norm(values) * norm(values);
  return std::sqrt(square);
}

// What is zero in both, as the gradient of a bias that choices of experts alone read, is the same.
double share_of(double difference, double size) { return difference == 0 ? 0 : difference / size; }

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

}  // namespace

Job placed_job(const Plan& plan) {
  Job job = lower(plan, load_model(plan.model));
  place(job, {.slack = plan.slack});
  return job;
}

std::unique_ptr<Trained> train(const Plan& plan, exec::RunOptions options,
                               const std::string& directory, LaunchMode launch) {
  options.storage.directory = directory;
  auto trained = std::make_unique<Trained>();
  trained->job = placed_job(plan);
  trained->job.launch = launch;
  trained->result = exec::run(
      trained->job, exec::DataSource::from_file(ZPLAN_SOURCE_DIR "/tests/data/text.txt"), options);
  return trained;
}

FirstStep first_step(const Plan& plan, exec::RunOptions options, const std::string& directory) {
  options.storage.directory = directory;
  options.steps = 1;
  options.mode = exec::RunMode::kSerial;
  FirstStep step;
  step.trained = std::make_unique<Trained>();
  step.trained->job = placed_job(plan);
  testing_support::GradientLog log;
  const Observer other = options.observer;
  const Observer gradients = in_host_memory(options.device, log.observer(step.trained->job, 0));
  options.observer = [&](const exec::NodeEvent& event) {
    const Node& node = event.program->nodes[event.node];
    const bool updates = kernel_def(node.kernel).types.find('q') != std::string::npos;
    const bool is_seen =
        node.kind == OpKind::kKernel && (node.kernel == KernelId::kStepScalars || updates);
    if (is_seen) gradients(event);
    if (other) other(event);
  };
  step.trained->result =
      exec::run(step.trained->job,
                exec::DataSource::from_file(ZPLAN_SOURCE_DIR "/tests/data/text.txt"), options);
  step.gradients = log.tensors(step.trained->job);
  return step;
}

Observer in_host_memory(std::shared_ptr<exec::Device> device, Observer observer) {
  if (!device) return observer;
  return [device, observer](const exec::NodeEvent& event) {
    std::vector<exec::Operand> operands(event.operands.begin(), event.operands.end());
    std::vector<std::vector<std::byte>> copies;
    for (exec::Operand& operand : operands) {
      const Tier tier = event.program->buffers[operand.view->buffer].tier;
      if (operand.data == nullptr || device->host_reaches(tier)) continue;
      std::vector<std::byte>& copy =
          copies.emplace_back(static_cast<std::size_t>(operand.view->bytes().value));
      device->download(copy.data(), operand.data, operand.view->bytes());
      operand.data = copy.data();
    }
    exec::NodeEvent on_host = event;
    on_host.operands = operands;
    observer(on_host);
  };
}

Tensors parameters(const Trained& trained) {
  Tensors all;
  for (const exec::TensorRef& ref : exec::all_tensors(trained.job))
    all[exec::tensor_name(trained.job, ref)] =
        exec::read_tensor(trained.job, trained.result.memory, ref);
  return all;
}

void Deviation::take(double own_share, const std::string& own_what) {
  if (std::isnan(own_share)) own_share = std::numeric_limits<double>::infinity();
  if (own_share < share) return;
  share = own_share;
  what = own_what;
}

void compare_losses(const Trained& got, const Trained& expected, double allowed, Deviation& worst) {
  const auto &ours = got.result.steps, &theirs = expected.result.steps;
  if (ours.size() != theirs.size())
    return worst.take(std::numeric_limits<double>::infinity(), "the number of steps");
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    const double relative = std::abs(ours[i].loss - theirs[i].loss) / theirs[i].loss;
    worst.take(relative / allowed, fmt::format("loss of step {} off by {:.2g}", i, relative));
  }
}

void compare_gradients(const Tensors& got, const Tensors& expected, double allowed,
                       double allowed_of_keys, Deviation& worst) {
  for (const auto& [tensor, gradient] : expected) {
    const auto ours = parts(tensor, got.at(tensor)), theirs = parts(tensor, gradient);
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      const bool is_keys = is_of_keys(tensor, i);
      const double size =
          is_keys ? norm_of_layer(expected, layer_of_keys(tensor)) : norm(theirs[i]);
      const double relative = share_of(distance(ours[i], theirs[i]), size);
      worst.take(relative / (is_keys ? allowed_of_keys : allowed),
                 fmt::format("gradient of {} off by {:.2g}", tensor, relative));
    }
  }
}

void compare_parameters(const Tensors& got, const Tensors& expected, const Tensors& start,
                        double allowed, Deviation& worst) {
  for (const auto& [tensor, values] : expected) {
    const auto ours = parts(tensor, got.at(tensor)), theirs = parts(tensor, values),
               begin = parts(tensor, start.at(tensor));
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      if (is_of_keys(tensor, i)) continue;
      const double relative = share_of(distance(ours[i], theirs[i]), distance(theirs[i], begin[i]));
      worst.take(relative / allowed, fmt::format("{} off by {:.2g} of its way", tensor, relative));
    }
  }
}

std::string different_bits(const Trained& a, const Trained& b) {
  const auto &ours = a.result.steps, &theirs = b.result.steps;
  if (ours.size() != theirs.size()) return "the number of steps";
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (!same_bits(ours[i].loss, theirs[i].loss)) return fmt::format("loss of step {}", i);
    if (!same_bits(ours[i].gradient_norm, theirs[i].gradient_norm))
      return fmt::format("gradient norm of step {}", i);
  }
  for (const exec::State state : exec::kStates) {
    const auto difference = exec::largest_difference(a.job, a.result.memory, b.job, b.result.memory,
                                                     state, exec::Equality::kBits);
    if (difference) return difference->tensor;
  }
  return "";
}

}  // namespace zplan::gpu
