#include "hwprofiles/cluster_spelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "hwprofiles/cluster_count.h"
#include "hwprofiles/cluster_name.h"
#include "hwprofiles/cluster_vocabulary.h"
#include "hwprofiles/hw_profile.h"
#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// [assumed] A server without peer links holds so many GPUs at most, unless it is built for one.
constexpr int kUsualSlots = 8;

// This is what a reading says of GPUs; one of the counts is there at least.
struct Wish {
  std::optional<int> nodes, per_node, total;
};

std::string times(int count, std::string_view what) { return fmt::format("{}x{}", count, what); }

// GPUs of one device, in the server of the catalogue.
class Servers {
 public:
  // `kind`: what errors call the device.
  Servers(const SpelledDevice& device, std::string kind)
      : device_(device), kind_(std::move(kind)), cluster_(load_cluster(device.server)) {}

  // GPUs of a node, at most; of a rack: of its nodes.
  int size() const {
    const int own = cluster_.node.devices_per_node;
    return has_links() || own == 1 ? own : std::max(own, kUsualSlots);
  }
  bool is_rack() const { return cluster_.nodes > 1; }
  int rack_gpus() const { return cluster_.devices(); }

  // Throws Error where there is no such node or number.
  Wish settled(Wish wish, std::string_view typed) const {
    for (const std::optional<int>& count : {wish.nodes, wish.per_node, wish.total})
      if (count && *count < 1)
        throw_bad_input(
            fmt::format("cluster {}: expected counts from 1, got {}", in_quotes(typed), *count));
    if (wish.total) split(wish, typed);
    if (!wish.per_node) wish.per_node = size();
    wish.nodes = node_count(typed, fmt::format("{}", wish.nodes.value_or(1)));
    if (!holds(*wish.per_node))
      throw_bad_input(
          fmt::format("cluster {}: expected {} GPUs of a node, as in {}, got {}; type {}",
                      in_quotes(typed), sizes(), cluster_.node.name, *wish.per_node,
                      times(*wish.nodes, times(nearest_size(*wish.per_node), name()))));
    if (is_rack() && *wish.nodes > cluster_.nodes && *wish.nodes % cluster_.nodes != 0)
      throw_bad_input(
          fmt::format("cluster {}: expected at most {} GPUs, a rack of {}, or whole racks, got {}; "
                      "type {} or {}",
                      in_quotes(typed), rack_gpus(), device_.server, *wish.nodes * *wish.per_node,
                      times(*wish.nodes / cluster_.nodes * rack_gpus(), name()),
                      times((*wish.nodes / cluster_.nodes + 1) * rack_gpus(), name())));
    return wish;
  }

  std::string name_of(const Wish& wish) const {
    const int nodes = *wish.nodes, per_node = *wish.per_node;
    const bool is_whole = per_node == cluster_.node.devices_per_node;
    if (is_rack() && nodes > 1)
      return nodes == cluster_.nodes ? device_.server
                                     : fmt::format("{}{{nodes={}}}", device_.server, nodes);
    const std::string& node = cluster_.node.name;
    const std::string counted = nodes == 1 ? node : fmt::format("{}x{}", node, nodes);
    return is_whole ? counted : fmt::format("{}{{gpus_per_node={}}}", counted, per_node);
  }

  std::string words_of(const Wish& wish) const {
    const int nodes = *wish.nodes, per_node = *wish.per_node;
    std::string out = nodes > 1       ? fmt::format("{} nodes of {} ", nodes, per_node)
                      : per_node == 1 ? "1 "
                                      : fmt::format("a node of {} ", per_node);
    out +=
        fmt::format("{} as in {}", device_.name, is_rack() ? device_.server : cluster_.node.name);
    std::vector<std::string> links;
    if (per_node > 1 || is_rack()) links.push_back(within());
    if (nodes > 1 && !is_rack()) links.push_back(between(per_node));
    return links.empty() ? out : fmt::format("{}: {}", out, joined(links, ", "));
  }

 private:
  bool has_links() const { return cluster_.node.topology.gpu_peer.has_value(); }
  bool is_fixed() const {
    return cluster_.node.topology.peer_shape.kind == PeerKind::kTorus ||
           cluster_.node.cores != nullptr;
  }
  // Returns whether a node may have so many.
  bool holds(int gpus) const {
    const bool is_part = !is_fixed() && gpus <= size();
    return gpus == cluster_.node.devices_per_node || is_part;
  }
  // Returns whether so many are a usual part of a node.
  bool is_usual(int gpus) const {
    return holds(gpus) && (std::has_single_bit(static_cast<unsigned>(gpus)) || gpus == size() ||
                           gpus == cluster_.node.devices_per_node);
  }
  int nearest_size(int gpus) const {
    return is_fixed() ? cluster_.node.devices_per_node : std::min(std::max(gpus, 1), size());
  }
  std::string sizes() const {
    return is_fixed() ? fmt::format("{}", cluster_.node.devices_per_node)
                      : fmt::format("1 to {}", size());
  }
  const std::string& name() const { return kind_; }

  void split(Wish& wish, std::string_view typed) const {
    const int total = *wish.total, most = size();
    if (total <= most && is_usual(total)) {
      wish.per_node = total;
    } else if (total > most && total % most == 0) {
      wish.nodes = total / most;
      wish.per_node = most;
    } else {
      fail_count(total, typed);
    }
  }

  [[noreturn]] void fail_count(int total, std::string_view typed) const {
    int below = std::min(total, size()), above = size();
    if (total > size()) {
      below = total / size() * size();
      above = below + size();
    } else {
      while (below > 0 && !is_usual(below)) --below;
      above = total;
      while (!is_usual(above)) ++above;
    }
    const std::string possible =
        below > 0 ? fmt::format("{} or {}", times(below, name()), times(above, name()))
                  : times(above, name());
    throw_bad_input(fmt::format("cluster {}: expected {}, for a node as in {} holds {}, got {}",
                                in_quotes(typed), possible, cluster_.node.name, size(), total));
  }

  std::string within() const {
    const TopologySpec& wires = cluster_.node.topology;
    constexpr double kGiga = 1e9;
    const std::string_view where = is_rack() ? "within the rack" : "within";
    return wires.gpu_peer ? fmt::format("peer links of {:.3g} GB/s {}",
                                        wires.gpu_peer->capacity.value / kGiga, where)
                          : fmt::format("PCIe {}", where);
  }

  std::string between(int per_node) const {
    constexpr double kGigabit = 1e9 / 8;
    Cluster cluster = cluster_;
    if (per_node != cluster.node.devices_per_node)
      cluster = load_cluster(name_of({.nodes = 1, .per_node = per_node, .total = {}}));
    const TopologySpec& wires = cluster.node.topology;
    return fmt::format("{} x {:.4g} Gbit/s between", wires.nics(),
                       wires.nic.capacity.value / kGigabit);
  }

  const SpelledDevice& device_;
  std::string kind_;
  Cluster cluster_;
};

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

std::string remark_on_node_name(std::string_view typed, const Cluster& cluster) {
  const HwProfile& node = cluster.node;
  if (node.devices_per_node == 1 || to_lower(typed) == cluster.name) return "";
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
