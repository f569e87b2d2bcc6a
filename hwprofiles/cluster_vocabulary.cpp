#include "hwprofiles/cluster_vocabulary.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "hwprofiles/cluster_file.h"
#include "hwprofiles/embedded_profiles.h"
#include "hwprofiles/sourced_object.h"
#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// Names of the catalogue begin with these; names that people type may, or may not.
constexpr std::string_view kVendors[] = {"aws-", "azure-", "gcp-", "tpu-"};

constexpr std::size_t kShortestName = 3;  // that an error may propose

std::optional<JsonNode> find(const JsonNode& object, std::string_view key) {
  for (const auto& [name, node] : object.members())
    if (name == key) return node;
  return std::nullopt;
}

std::vector<std::string> words_of(const JsonNode& object, std::string_view key) {
  const auto node = find(object, key);
  return node ? node->words() : std::vector<std::string>();
}

std::vector<JsonNode> device_nodes() {
  for (const EmbeddedFile& file : embedded_hardware())
    if (file.name.ends_with("/devices.json"))
      return find(parse_json(std::string(file.text), std::string(file.name)), "devices")->items();
  ZPLAN_ASSERT(false);
  return {};
}

class Reader {
 public:
  ClusterVocabulary read() {
    for (const EmbeddedFile& file : embedded_profiles()) read_node(file);
    for (const std::string& name : cluster_names()) add(all_.racks, name, name);
    all_.devices = read_spelled_devices();
    for (const SpelledDevice& device : all_.devices)
      if (device.names.front().size() >= kShortestName) all_.shown.push_back(device.names.front());
    read_instances();
    return std::move(all_);
  }

 private:
  void add(std::vector<ClusterVocabulary::Name>& names, const std::string& name,
           const std::string& target) {
    names.push_back({squashed(name), target});
    for (const std::string_view vendor : kVendors) {
      if (name.starts_with(vendor))
        names.push_back({squashed(name.substr(vendor.size())), target});
      else if (target.starts_with(vendor))
        names.push_back({squashed(std::string(vendor) + name), target});
    }
    if (name.size() >= kShortestName) all_.shown.push_back(name);
  }

  void read_node(const EmbeddedFile& file) {
    const JsonNode root = parse_json(std::string(file.text), std::string(file.name));
    const std::string target(file.stem());
    add(all_.nodes, target, target);
    for (const std::string& alias : words_of(root, "aliases")) add(all_.nodes, alias, target);
    if (const auto spellings = find(root, "spellings"))
      for (const std::string& name : words_of(*spellings, "names")) add(all_.nodes, name, target);
  }

  void read_instances() {
    for (const JsonNode& node : device_nodes())
      if (const auto instances = find(node, "instances"))
        for (const JsonNode& one : instances->items()) {
          const std::string name = find(one, "name")->string();
          all_.instances.push_back({name, find(node, "id")->string(),
                                    static_cast<int>(find(one, "gpus")->integer(1, kMaxParts))});
          all_.shown.push_back(name);
        }
  }

  ClusterVocabulary all_;
};

// "80gb" may be typed in four ways.
bool takes_word(std::string_view& rest, std::string_view word) {
  if (!word.ends_with("gb")) {
    if (!rest.starts_with(word)) return false;
    rest.remove_prefix(word.size());
    return true;
  }
  const std::string_view digits = word.substr(0, word.size() - 2);
  if (!rest.starts_with(digits)) return false;
  rest.remove_prefix(digits.size());
  for (const std::string_view unit : {"gib", "gb", "g"})
    if (rest.starts_with(unit)) {
      rest.remove_prefix(unit.size());
      break;
    }
  return true;
}

// Returns whether the rest is made of the words that are left, and of the name unless it was had.
bool is_made_of(std::string_view rest, std::string_view name, std::vector<std::string> words,
                bool had_name) {
  if (rest.empty()) return had_name;
  if (!had_name && rest.starts_with(name) &&
      is_made_of(rest.substr(name.size()), name, words, true))
    return true;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view after = rest;
    if (!takes_word(after, words[i])) continue;
    std::vector<std::string> others = words;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    if (is_made_of(after, name, std::move(others), had_name)) return true;
  }
  return false;
}

const ClusterVocabulary::Name* find_name(const std::vector<ClusterVocabulary::Name>& names,
                                         std::string_view text) {
  const auto found = std::ranges::find(names, text, &ClusterVocabulary::Name::squashed);
  return found == names.end() ? nullptr : &*found;
}

}  // namespace

std::string squashed(std::string_view text) {
  constexpr std::string_view kBetween = " _-(),";
  std::string out;
  for (const char c : to_lower(text))
    if (kBetween.find(c) == kBetween.npos) out += c;
  return out;
}

bool SpelledDevice::is_called(std::string_view text) const {
  return std::ranges::any_of(
      names, [&](const std::string& name) { return is_made_of(text, name, words, false); });
}

std::vector<SpelledDevice> read_spelled_devices() {
  std::vector<SpelledDevice> devices;
  for (const JsonNode& node : device_nodes()) {
    const auto spellings = find(node, "spellings");
    if (!spellings) continue;
    SpelledDevice device{.id = find(node, "id")->string(),
                         .name = find(node, "name")->string(),
                         .server = {},
                         .names = words_of(*spellings, "names"),
                         .words = words_of(*spellings, "with"),
                         .memory = {}};
    if (const auto server = find(node, "server")) device.server = server->string();
    const auto sized = std::ranges::find_if(
        device.words, [](const std::string& word) { return word.ends_with("gb"); });
    if (sized != device.words.end()) device.memory = *sized;
    devices.push_back(std::move(device));
  }
  return devices;
}

const ClusterVocabulary::Name* ClusterVocabulary::node(std::string_view text) const {
  return find_name(nodes, text);
}

const ClusterVocabulary::Name* ClusterVocabulary::rack(std::string_view text) const {
  return find_name(racks, text);
}

const SpelledInstance* ClusterVocabulary::instance(std::string_view text) const {
  const auto found = std::ranges::find_if(
      instances, [&](const SpelledInstance& one) { return squashed(one.name) == text; });
  return found == instances.end() ? nullptr : &*found;
}

std::vector<const SpelledDevice*> ClusterVocabulary::devices_called(std::string_view text) const {
  std::vector<const SpelledDevice*> found;
  for (const SpelledDevice& device : devices)
    if (device.is_called(text)) found.push_back(&device);
  return found;
}

ClusterVocabulary read_cluster_vocabulary() { return Reader().read(); }

}  // namespace zplan
