// A config.json of Hugging Face -> ModelConfig: the sizes and features of a model as transformers
// builds it, by its `model_type`. Counts are exact or the file is refused, with the key that
// says so: what models here cannot have is never approximated. What changes numbers and no size,
// no byte and no flop is left out, and said in a note.
//
// Keys that a file leaves out are those of the class in transformers (embedded_defaults.h). No code
// is run: of a `model_type` that is not among them a file is refused, also where it names code.
//
// [assumed], since a config.json says what a model can do and not how it is trained:
//   sequence      learned positions: their number. Else the least of 8,192 tokens, of the positions
//                 and of those before they are stretched
//   global batch  4,194,304 tokens per step, in sequences, rounded down to a power of 2
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/model_config.h"
#include "planner/core/json_reader.h"

namespace zplan {

// What a plan may say otherwise.
struct Assumption {
  std::string pointer;  // of the decision that says otherwise, "/batch/sequence"; empty: none does
  std::string sentence;
};

struct HuggingFaceModel {
  ModelConfig model;
  std::vector<Assumption> assumed;
  std::vector<std::string> left_out;  // a sentence each
};

// `file`: as it was typed; `name`: of the model. Throws Error, one line with the place in the file.
HuggingFaceModel read_hugging_face(const JsonNode& root, const std::string& file,
                                   const std::string& name);

// Those that can be read.
std::vector<std::string> hugging_face_types();
// What the class of one of them has where a file says nothing.
JsonObject family_defaults(const std::string& model_type);

}  // namespace zplan
