#include "planner/foreign/hugging_face/weight_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "planner/core/text.h"
#include "planner/foreign/hugging_face/hugging_face.h"
#include "planner/foreign/hugging_face/weights.h"
#include "planner/foreign/hugging_face/write_config.h"
#include "planner/program/job/names.h"

namespace zplan {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

struct FileType {
  std::string_view name, torch;
  DType dtype;
};
constexpr FileType kFileTypes[] = {{"F64", "float64", DType::kF64},
                                   {"F32", "float32", DType::kF32},
                                   {"BF16", "bfloat16", DType::kBf16},
                                   {"F16", "float16", DType::kF16}};

const FileType* file_type(DType dtype) {
  const auto found = std::find_if(std::begin(kFileTypes), std::end(kFileTypes),
                                  [&](const FileType& type) { return type.dtype == dtype; });
  return found == std::end(kFileTypes) ? nullptr : found;
}

std::string list_of(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", joined(shape, ", "));
}

// ---- files that are there --------------------------------------------------------------------

struct StoredPlace {
  std::size_t file;
  const StoredTensor* tensor;
};

class WeightFinder {
 public:
  WeightFinder(const std::string& folder, const ModelConfig& model, std::string_view model_type)
      : folder_(folder), model_(model), type_(model_type), stored_(stored_files(folder)) {
    if (stored_.empty())
      throw_bad_input(fmt::format(
          "{}: expected weights, model.safetensors or model.safetensors.index.json", folder));
    for (std::size_t f = 0; f < stored_.size(); ++f)
      for (const StoredTensor& tensor : stored_[f].tensors) places_[tensor.name] = {f, &tensor};
  }

  ModelFiles find(std::span<const KeptTensor> tensors) {
    ModelFiles files;
    files.folder = folder_;
    for (const StoredFile& file : stored_) files.files.push_back({file.name, file.bytes, {}});
    for (const KeptTensor& tensor : tensors) files.tensors.push_back(find(tensor));
    check_rest();
    return files;
  }

 private:
  FiledTensor find(const KeptTensor& tensor) {
    const auto published = published_tensor(type_, model_, tensor);
    if (!published)
      throw_bad_input(fmt::format("{}: weights of type {} have no {}, which the plan's model has",
                                  folder_, type_, in_quotes(tensor.name)));
    FiledTensor filed{.name = tensor.name,
                      .shape = tensor.shape,
                      .matrices = published->matrices,
                      .rows = published->rows,
                      .columns = published->columns,
                      .blocks = {}};
    for (const PublishedPart& part : published->parts) {
      const StoredPlace& at = place_of(part);
      const DType dtype = checked_type(at, part);
      if (!filed.blocks.empty() && dtype != filed.dtype)
        throw_bad_input(fmt::format("{}: {}: expected {}, as the tensors beside it are, got {}",
                                    path_of(at), in_quotes(at.tensor->name),
                                    file_type(filed.dtype)->name, at.tensor->type));
      filed.dtype = dtype;
      filed.blocks.push_back({at.file, stored_[at.file].start() + at.tensor->begin, part.matrix,
                              part.column, part.columns, part.transposed});
      used_.insert(at.tensor->name);
    }
    return filed;
  }

  // By its name, or by the name without what some files leave out.
  const StoredPlace& place_of(const PublishedPart& part) const {
    const std::string_view prefix = optional_prefix(type_);
    auto found = places_.find(part.name);
    if (found == places_.end() && part.name.starts_with(prefix))
      found = places_.find(part.name.substr(prefix.size()));
    if (found != places_.end()) return found->second;
    throw_bad_input(
        fmt::format("{}: expected {} {}, which the plan's model has, in one of its files", folder_,
                    in_quotes(part.name), list_of(part.shape)));
  }

  DType checked_type(const StoredPlace& at, const PublishedPart& part) const {
    const StoredTensor& tensor = *at.tensor;
    if (tensor.shape != part.shape)
      throw_bad_input(fmt::format("{}: {}: expected {}, the shape in the plan's model, got {}",
                                  path_of(at), in_quotes(tensor.name), list_of(part.shape),
                                  list_of(tensor.shape)));
    for (const FileType& type : kFileTypes)
      if (type.name == tensor.type) return type.dtype;
    throw_bad_input(fmt::format("{}: {}: expected F64, F32, BF16 or F16, got {}", path_of(at),
                                in_quotes(tensor.name), tensor.type));
  }

  void check_rest() const {
    for (const auto& [name, at] : places_)
      if (!used_.contains(name) && !is_apart(*at.tensor, model_))
        throw_bad_input(fmt::format("{}: {} {} is no tensor of the plan's model", path_of(at),
                                    in_quotes(name), list_of(at.tensor->shape)));
  }

  std::string path_of(const StoredPlace& at) const {
    return (fs::path(folder_) / stored_[at.file].name).string();
  }

  const std::string& folder_;
  const ModelConfig& model_;
  std::string_view type_;
  std::vector<StoredFile> stored_;
  std::map<std::string, StoredPlace> places_;
  std::set<std::string> used_;
};

// ---- files to be written ---------------------------------------------------------------------

// A part of a tensor on its way into a file.
struct NewPart {
  std::size_t tensor, block;  // of ModelFiles
  PublishedPart part;
  DType dtype;
  std::int64_t bytes;
};

// How many files there are is known when the last part has its place.
std::string file_name(std::size_t file, std::size_t files) {
  if (files == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", file + 1, files);
}

// Length and text, whose end is a multiple of 8 bytes.
std::string header_of(const OrderedJson& tensors) {
  std::string text = tensors.dump();
  text.resize(static_cast<std::size_t>(round_up(std::ssize(text), 8)), ' ');
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(text.size() >> (8 * i));
  return bytes + text;
}

class LayOut {
 public:
  LayOut(ModelFiles& files, std::vector<NewPart> parts, std::int64_t most)
      : files_(files), parts_(std::move(parts)) {
    // What is larger comes first, so that each begins at a multiple of its own size.
    std::stable_sort(parts_.begin(), parts_.end(), [](const NewPart& a, const NewPart& b) {
      return size_of(a.dtype) > size_of(b.dtype);
    });
    std::int64_t end = 0;
    file_of_.reserve(parts_.size());
    for (const NewPart& part : parts_) {
      if (ends_.empty() || (end > 0 && end + part.bytes > most)) {
        ends_.push_back(0);
        end = 0;
      }
      file_of_.push_back(ends_.size() - 1);
      ends_.back() = end += part.bytes;
    }
  }

  void make() {
    std::vector<OrderedJson> headers(ends_.size(), {{"__metadata__", {{"format", "pt"}}}});
    std::vector<std::int64_t> end(ends_.size(), 0);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const NewPart& part = parts_[i];
      const std::size_t file = file_of_[i];
      const std::int64_t begin = end[file];
      end[file] += part.bytes;
      headers[file][part.part.name] = {{"dtype", file_type(part.dtype)->name},
                                       {"shape", part.part.shape},
                                       {"data_offsets", {begin, end[file]}}};
      FileBlock& block = files_.tensors[part.tensor].blocks[part.block];
      block.file = file;
      block.offset = begin;
    }
    for (std::size_t f = 0; f < ends_.size(); ++f) {
      std::string start = header_of(headers[f]);
      const std::int64_t bytes = std::ssize(start) + ends_[f];
      files_.files.push_back({file_name(f, ends_.size()), bytes, std::move(start)});
    }
    for (FiledTensor& tensor : files_.tensors)
      for (FileBlock& block : tensor.blocks)
        block.offset += std::ssize(files_.files[block.file].start);
    if (ends_.size() > 1) add_index();
  }

 private:
  void add_index() {
    std::int64_t total = 0;
    OrderedJson map = OrderedJson::object();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      total += parts_[i].bytes;
      map[parts_[i].part.name] = files_.files[file_of_[i]].name;
    }
    const OrderedJson index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
    files_.texts.emplace_back("model.safetensors.index.json", index.dump(2) + "\n");
  }

  ModelFiles& files_;
  std::vector<NewPart> parts_;
  std::vector<std::size_t> file_of_;  // by part
  std::vector<std::int64_t> ends_;    // of the data, by file
};

// With the type of what lies beside it, and a class where it names none.
std::string config_of(const PublishedModel& published, DType dtype) {
  OrderedJson config = OrderedJson::parse(published.config);
  if (!config.contains("architectures"))
    config["architectures"] = {std::string(class_of(published.model_type))};
  config.erase("dtype");  // another name of the same
  config["torch_dtype"] = file_type(dtype)->torch;
  return config.dump(2) + "\n";
}

void check_type(const std::string& type, const std::string& place) {
  const std::vector<std::string> types = types_with_weights();
  if (std::ranges::find(types, type) == types.end())
    throw_bad_input(
        fmt::format("{}: expected a model type whose weights can be read and written, "
                    "one of {}, got {}",
                    place, joined(types, ", "), in_quotes(type)));
}

}  // namespace

FoundWeights find_weights(const std::string& folder, const ModelConfig& model,
                          std::span<const KeptTensor> tensors) {
  const std::string path = (fs::path(folder) / "config.json").string();
  FoundWeights found;
  found.config = read_text_file(path);
  const JsonNode root = parse_python_json(found.config, path);
  HuggingFaceModel read = read_hugging_face(root, path, model.name);
  JsonObject object = root.object();
  found.model_type = object.member("model_type").non_empty_string();
  check_type(found.model_type, path);
  const std::vector<std::string> differences = config_differences(model, read.model);
  if (!differences.empty())
    throw_bad_input(fmt::format("{}: another model than the plan's, {}: {}", path, model.name,
                                joined(differences, ", ")));
  found.left_out = std::move(read.left_out);
  found.files = WeightFinder(folder, model, found.model_type).find(tensors);
  return found;
}

PublishedModel publish_model(const ModelConfig& model, bool drops) {
  WrittenConfig written = write_hugging_face(model, drops);
  if (written.text.empty())
    throw_bad_input(fmt::format("{}: expected a model of transformers; the nearest, {}, has {}",
                                model.name, written.model_type, joined(written.differences, ", ")));
  check_type(written.model_type, model.name);
  return {std::move(written.model_type), std::move(written.text)};
}

ModelFiles lay_out_weights(const std::string& folder, const PublishedModel& published,
                           const ModelConfig& model, std::span<const KeptTensor> tensors,
                           std::int64_t most_file_bytes) {
  ModelFiles files;
  files.folder = folder;
  std::vector<NewPart> parts;
  for (const KeptTensor& tensor : tensors) {
    auto seen = published_tensor(published.model_type, model, tensor);
    if (!seen || file_type(tensor.dtype) == nullptr)
      throw_bad_input(fmt::format("{}: weights of type {} have no place for {} in {}", folder,
                                  published.model_type, in_quotes(tensor.name),
                                  name(tensor.dtype)));
    FiledTensor filed{.name = tensor.name,
                      .shape = tensor.shape,
                      .dtype = tensor.dtype,
                      .matrices = seen->matrices,
                      .rows = seen->rows,
                      .columns = seen->columns,
                      .blocks = {}};
    for (PublishedPart& part : seen->parts) {
      const std::int64_t bytes = seen->rows * part.columns * size_of(tensor.dtype).value;
      filed.blocks.push_back({0, 0, part.matrix, part.column, part.columns, part.transposed});
      parts.push_back(
          {files.tensors.size(), filed.blocks.size() - 1, std::move(part), tensor.dtype, bytes});
    }
    files.tensors.push_back(std::move(filed));
  }
  LayOut(files, std::move(parts), most_file_bytes).make();
  files.texts.emplace_back("config.json", config_of(published, tensors.front().dtype));
  return files;
}

}  // namespace zplan
