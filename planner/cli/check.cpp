// Tolerances: in f64 any two plans agree but for rounding; in f32 each loss and gradient does,
// while single parameters drift apart by up to the learning rate, because AdamW divides by the size
// of the gradient even where that is rounding: so the root mean square of a tensor counts, and may
// be a thousandth of the learning rate. In 16 bit every activation and parameter is rounded, sums
// over ranks among them: eight units of the last place of numbers around 1.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <span>

#include "exec/state_access.h"
#include "planner/cli/training.h"
#include "planner/core/error.h"
#include "planner/program/kernel_set.h"

namespace zplan {
namespace {

struct Tolerance {
  double value;       // of losses and gradients
  double key_biases;  // of gradients that are rounding and nothing else
  double parameters;  // root mean square of a tensor
};

Tolerance tolerance_of(DType compute, double learning_rate) {
  switch (compute) {
    case DType::kF64:
      return {1e-10, 1e-10, 1e-10};
    case DType::kF16:
      return {0x1p-8, 0x1p-8, 0x1p-8};
    case DType::kBf16:
      return {0x1p-5, 0x1p-5, 0x1p-5};
    default:
      return {1e-5, 1e-6, 1e-3 * learning_rate};
  }
}
constexpr std::string_view kQkvBias = "attn.c_attn.bias";

Tolerance tolerance(const FinishedRun& run) {
  return tolerance_of(find_kernel_set(run.job->kernel_set).compute, run.learning_rate);
}

// Keeps the greatest difference; NaN is greater than everything.
void keep(CheckRow& row, double difference, const std::string& where) {
  const bool greater = std::isnan(difference) || difference > row.difference;
  if (std::isnan(row.difference) || !greater) return;
  row.difference = difference;
  row.where = where;
}

double norm(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

double distance(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

double ratio(double difference, double size) {
  if (difference == 0) return 0;
  return size > 0 ? difference / size : INFINITY;
}

struct TensorPair {
  std::string name;
  std::vector<double> run, reference;
};

// All tensors of the model, from both runs.
std::vector<TensorPair> read_pairs(const FinishedRun& run, const FinishedRun& reference,
                                   exec::State state) {
  std::map<std::string, exec::TensorRef> others;
  for (const exec::TensorRef& ref : exec::all_tensors(*reference.job)) {
    others.emplace(exec::tensor_name(*reference.job, ref), ref);
  }
  std::vector<TensorPair> pairs;
  for (const exec::TensorRef& ref : exec::all_tensors(*run.job)) {
    const std::string name = exec::tensor_name(*run.job, ref);
    const auto other = others.find(name);
    ZPLAN_ASSERT(other != others.end());
    pairs.push_back(
        {name, exec::read_tensor(*run.job, run.result->memory, ref, state),
         exec::read_tensor(*reference.job, reference.result->memory, other->second, state)});
    ZPLAN_ASSERT(pairs.back().run.size() == pairs.back().reference.size());
  }
  return pairs;
}

// "transformer.h.3." of "transformer.h.3.attn.c_attn.bias"; empty outside the layers.
std::string layer_of(const std::string& tensor) {
  constexpr std::string_view kLayers = "transformer.h.";
  if (!tensor.starts_with(kLayers)) return "";
  return tensor.substr(0, tensor.find('.', kLayers.size()) + 1);
}

}  // namespace

CheckRow compare_losses(const FinishedRun& run, const FinishedRun& reference) {
  CheckRow row{
      .quantity = "losses", .tolerance = tolerance(run).value, .unit = "relative", .where = {}};
  const auto& steps = run.result->steps;
  ZPLAN_ASSERT(steps.size() == reference.result->steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const double expected = reference.result->steps[i].loss;
    keep(row, ratio(std::abs(steps[i].loss - expected), std::abs(expected)),
         fmt::format("step {}", i + 1));
  }
  return row;
}

std::vector<CheckRow> compare_gradients(const FinishedRun& run, const FinishedRun& reference) {
  CheckRow row{.quantity = "first gradients",
               .tolerance = tolerance(run).value,
               .unit = "of the tensor's norm",
               .where = {}};
  CheckRow keys{.quantity = "same, key biases",
                .tolerance = tolerance(run).key_biases,
                .unit = "of the layer's norm",
                .where = {}};
  const std::vector<TensorPair> pairs = read_pairs(run, reference, exec::State::kMoment1);
  std::map<std::string, double> layer_norms;
  for (const TensorPair& pair : pairs) {
    double& total = layer_norms[layer_of(pair.name)];
    total = std::hypot(total, norm(pair.reference));
  }
  for (const TensorPair& pair : pairs) {
    std::span<const double> a = pair.run, b = pair.reference;
    if (pair.name.ends_with(kQkvBias)) {  // [3, a, d]: queries, keys, values
      const std::size_t third = a.size() / 3;
      keep(keys,
           ratio(distance(a.subspan(third, third), b.subspan(third, third)),
                 layer_norms[layer_of(pair.name)]),
           pair.name);
      const double without_keys = std::hypot(distance(a.first(third), b.first(third)),
                                             distance(a.last(third), b.last(third)));
      keep(row, ratio(without_keys, norm(b)), pair.name);
    } else {
      keep(row, ratio(distance(a, b), norm(b)), pair.name);
    }
  }
  return {row, keys};
}

CheckRow compare_parameters(const FinishedRun& run, const FinishedRun& reference) {
  CheckRow row{.quantity = "parameters",
               .tolerance = tolerance(run).parameters,
               .unit = "root mean square",
               .where = {}};
  for (const TensorPair& pair : read_pairs(run, reference, exec::State::kParam))
    keep(row, distance(pair.run, pair.reference) / std::sqrt(static_cast<double>(pair.run.size())),
         pair.name);
  return row;
}

}  // namespace zplan
