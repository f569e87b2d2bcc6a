#include "planner/foreign/frameworks/torchtitan_options.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/core/json_edit.h"
#include "planner/foreign/frameworks/config_reader.h"
#include "planner/foreign/frameworks/framework.h"
#include "planner/foreign/frameworks/key_list.h"

namespace zplan {
namespace {

constexpr std::string_view kSections[] = {"training.", "parallelism."};
constexpr std::string_view kRecomputation = "activation-checkpoint:", kNot = "no_";
constexpr std::string_view kMode = "activation_checkpoint.mode";

// "--training.seq-len": "training.seq_len"; empty: of another section.
std::string path_of(std::string_view option) {
  if (!option.starts_with("--")) return {};
  std::string path(option.substr(2));
  std::ranges::replace(path, '-', '_');
  const bool is_read = std::ranges::any_of(
      kSections, [&](std::string_view section) { return path.starts_with(section); });
  return is_read && std::ranges::count(path, '.') == 1 ? path : std::string();
}

class Sections {
 public:
  void add(const std::string& option, const JsonNode& value) {
    std::vector<JsonNode> values = value.is_array() ? value.items() : std::vector<JsonNode>{value};
    std::erase_if(values, [&](const JsonNode& each) { return is_recomputation(each); });
    std::string path = path_of(option);
    if (path.empty()) return;
    const std::size_t name = path.find('.') + 1;
    const bool is_switch = values.empty() || values.front().is_boolean();
    const bool is_off = is_switch && std::string_view(path).substr(name).starts_with(kNot);
    if (is_off) path.erase(name, kNot.size());
    keys_.put(path, is_switch ? (is_off ? "false" : "true") : json_text(values.front()));
    places_[path] = value.location();
  }

  OptionSections finish() && {
    keys_.add(kMode, mode_);
    keys_.add("activation_checkpoint.selective_ac_option", "op");
    return {parse_json(nested_json(std::move(keys_).keys()), "options"), std::move(places_)};
  }

 private:
  // A word of its own, which stands behind the values of the option before.
  bool is_recomputation(const JsonNode& value) {
    if (!value.is_string() || !value.string().starts_with(kRecomputation)) return false;
    mode_ = value
                .one_of({"activation-checkpoint:none", "activation-checkpoint:selective",
                         "activation-checkpoint:full", "activation-checkpoint:memory-budget"})
                .substr(kRecomputation.size());
    std::ranges::replace(mode_, '-', '_');
    places_[std::string(kMode)] = value.location();
    return true;
  }

  KeyList keys_;
  std::string mode_ = "selective";  // the class's
  std::map<std::string, std::string> places_;
};

}  // namespace

bool has_torchtitan_options(const JsonNode& root) {
  const auto options = arguments_of(root);
  if (!options) return false;
  for (const auto& [option, value] : options->members())
    if (!path_of(option).empty()) return true;
  return false;
}

OptionSections torchtitan_sections(const JsonNode& root) {
  Sections sections;
  const JsonNode options = *arguments_of(root);
  for (const auto& [option, value] : options.members()) sections.add(option, value);
  return std::move(sections).finish();
}

}  // namespace zplan
