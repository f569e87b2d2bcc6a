#include "planner/foreign/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>

#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "planner/core/nearest.h"
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
  std::vector<std::string> known;
  for (const ModelConfig& model : model_catalogue())
    std::ranges::copy_if(model.aliases, std::back_inserter(known), has_hub_form);
  throw_bad_input(fmt::format(
      "no file or folder {}, no {} in the cache of the hub, and no such alias in the catalogue{}; "
      "\"hf download {} config.json\" brings it into the cache",
      in_quotes(name), visible(hub_folder(name)), did_you_mean(name, known), visible(name)));
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

NamedModel load_named_model(std::string_view name_or_path) {
  const std::string file = model_file_of(name_or_path);
  if (is_hub_name(name_or_path) && file.empty()) {
    if (auto model = catalogue_model(name_or_path)) return {*std::move(model), {}, {}, {}};
    fail_unknown_hub_name(name_or_path);
  }
  if (looks_like_path(name_or_path)) return read_file(file);
  try {
    return {load_model(name_or_path), {}, {}, {}};
  } catch (const Error&) {
    if (file.empty()) throw;
  }
  return read_file(file);
}

}  // namespace zplan
