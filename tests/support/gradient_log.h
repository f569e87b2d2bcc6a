// Collects the reduced gradients of one step as the optimizer sees them, from all ranks of a run,
// and puts the global tensors together.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "exec/memory/initial_state.h"
#include "exec/memory/state_access.h"
#include "exec/memory/tensor_part.h"
#include "exec/run.h"
#include "exec/scalar.h"
#include "planner/program/kernels/kernel_table.h"
#include "planner/program/step_scalars.h"

namespace zplan::testing_support {

class GradientLog {
 public:
  // For RunOptions::observer; log and job must outlive the run. Delayed updates see the gradients
  // of the step before, which have the loss scale of that step.
  std::function<void(const exec::NodeEvent&)> observer(const Job& job, std::int64_t step) {
    return [this, &job, step](const exec::NodeEvent& event) {
      const Node& node = event.program->nodes[event.node];
      if (node.kind != OpKind::kKernel) return;
      const std::lock_guard lock(mutex_);
      if (node.kernel == KernelId::kStepScalars) {
        const std::int64_t lag = event.program->attributes_of(node)[0].base;
        if (event.step == step - lag)
          scales_[event.rank] = event.operands[0].as<double>()[kLossScale];
      }
      const bool updates = node.kernel != KernelId::kSumSquares &&
                           kernel_def(node.kernel).types.find('q') != std::string::npos;
      if (event.step == step && updates) record(job, event, node);
    };
  }

  // Gradient of every trained tensor before clipping and without the loss scale, row-major.
  std::map<std::string, std::vector<double>> tensors(const Job& job) const {
    std::map<std::string, std::vector<double>> result;
    for (const exec::TensorRef& ref : exec::all_tensors(job)) {
      const auto known = tensors_.find(exec::tensor_name(job, ref));
      if (known != tensors_.end()) result.insert(*known);
    }
    return result;
  }

 private:
  void record(const Job& job, const exec::NodeEvent& event, const Node& node) {
    const MeshPoint at = job.mesh.point(event.rank);
    const AttributeValues attributes = resolve(event.program->attributes_of(node), at);
    const Unit& unit = job.units[static_cast<std::size_t>(attributes[2])];
    const std::int64_t first = attributes[0];
    const exec::Operand& gradient = event.operands[kernel_def(node.kernel).types.find('q')];
    const double scale = scales_.at(event.rank);
    const std::int64_t piece = exec::piece_number(job, unit, at, event.env.tile);
    for (const Tensor& tensor : unit.tensors) {
      const exec::TensorPart part(tensor, piece, exec::piece_count(job, unit));
      const std::int64_t together = event.program->unit_layers;
      const std::int64_t layer =
          (event.env.layer + node.member / together) * together + tensor.member;
      auto& values = tensors_[exec::name_in_layer(tensor, unit.per_layer ? layer : 0)];
      values.resize(static_cast<std::size_t>(tensor.shape.elements()));
      part.for_runs(std::max(first - tensor.offset, std::int64_t{0}),
                    std::min(first + gradient.elements() - tensor.offset, part.elements()),
                    [&](std::int64_t local, const exec::TensorPart::Run& run) {
                      const std::int64_t begin = tensor.offset + local - first;
                      for (std::int64_t i = 0; i < run.length; ++i) {
                        values[static_cast<std::size_t>(run.global + i)] =
                            exec::load_scalar(gradient.data, gradient.view->dtype, begin + i) /
                            scale;
                      }
                    });
    }
  }

  std::mutex mutex_;
  std::map<std::int32_t, double> scales_;  // of the gradients, by rank
  std::map<std::string, std::vector<double>> tensors_;
};

}  // namespace zplan::testing_support
