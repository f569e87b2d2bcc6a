#include "planner/cli/run/weights.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "exec/checkpoint/weight_writer.h"
#include "exec/memory/state_access.h"
#include "planner/cli/frame/plan_file.h"
#include "planner/foreign/hugging_face/weight_files.h"

namespace zplan {
namespace {

std::vector<KeptTensor> kept_tensors(const Job& job) {
  std::vector<KeptTensor> kept;
  for (const exec::TensorRef& ref : exec::all_tensors(job)) {
    const Tensor& tensor = job.units[ref.unit].tensors[ref.tensor];
    kept.push_back({.name = exec::tensor_name(job, ref),
                    .pattern = tensor.name,
                    .layer = ref.layer,
                    .shape = tensor.shape,
                    .dtype = exec::weight_dtype(job, ref)});
  }
  return kept;
}

}  // namespace

WeightFolders weight_folders(const RunCommand& command, const PlannedJob& planned) {
  WeightFolders folders;
  if (command.weights.empty() && command.export_to.empty()) return folders;
  const std::vector<KeptTensor> tensors = kept_tensors(planned.job);
  std::optional<PublishedModel> published;
  if (!command.weights.empty()) {
    FoundWeights found = find_weights(command.weights, planned.model, tensors);
    tell_left_out(command.weights, found.left_out);
    published = {std::move(found.model_type), std::move(found.config)};
    folders.begun = std::make_shared<const ModelFiles>(std::move(found.files));
  }
  if (command.export_to.empty()) return folders;
  if (!published) published = publish_model(planned.model, planned.plan.dropout);
  folders.exported = std::make_shared<const ModelFiles>(
      lay_out_weights(command.export_to, *published, planned.model, tensors));
  return folders;
}

}  // namespace zplan
