// Tolerances: in f64 any two plans agree but for rounding; in f32 each loss and gradient does. In
// 16 bit every activation and gradient is rounded, sums over ranks among them: eight units of the
// last place of numbers around 1. Parameters are held against the distance that training has moved
// them. AdamW divides by the size of the gradient even where that is rounding, so single elements
// move by the learning rate in either direction, in every step: both the difference and the
// distance grow with the steps, their ratio hardly does. A run that updates nothing has a ratio of
// 1, one that updates at random of 1.4, one that loses its weights of far more.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>

#include "exec/checkpoint/weight_source.h"
#include "exec/memory/initial_state.h"
#include "exec/memory/state_access.h"
#include "exec/tensor_gather.h"
#include "planner/cli/run/training.h"
#include "planner/core/error.h"
#include "planner/program/job/meetings.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

struct Tolerance {
  double losses, gradients;
  double key_biases;  // of gradients that are rounding and nothing else
  double parameters;  // of the distance travelled
};

// [derived] Parameters: the greatest ratios of plans of tiny models are 1e-12 in f64, 3e-4 in f32
// (1.5e-3 after a hundred updates), 0.04 in f16 and 0.24 in bf16. In 16 bit the first update is the
// worst, where a gradient of the other sign in one of the 64 elements of a norm alone makes 0.25;
// after ten it is 0.01 and 0.05.
Tolerance tolerance_of(const KernelSet& set) {
  // [derived] Numbers of e5m2 are off by 5 % of themselves on average, those of e4m3 by 2.6 %, and
  // both come together in gradients: where ranks have parts of an operand they have other scales,
  // and one in bf16 that is off by its last bit may fall to the next number.
  if (set.layer_products == LayerProducts::kFp8) return {0x1p-5, 0x1p-3, 0x1p-3, 0.5};
  // [derived] One that is off by its last bit in fp32 falls to the next number seldom: of plans of
  // tiny models the greatest ratios in ten steps are 1.8e-5 of losses and 0.017 of parameters.
  if (set.layer_products == LayerProducts::kRoundedToFp8 && set.compute == DType::kF32)
    return {1e-4, 1e-3, 1e-3, 0.1};
  switch (set.compute) {
    case DType::kF64:
      return {1e-10, 1e-10, 1e-10, 1e-10};
    case DType::kF16:
      return {0x1p-8, 0x1p-8, 0x1p-8, 0.5};
    case DType::kBf16:
      return {0x1p-5, 0x1p-5, 0x1p-5, 0.5};
    default:
      return {1e-5, 1e-5, 1e-6, 1e-2};
  }
}
// Losses are held to it for so many steps; beyond them rounding differences add up. [derived]
constexpr double kStepsOfTolerance = 10;
constexpr std::string_view kQkvBias = "attn.c_attn.bias";
constexpr std::string_view kCrossKeyBiases[] = {"crossattention.k.bias", "cross_attn.k_proj.bias"};

Tolerance tolerance(const FinishedRun& run) {
  return tolerance_of(find_kernel_set(run.job->kernel_set));
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
  exec::TensorRef reference_ref;
  std::string name;
  std::vector<double> run, reference;
};

std::vector<double> values_of(const FinishedRun& run, const exec::TensorRef& ref,
                              exec::State state) {
  if (run.rendezvous == nullptr) return exec::read_tensor(*run.job, run.result->memory, ref, state);
  return exec::gather_tensor(*run.rendezvous, reporting_rank(*run.job), *run.job,
                             run.result->memory.front(), ref, state);
}

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
    pairs.push_back({other->second, name, values_of(run, ref, state),
                     values_of(reference, other->second, state)});
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

// Elements of a tensor that are biases of keys. Such a bias adds the same to all scores of a query,
// which softmax ignores: its gradient is rounding, and it wanders wherever that takes it.
struct KeyBiases {
  std::size_t begin = 0, count = 0;
};

// The QKV bias is [a + 2 g, d]: queries, keys, values; cross-attention has one of keys alone.
KeyBiases keys_of(const TensorPair& pair, const ModelConfig& model) {
  for (const std::string_view name : kCrossKeyBiases)
    if (pair.name.ends_with(name)) return {0, pair.run.size()};
  if (!pair.name.ends_with(kQkvBias)) return {};
  const auto head = pair.run.size() / static_cast<std::size_t>(model.heads + 2 * model.kv_heads);
  return {head * static_cast<std::size_t>(model.heads),
          head * static_cast<std::size_t>(model.kv_heads)};
}

std::vector<double> without(const KeyBiases& keys, std::vector<double> values) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(keys.begin);
  values.erase(begin, begin + static_cast<std::ptrdiff_t>(keys.count));
  return values;
}

// The least way, relative to the values at the start: masters in 16 bit move by units of their last
// place or not at all, so these eight units stand for updates that the format cannot hold.
double least_way_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p-50;
    case DType::kF16:
      return 0x1p-8;
    case DType::kBf16:
      return 0x1p-5;
    default:
      return 0x1p-21;
  }
}

// These two: of a job of one rank, which holds all units in one piece.
DType master_dtype(const Job& job, std::uint32_t unit) {
  const RankClass& all = job.classes.front();
  const auto home = std::find_if(all.homes.begin(), all.homes.end(),
                                 [unit](const UnitHome& h) { return h.unit == unit; });
  ZPLAN_ASSERT(home != all.homes.end());
  return all.program.buffers[home->master.buffer].dtype;
}

std::vector<double> drawn_values(const Job& job, const exec::TensorRef& ref, std::uint64_t seed) {
  const Unit& unit = job.units[ref.unit];
  const Tensor& tensor = unit.tensors[ref.tensor];
  std::vector<double> values(static_cast<std::size_t>(tensor.shape.elements()));
  exec::draw_parameters(unit, {.layer = ref.layer - tensor.member}, seed, tensor.offset, values);
  return values;
}

}  // namespace

std::vector<CheckRow> compare_losses(const FinishedRun& run, const FinishedRun& reference) {
  const std::vector<exec::StepResult>& steps = run.result->steps;
  const std::vector<exec::StepResult>& expected = reference.result->steps;
  ZPLAN_ASSERT(steps.size() == expected.size());
  const double growth = std::max(1.0, static_cast<double>(steps.size()) / kStepsOfTolerance);
  const auto compared = [&](const char* quantity, double exec::StepResult::*member) {
    CheckRow row{.quantity = quantity,
                 .tolerance = tolerance(run).losses * growth,
                 .unit = "relative",
                 .where = {}};
    for (std::size_t i = 0; i < steps.size(); ++i)
      keep(row,
           ratio(std::abs(steps[i].*member - expected[i].*member), std::abs(expected[i].*member)),
           fmt::format("step {}", i + 1));
    return row;
  };
  std::vector<CheckRow> rows{compared("losses", &exec::StepResult::loss)};
  if (reference.model->balances_experts())
    rows.push_back(compared("auxiliary losses", &exec::StepResult::balance_loss));
  // Rounding may let another expert have a token, and so another choice be one too many.
  const bool counts = find_kernel_set(run.job->kernel_set).compute == DType::kF64;
  if (counts && std::any_of(expected.begin(), expected.end(),
                            [](const exec::StepResult& step) { return step.dropped > 0; }))
    rows.push_back(compared("dropped choices", &exec::StepResult::dropped));
  return rows;
}

void send_tensors(const FinishedRun& run, exec::State state) {
  for (const exec::TensorRef& ref : exec::all_tensors(*run.job)) values_of(run, ref, state);
}

bool has_first_gradients(const Job& reference) {
  for (const RankClass& c : reference.classes)
    for (const UnitHome& home : c.homes)
      if (!home.is_frozen && (home.moments.empty() ||
                              c.program.buffers[home.moments.front().buffer].dtype == DType::kU8))
        return false;
  return true;
}

std::vector<CheckRow> compare_gradients(const FinishedRun& run, const FinishedRun& reference) {
  if (!has_first_gradients(*reference.job)) return {};
  CheckRow row{.quantity = "first gradients",
               .tolerance = tolerance(run).gradients,
               .unit = "of the tensor's norm",
               .where = {},
               .only_zeros = true};
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
  bool has_keys = false;
  for (const TensorPair& pair : pairs) {
    std::span<const double> a = pair.run, b = pair.reference;
    const KeyBiases own = keys_of(pair, *reference.model);
    if (own.count == 0) {
      row.only_zeros = row.only_zeros && norm(a) == 0 && norm(b) == 0;
      keep(row, ratio(distance(a, b), norm(b)), pair.name);
      continue;
    }
    has_keys = true;
    a = a.subspan(own.begin, own.count);
    b = b.subspan(own.begin, own.count);
    keep(keys, ratio(distance(a, b), layer_norms[layer_of(pair.name)]), pair.name);
    keep(
        row,
        ratio(distance(without(own, pair.run), without(own, pair.reference)), norm(pair.reference)),
        pair.name);
  }
  if (!has_keys) return {row};
  return {row, keys};
}

CheckRow compare_parameters(const FinishedRun& run, const FinishedRun& reference,
                            const TrainingStart& start) {
  std::optional<exec::WeightSource> weights;
  if (start.weights != nullptr) weights.emplace(*start.weights);
  CheckRow row{.quantity = "parameters",
               .tolerance = tolerance(run).parameters,
               .unit = "of the way",
               .where = {}};
  for (TensorPair& pair : read_pairs(run, reference, exec::State::kMaster)) {
    std::vector<double> begin = weights
                                    ? exec::weight_values(*weights, pair.name)
                                    : drawn_values(*reference.job, pair.reference_ref, start.seed);
    if (const KeyBiases keys = keys_of(pair, *reference.model); keys.count > 0) {
      row.unit = "of the way, without key biases";
      for (auto* values : {&begin, &pair.run, &pair.reference}) *values = without(keys, *values);
    }
    const double least =
        least_way_of(master_dtype(*reference.job, pair.reference_ref.unit)) * norm(begin);
    const double way = std::max(distance(pair.reference, begin), least);
    keep(row, ratio(distance(pair.run, pair.reference), way), pair.name);
  }
  return row;
}

}  // namespace zplan
