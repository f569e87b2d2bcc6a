#include "planner/foreign/frameworks/model_config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "planner/core/json_reader.h"
#include "planner/core/text.h"
#include "planner/foreign/hugging_face/families.h"
#include "planner/foreign/hugging_face/write_config.h"
#include "planner/foreign/model_file.h"

namespace zplan {
namespace {

// The file that the plan's model was read from, unless the model is a part of what it describes.
std::string own_file(const Plan& plan) {
  const std::string file = model_file_of(plan.model);
  std::error_code ignored;
  if (file.empty() || !std::filesystem::exists(file, ignored)) return {};
  if (load_named_model(plan.model).folder.empty()) return {};
  std::string text = read_text_file(file);
  JsonObject whole = parse_python_json(text, file).object();
  bool is_part = false;
  for (const char* part : {"text_config", "vision_config", "audio_config"})
    is_part = is_part || whole.optional_member(part).has_value();
  return is_part ? std::string() : text;
}

// The model_type that a config.json of the model would have. All plans of a search ask for that of
// one model, so the last one is kept.
std::string written_type(const ModelConfig& model) {
  static std::mutex mutex;
  static std::optional<std::pair<ModelConfig, std::string>> last;
  const std::scoped_lock lock(mutex);
  if (!last || !config_differences(model, last->first).empty())
    last.emplace(model, write_hugging_face(model).model_type);
  return last->second;
}

}  // namespace

ModelConfigFile model_config_file(const Plan& plan, const ModelConfig& model) {
  if (const std::string own = own_file(plan); !own.empty())
    return {with_dropout(own, plan.dropout), {}};
  ModelConfigFile out;
  ModelConfig written = model;
  if (written.position != Position::kLearned)
    written.sequence = std::max(written.sequence, plan.batch.sequence);
  WrittenConfig config = write_hugging_face(written, plan.dropout);
  const auto add = [&](Trouble trouble, std::string message) {
    out.findings.push_back({trouble, "", "config.json", std::move(message)});
  };
  out.text = std::move(config.text);
  if (out.text.empty())
    add(Trouble::kError,
        fmt::format("not written: no model_type of transformers has these layers; {} has {}. Build "
                    "the model in make_model of model_and_data.py",
                    config.model_type, joined(config.differences, ", ")));
  else
    for (std::string& note : config.notes) add(Trouble::kNotModelled, std::move(note));
  return out;
}

std::string model_type_of(const Plan& plan, const ModelConfig& model) {
  const std::string own = own_file(plan);
  if (own.empty()) return written_type(model);
  return parse_python_json(own, plan.model).object().member("model_type").non_empty_string();
}

std::string_view layer_class_of(const Plan& plan, const ModelConfig& model) {
  const Family* const family = find_family(model_type_of(plan, model));
  return family == nullptr ? std::string_view() : family->layer;
}

}  // namespace zplan
