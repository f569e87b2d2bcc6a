#include "hwprofiles/cluster_spelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "hwprofiles/cluster_count.h"
#include "hwprofiles/cluster_name.h"
#include "hwprofiles/cluster_servers.h"
#include "hwprofiles/cluster_vocabulary.h"
#include "hwprofiles/hw_profile.h"
#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// ---- counts -----------------------------------------------------------------------------------

// Nothing: counts of nodes stand on both sides, say.
std::optional<Wish> wish_of(const CountedKind& read) {
  Wish wish;
  std::vector<int> unnamed;  // from the outermost to the innermost
  std::vector<TypedCount> counts = read.before;
  counts.insert(counts.end(), read.after.rbegin(), read.after.rend());
  for (const TypedCount& count : counts) {
    if (count.of == CountOf::kAny) {
      unnamed.push_back(count.number);
      continue;
    }
    std::optional<int>& named = count.of == CountOf::kNodes ? wish.nodes : wish.per_node;
    if (named) return std::nullopt;
    named = count.number;
  }
  if (unnamed.size() == 2 && (wish.nodes || wish.per_node)) return std::nullopt;
  if (unnamed.size() == 2) wish.nodes = unnamed.front();
  if (!unnamed.empty()) (wish.per_node ? wish.nodes : wish.per_node) = unnamed.back();
  if (!wish.nodes && read.of_nodes) std::swap(wish.nodes, wish.per_node);
  if (!wish.nodes && wish.per_node) {
    wish.total = wish.per_node;
    wish.per_node.reset();
  }
  if (!wish.nodes && !wish.total) wish.total = 1;
  return wish;
}

// Counts of GPUs and of nodes that cannot be told apart.
void demand_order(const CountedKind& read, std::string_view typed, std::string_view name) {
  if (read.before.size() != 1 || read.after.size() != 1) return;
  const TypedCount &first = read.before[0], &second = read.after[0];
  if (first.of != CountOf::kAny || second.of != CountOf::kAny) return;
  if (first.number == second.number) return;
  throw_bad_input(
      fmt::format("cluster {}: expected nodes before GPUs, {} or {}, got counts on both sides",
                  in_quotes(typed), times(first.number, times(second.number, name)),
                  times(second.number, times(first.number, name))));
}

std::string counted(const CountedKind& read, std::string_view name) {
  std::string out(name);
  for (const std::vector<TypedCount>* const side : {&read.before, &read.after})
    for (auto count = side->rbegin(); count != side->rend(); ++count)
      out = times(count->number, out);
  return out;
}

// As people type it: "h100-pcie".
std::string kind_of(const CountedKind& read) {
  std::string kind = read.kind;
  std::ranges::replace(kind, ' ', '-');
  return kind;
}

// ---- kinds ------------------------------------------------------------------------------------

// Returns the device that is meant; throws Error where several differ in memory, or none has a
// server.
const SpelledDevice& one_of(const std::vector<const SpelledDevice*>& devices,
                            const CountedKind& read, std::string_view typed) {
  std::vector<const SpelledDevice*> served;
  std::ranges::copy_if(devices, std::back_inserter(served),
                       [](const SpelledDevice* device) { return !device->server.empty(); });
  if (served.empty()) {
    const SpelledDevice& first = *devices.front();
    throw_bad_input(fmt::format(
        "cluster {}: expected a GPU of a server of the catalogue, got {}, which none has; a node "
        "file with \"gpu\": \"{}\" makes one (zplan clusters dgx-a100 --template)",
        in_quotes(typed), first.name, first.id));
  }
  std::vector<std::string> sizes;
  for (const SpelledDevice* const device : served) {
    const std::string size =
        counted(read, device->memory.empty() ? device->name : kind_of(read) + "-" + device->memory);
    if (std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
  }
  if (sizes.size() > 1)
    throw_bad_input(fmt::format("cluster {}: expected the memory of the GPU: {}", in_quotes(typed),
                                joined(sizes, " or ")));
  return *served.front();
}

bool is_shorter(const std::string& a, const std::string& b) { return a.size() < b.size(); }

SpelledCluster of_gpus(const SpelledDevice& device, const Wish& wish, const std::string& kind,
                       std::string_view typed) {
  const Servers servers(device, kind);
  const Wish settled = servers.settled(wish, typed);
  return {servers.name_of(settled),
          fmt::format("{} is taken for {}", visible(typed), servers.words_of(settled))};
}

std::optional<SpelledCluster> of_devices(const ClusterVocabulary& words, const CountedKind& read,
                                         std::string_view kind, std::string_view typed) {
  const auto devices = words.devices_called(kind);
  if (devices.empty()) return std::nullopt;
  const SpelledDevice& device = one_of(devices, read, typed);
  demand_order(read, typed, kind_of(read));
  const auto wish = wish_of(read);
  if (!wish) return std::nullopt;
  SpelledCluster out = of_gpus(device, *wish, kind_of(read), typed);
  if (devices.size() > 1)
    for (const SpelledDevice* const other : devices)
      if (other->typed() == device.typed() && other->server != device.server &&
          !other->server.empty())
        out.sentence += fmt::format("; not {} as in {}", other->name, other->server);
  if (!read.before.empty() || !read.after.empty()) return out;
  const int whole = Servers(device, "").size();
  const std::string shown = std::min(kind_of(read), device.typed(), is_shorter);
  if (whole > 1) out.sentence += fmt::format("; {} is a node", times(whole, shown));
  return out;
}

// The one count of nodes that may stand beside the name of one; nothing: others do.
std::optional<int> nodes_of(const CountedKind& read) {
  if (read.before.size() + read.after.size() > 1) return std::nullopt;
  for (const auto* const side : {&read.before, &read.after})
    for (const TypedCount& count : *side)
      return count.of == CountOf::kGpus ? std::nullopt : std::optional(count.number);
  return 1;
}

std::optional<SpelledCluster> of_nodes(const std::string& node, const CountedKind& read,
                                       std::string_view typed) {
  const auto nodes = nodes_of(read);
  if (!nodes) return std::nullopt;
  const std::string digits = fmt::format("{}", *nodes);
  return SpelledCluster{node_count(typed, digits) == 1 ? node : fmt::format("{}x{}", node, digits),
                        ""};
}

std::optional<SpelledCluster> of_racks(const std::string& rack, const CountedKind& read,
                                       std::string_view typed) {
  const auto racks = nodes_of(read);
  if (!racks) return std::nullopt;
  if (*racks == 1) return SpelledCluster{rack, ""};
  const Cluster one = load_any_cluster(rack);
  if (one.fast_link_domain != one.devices() || !one.groups.empty()) return std::nullopt;
  const int nodes = node_count(typed, fmt::format("{}", *racks * one.nodes));
  return SpelledCluster{fmt::format("{}{{nodes={}}}", rack, nodes),
                        fmt::format("{} is taken for {} racks of {} {}", visible(typed), *racks,
                                    one.devices(), one.node.device.name)};
}

std::optional<SpelledCluster> of_instance(const ClusterVocabulary& words,
                                          const SpelledInstance& instance, const CountedKind& read,
                                          std::string_view typed) {
  const auto nodes = nodes_of(read);
  const auto device = std::ranges::find(words.devices, instance.device, &SpelledDevice::id);
  if (!nodes || device == words.devices.end()) return std::nullopt;
  SpelledCluster out = of_gpus(*device, {.nodes = nodes, .per_node = instance.gpus, .total = {}},
                               device->typed(), typed);
  out.sentence += "; host and network of the instance are not in the catalogue";
  return out;
}

// Reads the name of a board, or of the vendor's own server: "hgx h100", "dgx a100 40gb".
std::optional<SpelledCluster> of_board(const ClusterVocabulary& words, const CountedKind& read,
                                       std::string_view kind, std::string_view typed) {
  const std::string_view board = kind.substr(0, 3);
  if ((board != "hgx" && board != "dgx") || !nodes_of(read)) return std::nullopt;
  std::vector<const SpelledDevice*> devices = words.devices_called(kind.substr(board.size()));
  std::erase_if(devices, [&](const SpelledDevice* device) {
    return !device->server.starts_with("dgx") &&
           (board == "dgx" || !device->server.starts_with(board));
  });
  if (devices.empty()) return std::nullopt;
  const SpelledDevice& device = one_of(devices, read, typed);
  return of_gpus(device, {.nodes = nodes_of(read), .per_node = {}, .total = {}}, device.typed(),
                 typed);
}

std::optional<SpelledCluster> understood(const ClusterVocabulary& words, const CountedKind& read,
                                         std::string_view typed) {
  if (read.kind.find('-') != std::string::npos) return std::nullopt;  // the sign of a number
  const std::string all = squashed(read.kind);
  const bool is_plural = all.size() > 1 && all.ends_with('s');
  for (const std::string& kind : {all, is_plural ? all.substr(0, all.size() - 1) : std::string()}) {
    if (kind.empty()) continue;
    if (auto found = of_devices(words, read, kind, typed)) return found;
    if (const auto* const node = words.node(kind))
      if (auto found = of_nodes(node->target, read, typed)) return found;
    if (const auto* const rack = words.rack(kind))
      if (auto found = of_racks(rack->target, read, typed)) return found;
    if (const auto* const instance = words.instance(kind))
      if (auto found = of_instance(words, *instance, read, typed)) return found;
    if (auto found = of_board(words, read, kind, typed)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<SpelledCluster> spelled_cluster(std::string_view typed) {
  const ClusterVocabulary words = read_cluster_vocabulary();
  for (const CountedKind& read : readings_of(typed))
    if (auto found = understood(words, read, typed)) return found;
  return std::nullopt;
}

std::string whole_node_of(std::string_view typed) {
  const ClusterVocabulary words = read_cluster_vocabulary();
  for (const CountedKind& read : readings_of(typed)) {
    if (!read.before.empty() || !read.after.empty()) continue;
    const auto devices = words.devices_called(squashed(read.kind));
    if (!devices.empty()) return load_cluster(one_of(devices, read, typed).server).node.name;
  }
  return "";
}

std::string remark_on_node_name(std::string_view typed, const Cluster& cluster) {
  const HwProfile& node = cluster.node;
  const bool is_one_by_name = cluster.nodes == 1 && to_lower(typed) == cluster.name;
  if (node.devices_per_node == 1 || is_one_by_name) return "";
  const auto counted = cluster.nodes > 1 ? split_count(typed) : std::nullopt;
  const std::string_view name = counted ? counted->name : typed;
  const std::vector<SpelledDevice> devices = read_spelled_devices();
  const auto is_meant = [&](const SpelledDevice& device) {
    return device.is_called(squashed(name));
  };
  if (std::ranges::none_of(devices, is_meant)) return "";
  const std::string what =
      cluster.nodes == 1 ? fmt::format("a node of {}", node.devices_per_node)
                         : fmt::format("{} nodes of {}", cluster.nodes, node.devices_per_node);
  return fmt::format("{} is {} {} as in {}; type {} for {} of them", visible(typed), what,
                     node.device.name, node.name, times(cluster.nodes, name), cluster.nodes);
}

bool means_cluster(std::string_view text) {
  try {
    const std::string plain = split_settings(text).plain;
    if (looks_like_path(plain) || catalogue_name(plain) != plain) return true;
    try {
      load_any_cluster(plain);
    } catch (const Error&) {
      return false;
    }
  } catch (const Error&) {  // a count that cannot be, or several meanings
  }
  return true;
}

std::string nearest_cluster_name(std::string_view typed) {
  const ClusterVocabulary words = read_cluster_vocabulary();
  std::vector<std::string> meant = words.shown;
  const auto old = split_count(typed);
  if (old && old->name.size() > 2) {  // "dgx3" is a misspelt name, "dgx3x32" has a count
    for (std::string& name : meant) name += fmt::format("x{}", old->digits);
    return did_you_mean(typed, meant);
  }
  for (const CountedKind& read : readings_of(typed)) {
    if (read.before.size() != 1) continue;
    if (const auto nearest = nearest_name(read.kind, words.shown))
      return fmt::format("; did you mean \"{}\"?", times(read.before[0].number, *nearest));
  }
  return did_you_mean(typed, meant);
}

}  // namespace zplan
