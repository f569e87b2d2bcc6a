// Weights of transformers as the tensors of a Job: where files that are there have them, and how a
// folder is laid out that is to be written (config.json, model.safetensors, or several of them and
// an index). tensor_rows.h has the names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/model_config.h"
#include "planner/foreign/hugging_face/tensor_rows.h"
#include "planner/program/job/model_files.h"

namespace zplan {

struct FoundWeights {
  ModelFiles files;
  std::string model_type;
  std::string config;                 // text of the config.json
  std::vector<std::string> left_out;  // of it, a sentence each
};

// `folder` has a config.json, which must be of the same model, and its weights. Tensors of the
// files that the model does not have are refused, but those that are no parameters (weights.h).
// Throws Error, one line that names the tensor, the shape expected and the shape found.
FoundWeights find_weights(const std::string& folder, const ModelConfig& model,
                          std::span<const KeptTensor> tensors);

// How transformers has a model.
struct PublishedModel {
  std::string model_type;
  std::string config;  // text of a config.json
};
// Throws Error where no class has such layers, or weights of that class have no table.
PublishedModel publish_model(const ModelConfig& model, bool drops);

inline constexpr std::int64_t kMostFileBytes = 5'000'000'000;  // as the hub cuts them

// The types are those that tensors are kept in. Throws Error naming the tensor without a place.
ModelFiles lay_out_weights(const std::string& folder, const PublishedModel& published,
                           const ModelConfig& model, std::span<const KeptTensor> tensors,
                           std::int64_t most_file_bytes = kMostFileBytes);

}  // namespace zplan
