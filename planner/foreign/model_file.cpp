#include "planner/foreign/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "models/model_spelling.h"
#include "models/size_ladder.h"
#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "planner/core/text.h"
#include "planner/foreign/hugging_face/hub_cache.h"

namespace zplan {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";

// The config.json of a folder; nothing: it is no folder.
std::optional<std::string> config_in(std::string_view name) {
  std::error_code ignored;
  const fs::path folder(name);
  if (!fs::is_directory(folder, ignored)) return std::nullopt;
  return (folder / kConfig).string();
}

// Fails for a name of the hub that neither its cache here nor the catalogue has.
[[noreturn]] void fail_unknown_hub_name(std::string_view name) {
  throw_bad_input(fmt::format(
      "no file or folder {}, no {} in the cache of the hub, and no such alias in the catalogue{}; "
      "type the path of its config.json, which \"hf download {} config.json\" brings",
      in_quotes(name), visible(hub_folder(name)), nearest_model_name(name), visible(name)));
}

NamedModel with_sentence(ModelConfig model, std::string sentence) {
  NamedModel named{std::move(model), {}, {}, {}};
  if (!sentence.empty()) named.assumed.push_back({"", std::move(sentence)});
  return named;
}

// Of the catalogue, or a size; nothing: it means none. Throws Error where it may mean several.
std::optional<NamedModel> find_in_catalogue(std::string_view name) {
  if (auto model = catalogue_model(name)) {
    const auto is_typed = [&](const std::string& size) { return to_lower(size) == to_lower(name); };
    std::string sentence;
    if (std::ranges::any_of(model->sizes, is_typed))
      sentence = fmt::format("{} is taken for {}, a published model of that size", visible(name),
                             model->name);
    return with_sentence(*std::move(model), std::move(sentence));
  }
  if (parse_model_size(name)) return with_sentence(load_model(name), "");
  if (auto spelled = spelled_model(name))
    return with_sentence(std::move(spelled->model), std::move(spelled->sentence));
  return std::nullopt;
}

NamedModel read_file(const std::string& path) {
  const std::string text = read_text_file(path);
  const JsonNode root = parse_python_json(text, path);
  JsonObject object = root.object();
  if (object.optional_member("schema")) return {parse_model(text, path), {}, {}, {}};
  if (!object.optional_member("model_type"))
    root.fail(
        "expected a model: a \"schema\" of \"zplan.model/1\", or the \"model_type\" that a "
        "config.json of Hugging Face has, got neither");
  HuggingFaceModel read = read_hugging_face(root, path, hugging_face_name(path));
  const std::string folder = fs::path(path).parent_path().string();
  return {std::move(read.model), std::move(read.assumed), std::move(read.left_out),
          folder.empty() ? "." : folder};
}

}  // namespace

std::string hugging_face_name(const std::string& path) {
  const fs::path file = fs::absolute(path).lexically_normal();
  if (file.filename() != kConfig) return visible(file.stem().string());
  const fs::path folder = file.parent_path();
  constexpr std::string_view kCached = "models--";  // models--OWNER--NAME/snapshots/HASH
  const std::string repository = folder.parent_path().parent_path().filename().string();
  if (folder.parent_path().filename() == "snapshots" && repository.starts_with(kCached))
    return visible(repository.substr(repository.rfind("--") + 2));
  const std::string name = visible(folder.filename().string());
  return name.empty() ? "model" : name;
}

std::string model_file_of(std::string_view name_or_path) {
  if (auto config = config_in(name_or_path)) return *std::move(config);
  if (is_hub_name(name_or_path)) return cached_config(name_or_path).value_or("");
  return looks_like_path(name_or_path) ? std::string(name_or_path) : "";
}

bool means_model(std::string_view text) {
  std::error_code ignored;
  if (is_hub_name(text) || fs::exists(model_file_of(text), ignored)) return true;
  if (looks_like_path(text)) return false;
  try {
    return find_in_catalogue(text).has_value();
  } catch (const Error&) {
    return true;  // it may mean several
  }
}

NamedModel load_named_model(std::string_view name_or_path) {
  const std::string file = model_file_of(name_or_path);
  const bool is_of_hub = is_hub_name(name_or_path);
  if (looks_like_path(name_or_path) && (!is_of_hub || !file.empty())) return read_file(file);
  try {
    if (auto named = find_in_catalogue(name_or_path)) return *std::move(named);
    if (is_of_hub) fail_unknown_hub_name(name_or_path);
    return with_sentence(load_model(name_or_path), "");
  } catch (const Error&) {
    if (file.empty()) throw;
  }
  return read_file(file);
}

}  // namespace zplan
