// A user names a model by a file of our own ("zplan.model/1", models/model_config.h), by a
// config.json of Hugging Face or the folder that has one (hugging_face/hugging_face.h), by a name
// of the hub that its cache or the catalogue has (hugging_face/hub_cache.h), or by a name
// of the catalogue, as people type it (models/model_spelling.h). A folder of the same name as a
// model of the catalogue is meant with a '/' only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/model_config.h"
#include "planner/foreign/hugging_face/hugging_face.h"

namespace zplan {

struct NamedModel {
  ModelConfig model;
  // What of a foreign file is assumed and left out; of the catalogue what was made of the name.
  std::vector<Assumption> assumed;
  std::vector<std::string> left_out;  // a sentence each
  std::string folder;  // of a foreign file, where weights may lie beside it; else empty
};

// Throws Error, one line: what is wrong with the file, or the nearest names.
NamedModel load_named_model(std::string_view name_or_path);

// Returns whether a text is the name of a model, or leaves open of which: of the hub, of a file
// that is there, or of the catalogue.
bool means_model(std::string_view text);

// The file that such a name may stand for; empty: none.
std::string model_file_of(std::string_view name_or_path);

// What a config.json in this place is called: its folder, the repository in a cache of the hub, or,
// where the file has another name, that name.
std::string hugging_face_name(const std::string& path);

}  // namespace zplan
