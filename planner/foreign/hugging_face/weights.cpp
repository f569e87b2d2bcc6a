#include "planner/foreign/hugging_face/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>

#include "models/model_formulas.h"
#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "planner/core/text.h"
#include "planner/foreign/hugging_face/safetensors.h"

namespace zplan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOne = "model.safetensors", kIndex = "model.safetensors.index.json";
constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
constexpr std::size_t kMostNamed = 8;  // differences that are told one by one

bool is_number(std::string_view part) {
  constexpr std::size_t kMostDigits = 6;
  return !part.empty() && part.size() <= kMostDigits &&
         std::all_of(part.begin(), part.end(),
                     [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
}

// "model.layers.3.mlp.experts.7.up_proj.weight" is one of "model.layers.*.mlp.experts.*.up_proj..".
struct Name {
  std::string group;
  std::int64_t layer = -1;  // the first number; -1: there is none
};
Name name_of(const std::string& full) {
  Name name;
  for (std::size_t begin = 0; begin <= full.size();) {
    const std::size_t end = std::min(full.find('.', begin), full.size());
    const std::string part = full.substr(begin, end - begin);
    if (is_number(part) && name.layer < 0) name.layer = std::stoll(part);
    name.group += (begin == 0 ? "" : ".") + (is_number(part) ? "*" : part);
    begin = end + 1;
  }
  return name;
}

// Names of tensors have these in towers and in what joins them to the text.
constexpr std::string_view kTowers[] = {"audio_tower.",
                                        "mm_projector.",
                                        "multi_modal_projector.",
                                        "vision_embed_tokens.",
                                        "vision_model.",
                                        "vision_tower.",
                                        "visual.",
                                        "mlp1."};

// Of a stack: of two stacks each counts its layers from 0.
std::int64_t most_layers(const ModelConfig& model) {
  return std::max(model.encoder_layers, model.layers - model.encoder_layers);
}

bool is_apart(const StoredTensor& tensor, const Name& name, const ModelConfig& model) {
  const auto ends = [&](std::string_view with) { return tensor.name.ends_with(with); };
  const auto begins = [&](std::string_view with) { return tensor.name.starts_with(with); };
  constexpr std::size_t kMaskDims = 4;
  const bool buffer = ends("inv_freq") || ends("masked_bias") || ends("position_ids") ||
                      (ends(".bias") && tensor.shape.size() == kMaskDims);
  const bool copy = ends("encoder.embed_tokens.weight") || ends("decoder.embed_tokens.weight");
  const bool tied = model.tied_embeddings &&
                    (ends("lm_head.weight") || ends("embed_out.weight") ||
                     ends("predictions.decoder.weight") || ends("predictions.decoder.bias"));
  const bool other_head = begins("bert.pooler.") || begins("cls.seq_relationship.");
  const bool tower = std::ranges::any_of(kTowers, [&](std::string_view part) {
    return begins(part) || tensor.name.find("." + std::string(part)) != tensor.name.npos;
  });
  if (buffer || copy || tied || other_head) return true;
  return tower ? !model.vision : name.layer >= most_layers(model);
}

struct Group {
  std::int64_t elements = 0;
  std::set<std::int64_t> layers;
};

// What a group of tensors says of a difference.
std::vector<std::string> explain(const std::map<std::string, Group>& groups,
                                 const ModelConfig& model, std::int64_t difference) {
  std::vector<std::string> out;
  for (const auto& [name, group] : groups) {
    const auto there = static_cast<std::int64_t>(group.layers.size());
    const std::int64_t all = most_layers(model);
    const bool some_have_it =
        model.experts && (model.experts->takes_turns() || model.experts->dense_layers > 0);
    if (there > 0 && there < all && !some_have_it && model.encoder_layers == 0)
      out.push_back(fmt::format("{} is in {} of {} layers", visible(name), there, all));
    else if (group.elements == difference)
      out.push_back(fmt::format("{} has as many", visible(name)));
  }
  if (out.size() > kMostNamed) {
    out[kMostNamed] = fmt::format("and {} more", out.size() - kMostNamed);
    out.resize(kMostNamed + 1);
  }
  return out;
}

StoredWeights compare(const std::vector<StoredTensor>& tensors, const ModelConfig& model) {
  StoredWeights out{.tensors = std::ssize(tensors), .types = {}, .differences = {}};
  std::map<std::string, Group> groups;
  std::set<std::string> types;
  for (const StoredTensor& tensor : tensors) {
    const Name name = name_of(tensor.name);
    out.bytes += tensor.end - tensor.begin;
    types.insert(tensor.type);
    const bool apart = is_apart(tensor, name, model);
    (apart ? out.apart : out.parameters) += tensor.elements;
    if (apart) continue;
    Group& group = groups[name.group];
    group.elements += tensor.elements;
    if (name.layer >= 0) group.layers.insert(name.layer);
  }
  out.types = joined(types, ", ");
  const std::int64_t counted = parameter_count(model);
  if (out.parameters == counted) return out;
  out.differences.push_back(fmt::format("stored are {} parameters, counted {}: {:+}",
                                        out.parameters, counted, out.parameters - counted));
  for (std::string& one : explain(groups, model, out.parameters - counted))
    out.differences.push_back(std::move(one));
  return out;
}

struct Index {
  std::int64_t total_bytes = 0;                           // 0: not said
  std::map<std::string, std::set<std::string>> names_of;  // by file
};

Index read_index(const std::string& path) {
  JsonObject object = read_json_file(path).object();
  Index index;
  if (const auto metadata = object.optional_member("metadata")) {
    JsonObject facts = metadata->object();
    if (const auto size = facts.optional_member("total_size"))
      index.total_bytes =
          static_cast<std::int64_t>(size->number(1, static_cast<double>(kMostBytes)));
  }
  for (const auto& [name, file] : object.member("weight_map").members()) {
    const std::string shard = file.non_empty_string();
    if (fs::path(shard).filename().string() != shard || shard == "." || shard == "..")
      file.fail_expected("the name of a file beside this one");
    index.names_of[shard].insert(name);
  }
  return index;
}

void check_shard(const std::vector<StoredTensor>& tensors, const std::set<std::string>& names,
                 const std::string& path) {
  std::set<std::string> there;
  for (const StoredTensor& tensor : tensors) there.insert(tensor.name);
  for (const std::string& name : names)
    if (!there.contains(name))
      throw_bad_input(
          fmt::format("{}: expected {}, which the index has in this file", path, in_quotes(name)));
  for (const std::string& name : there)
    if (!names.contains(name))
      throw_bad_input(fmt::format("{}: expected what the index has in this file, got {}", path,
                                  in_quotes(name)));
}

StoredWeights index_alone(const Index& index) {
  StoredWeights out{
      .headers = false, .files = std::ssize(index.names_of), .types = {}, .differences = {}};
  for (const auto& [file, names] : index.names_of) out.tensors += std::ssize(names);
  out.bytes = index.total_bytes;
  return out;
}

StoredFile read_file(const fs::path& folder, const std::string& name) {
  const std::string path = (folder / name).string();
  StoredFile file{.name = name, .tensors = read_safetensors(path)};
  std::error_code ignored;
  file.bytes = static_cast<std::int64_t>(fs::file_size(path, ignored));
  return file;
}

std::vector<StoredFile> read_files(const fs::path& folder, const Index& index) {
  std::vector<StoredFile> files;
  for (const auto& [name, names] : index.names_of) {
    files.push_back(read_file(folder, name));
    check_shard(files.back().tensors, names, (folder / name).string());
  }
  return files;
}

StoredWeights read_shards(const fs::path& folder, const ModelConfig& model) {
  const Index index = read_index((folder / kIndex).string());
  std::error_code ignored;
  const auto is_here = [&](const auto& shard) { return fs::exists(folder / shard.first, ignored); };
  if (std::none_of(index.names_of.begin(), index.names_of.end(), is_here))
    return index_alone(index);
  std::vector<StoredTensor> all;
  for (const StoredFile& file : read_files(folder, index))
    all.insert(all.end(), file.tensors.begin(), file.tensors.end());
  StoredWeights out = compare(all, model);
  out.files = std::ssize(index.names_of);
  if (index.total_bytes > 0 && index.total_bytes != out.bytes)
    out.differences.push_back(fmt::format(
        "total_size of the index is {} bytes, its tensors have {}", index.total_bytes, out.bytes));
  return out;
}

}  // namespace

bool is_apart(const StoredTensor& tensor, const ModelConfig& model) {
  return is_apart(tensor, name_of(tensor.name), model);
}

std::vector<StoredFile> stored_files(const std::string& folder) {
  std::error_code ignored;
  const fs::path place(folder);
  if (fs::exists(place / kIndex, ignored))
    return read_files(place, read_index((place / kIndex).string()));
  if (!fs::exists(place / kOne, ignored)) return {};
  return {read_file(place, std::string(kOne))};
}

std::optional<StoredWeights> read_weights(const std::string& folder, const ModelConfig& model) {
  std::error_code ignored;
  const fs::path place(folder);
  if (fs::exists(place / kIndex, ignored)) return read_shards(place, model);
  if (!fs::exists(place / kOne, ignored)) return std::nullopt;
  StoredWeights out = compare(read_safetensors((place / kOne).string()), model);
  out.files = 1;
  return out;
}

}  // namespace zplan
