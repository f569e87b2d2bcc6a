// How the tensors of a model lie in the files of transformers, as a table for each family: what a
// tensor of a Job (planner/lower/blocks/naming.h) is called there, which parts of it are tensors of
// their own, and which are transposed. Matrices here are [in, out], those of a torch Linear
// [out, in], those of the Conv1D of GPT-2 [in, out]. Rotary positions turn the pairs (i, i + d/2)
// of a head in both, so that no rows change places.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/model_config.h"
#include "planner/program/job/job.h"

namespace zplan {

// A tensor of a Job in one layer.
struct KeptTensor {
  std::string name;     // "model.layers.3.mlp.down_proj.weight"
  std::string pattern;  // "model.layers.{}.mlp.down_proj.weight"
  std::int64_t layer = 0;
  Shape shape;
  DType dtype = DType::kF32;  // that it is kept in
};

// Of it, a tensor of a file: some columns of one of its matrices, or all.
struct PublishedPart {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t matrix = 0;
  std::int64_t column = 0, columns = 0;
  bool transposed = false;
};

struct PublishedTensor {
  std::int64_t matrices = 1, rows = 1, columns = 1;  // that the tensor is seen as
  std::vector<PublishedPart> parts;
};

// Model types of a config.json whose weights have a table.
std::vector<std::string> types_with_weights();
// What names begin with that some files leave out: "transformer.".
std::string_view optional_prefix(std::string_view model_type);
// "LlamaForCausalLM"
std::string_view class_of(std::string_view model_type);
// Nothing: the family has no such tensor.
std::optional<PublishedTensor> published_tensor(std::string_view model_type,
                                                const ModelConfig& model, const KeptTensor& tensor);

}  // namespace zplan
