// The weights beside a config.json against the parameters counted from it: model.safetensors, or
// model.safetensors.index.json {"metadata": {"total_size": bytes}, "weight_map": {NAME: FILE}} and
// its shards. Of each file the header is read alone (safetensors.h).
//
// What is no parameter of the model that was read is apart: masks and other buffers, a second copy
// of tied embeddings, a vision tower, layers behind the last one. Where the rest is not what was
// counted, the differences name what does not add up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/model_config.h"
#include "planner/foreign/hugging_face/safetensors.h"

namespace zplan {

struct StoredWeights {
  bool headers = true;  // false: of an index whose shards are elsewhere; then nothing is compared
  std::int64_t files = 0, tensors = 0;
  std::int64_t parameters = 0;           // elements of what is not apart
  std::int64_t apart = 0;                // elements of what is
  std::int64_t bytes = 0;                // of all data; of an index alone what it says
  std::string types;                     // "BF16, F32"
  std::vector<std::string> differences;  // a sentence each; none: they add up
};

// Nothing where neither file is in the folder. Of an index some shards must not be missing. Throws
// Error, one line, on files that are broken or do not go together.
std::optional<StoredWeights> read_weights(const std::string& folder, const ModelConfig& model);

// A file of weights, which its tensors fill up to its end.
struct StoredFile {
  std::string name;  // within the folder
  std::int64_t bytes = 0;
  std::vector<StoredTensor> tensors;  // in the order of their data
  // Where those begin.
  std::int64_t start() const { return bytes - (tensors.empty() ? 0 : tensors.back().end); }
};

// All files with weights of a folder, none of which must be missing; empty: it has none. Each
// tensor is in one of them. Throws Error as above.
std::vector<StoredFile> stored_files(const std::string& folder);
// Whether a tensor is no parameter of the model.
bool is_apart(const StoredTensor& tensor, const ModelConfig& model);

}  // namespace zplan
