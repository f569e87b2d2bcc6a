// Collects the reduced gradients of one step as the optimizer sees them, from all ranks of a run,
// and cuts them into the global tensors.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "exec/run.h"
#include "exec/state_access.h"

namespace zplan::testing_support {

class GradientLog {
 public:
  // For RunOptions::observer; log and job must outlive the run.
  std::function<void(const exec::NodeEvent&)> observer(const Job& job, std::int64_t step) {
    return [this, &job, step](const exec::NodeEvent& event) {
      const Node& node = event.program->nodes[event.node];
      if (event.step == step && node.kind == OpKind::kKernel && node.kernel == KernelId::kAdamW)
        record(job, event, node);
    };
  }

  // Gradient of every tensor before clipping, row-major.
  std::map<std::string, std::vector<double>> tensors(const Job& job) const {
    std::map<std::string, std::vector<double>> result;
    for (const exec::TensorRef& ref : exec::all_tensors(job)) {
      const Tensor& tensor = job.units[ref.unit].tensors[ref.tensor];
      const std::vector<double>& flat = flat_.at({ref.unit, ref.layer});
      const auto first = flat.begin() + tensor.offset;
      result[exec::tensor_name(job, ref)] = {first, first + tensor.shape.elements()};
    }
    return result;
  }

 private:
  void record(const Job& job, const exec::NodeEvent& event, const Node& node) {
    const RankClass& c = job.classes[static_cast<std::size_t>(job.stage_of(event.rank))];
    const BufferId master = event.operands[0].view->buffer;
    for (const UnitHome& home : c.homes) {
      if (home.master.buffer != master) continue;
      const Unit& unit = job.units[home.unit];
      const Attributes& attributes = event.program->attributes[node.attributes];
      const std::int64_t first = attributes[0] + job.dp_index_of(event.rank) * attributes[1];
      const exec::Operand& gradient = event.operands[3];
      const std::lock_guard lock(mutex_);
      auto& flat = flat_[{home.unit, unit.per_layer ? event.env.layer : 0}];
      flat.resize(static_cast<std::size_t>(unit.flat_elements));
      for (std::int64_t i = 0; i < gradient.elements(); ++i)
        flat[static_cast<std::size_t>(first + i)] = gradient.view->dtype == DType::kF64
                                                        ? gradient.as<double>()[i]
                                                        : gradient.as<float>()[i];
    }
  }

  std::mutex mutex_;
  std::map<std::pair<std::uint32_t, std::int64_t>, std::vector<double>> flat_;  // unit, layer
};

}  // namespace zplan::testing_support
