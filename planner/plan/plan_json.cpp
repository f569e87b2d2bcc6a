// Plan files, from the rows of choices.h: an object per first part of the pointers, in their order.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "planner/core/bundle.h"
#include "planner/core/hash.h"
#include "planner/core/json_reader.h"
#include "planner/core/text.h"
#include "planner/plan/choices.h"
#include "planner/plan/plan_file.h"
#include "planner/program/job/limits.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

// "/batch/sequence" -> {"batch", "sequence"}, "/clip" -> {"", "clip"}
struct Place {
  std::string_view group, key;
};
Place place_of(const Decision& decision) {
  const std::string_view path = decision.pointer.substr(1);
  const std::size_t slash = path.find('/');
  if (slash == path.npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

void read_operators(const JsonNode& node, RecomputeRun& run) {
  for (const JsonNode& item : node.items())
    if (!add_word(run, item.string()))
      item.fail_expected(
          fmt::format("one of {}, where it is not recomputed with @cpu or @nvme, once",
                      joined(kWordsOf<LayerOperator>, ", ")));
  if (!run.is_sound()) node.fail_expected("an operator or more");
}

std::vector<RecomputeRun> read_runs(const JsonNode& node, Range layers) {
  std::vector<RecomputeRun> runs;
  const auto& words = kWordsOf<Recompute>;
  for (const JsonNode& item : node.items()) {
    JsonObject run = item.object();
    const std::string mode =
        run.member("mode").one_of(std::vector<std::string>(words.begin(), words.end()));
    RecomputeRun& read = runs.emplace_back();
    read.mode = from_setting<Recompute>(mode);
    if (read.mode == Recompute::kOperators) read_operators(run.member("operators"), read);
    read.layers = static_cast<std::int32_t>(run.member("layers").integer(layers.min, layers.max));
    run.finish();
  }
  return runs;
}

// Plans were once written with further fields of a gather unit, which `unit` now says alone.
void refuse_former_fields(const JsonNode& node) {
  JsonObject former = node.object();
  const auto owners = former.optional_member("owners");
  const auto layers = former.optional_member("layers"), tiles = former.optional_member("tiles");
  if (!owners && !layers && !tiles) return;
  const auto count = [](const std::optional<JsonNode>& field) {
    return field ? static_cast<std::int32_t>(field->integer(1, kMaxTiles)) : 1;
  };
  Gather unit = Gather::in_tiles(count(tiles));
  if (former.member("unit").string() == "layer") unit = Gather::of_layers(count(layers));
  if (owners && owners->boolean()) unit = Gather::kOwned;
  node.fail(fmt::format(
      "layers, owners and tiles are part of the unit: write \"unit\": \"{}\" in their place",
      name(unit)));
}

// Of the type that the plain value has.
struct NodeReader {
  const Decision& decision;
  const JsonNode& node;

  Setting operator()(bool) const { return node.boolean(); }
  Setting operator()(std::int64_t) const {
    return node.integer(decision.range.min, decision.range.max);
  }
  Setting operator()(double) const {
    return node.number(static_cast<double>(decision.range.min),
                       static_cast<double>(decision.range.max));
  }
  Setting operator()(const std::string&) const {
    const auto& words = decision.field.words;
    if (words.empty()) return node.non_empty_string();
    return node.one_of(std::vector<std::string>(words.begin(), words.end()));
  }
  Setting operator()(const Gather&) const {
    const std::optional<Gather> gather = gather_from_words(node.string());
    if (!gather) node.fail_expected(std::string(kGatherForms));
    return *gather;
  }
  Setting operator()(const std::vector<std::int32_t>&) const {
    std::vector<std::int32_t> counts;
    for (const JsonNode& item : node.items())
      counts.push_back(
          static_cast<std::int32_t>(item.integer(decision.range.min, decision.range.max)));
    return counts;
  }
  Setting operator()(const std::vector<RecomputeRun>&) const {
    return read_runs(node, decision.range);
  }
};

Json json_of(const std::vector<RecomputeRun>& runs) {
  Json array = Json::array();
  for (const RecomputeRun& run : runs) {
    Json& item = array.emplace_back(Json{{"mode", name(run.mode)}});
    for (const std::string& word : words_of(run)) item["operators"].push_back(word);
    item["layers"] = run.layers;
  }
  return array;
}

Json json_of(const Gather& gather) { return name(gather); }

template <typename T>
Json json_of(const T& value) {
  return value;
}

void read_into(Plan& plan, const Decision& decision, JsonObject& object) {
  const std::string_view key = place_of(decision).key;
  const std::optional<JsonNode> node =
      decision.optional ? object.optional_member(key) : object.member(key);
  if (node) decision.field.set(plan, std::visit(NodeReader{decision, *node}, decision.plain()));
}

// Whether all decisions of a group may be left out.
bool is_optional(std::string_view group) {
  return std::all_of(std::begin(kChoices), std::end(kChoices),
                     [&](const Decision& d) { return d.optional || place_of(d).group != group; });
}

std::string hash_of(const JsonNode& node) {
  constexpr std::size_t kDigits = 32;
  const std::string text = node.string();
  if (text.size() != kDigits || text.find_first_not_of("0123456789abcdef") != text.npos)
    node.fail_expected("a hash of 32 hexadecimal digits");
  return text;
}

PlanSeal::Part read_part(const JsonNode& node) {
  JsonObject object = node.object();
  PlanSeal::Part part{.name = object.member("name").non_empty_string(),
                      .hash = hash_of(object.member("hash"))};
  object.finish();
  return part;
}

PlanSeal read_seal(const JsonNode& node) {
  JsonObject object = node.object();
  PlanSeal seal{.model = read_part(object.member("model")),
                .hardware = read_part(object.member("hardware")),
                .decisions = hash_of(object.member("decisions")),
                .fingerprint = hash_of(object.member("fingerprint")),
                .software = {},
                .calibration = {}};
  if (const auto name = object.optional_member("software"))
    seal.software = name->non_empty_string();
  if (const auto runs = object.optional_member("calibration"))
    seal.calibration = runs->non_empty_string();
  object.finish();
  return seal;
}

Json json_of(const PlanSeal::Part& part) { return Json{{"name", part.name}, {"hash", part.hash}}; }

PlanFile read_plan(const JsonNode& document) {
  PlanFile file;
  const std::optional<JsonNode> bundled = bundle_part(document, "plan");
  file.is_bundle = bundled.has_value();
  const JsonNode root = bundled.value_or(document);
  Plan& plan = file.plan;
  JsonObject object = root.object();
  object.schema("zplan.plan/1");
  for (const Decision* row = std::begin(kChoices); row != std::end(kChoices);) {
    const std::string_view group = place_of(*row).group;
    if (group.empty()) {
      read_into(plan, *row++, object);
      continue;
    }
    const std::optional<JsonNode> node =
        is_optional(group) ? object.optional_member(group) : object.member(group);
    std::optional<JsonObject> members;
    if (node) members.emplace(*node);
    if (node && group == "gather") refuse_former_fields(*node);
    for (; row != std::end(kChoices) && place_of(*row).group == group; ++row)
      if (members) read_into(plan, *row, *members);
    if (members) members->finish();
  }
  if (const auto seal = object.optional_member("made_with")) file.seal = read_seal(*seal);
  object.finish();
  return file;
}

Json json_of(const Plan& plan) {
  Json j;
  j["schema"] = "zplan.plan/1";
  for (const Decision& row : kChoices) {
    if (row.optional && row.is_plain(plan)) continue;
    const auto [group, key] = place_of(row);
    Json& object = group.empty() ? j : j[std::string(group)];
    object[std::string(key)] =
        std::visit([](const auto& value) { return json_of(value); }, row.field.get(plan));
  }
  return j;
}

}  // namespace

std::string to_json(const Plan& plan) { return json_of(plan).dump(2) + "\n"; }

std::string to_json(const Plan& plan, const PlanSeal& seal) {
  Json j = json_of(plan);
  j["made_with"] = Json{{"model", json_of(seal.model)},
                        {"hardware", json_of(seal.hardware)},
                        {"decisions", seal.decisions},
                        {"fingerprint", seal.fingerprint}};
  if (!seal.software.empty()) j["made_with"]["software"] = seal.software;
  if (!seal.calibration.empty()) j["made_with"]["calibration"] = seal.calibration;
  constexpr bool kAsciiOnly = true;  // so that no name hides or turns what is beside it
  return j.dump(2, ' ', kAsciiOnly) + "\n";
}

std::string decisions_hash(const Plan& plan) {
  Plan nameless = plan;
  nameless.model.clear();
  nameless.hardware.clear();
  return to_hex(fnv1a128(to_json(nameless)));
}

PlanFile parse_plan_file(const std::string& text, const std::string& file_name) {
  return read_plan(parse_json(text, file_name));
}

PlanFile load_plan_file(const std::string& path) { return read_plan(read_json_file(path)); }

Plan plan_from_json(const std::string& text, const std::string& file_name) {
  return parse_plan_file(text, file_name).plan;
}

Plan load_plan(const std::string& path) { return load_plan_file(path).plan; }

}  // namespace zplan
