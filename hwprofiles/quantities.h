// The quantities of a cluster by name, for questions about other hardware: "nvme=50GB/s",
// "gpu.memory=141GiB", "network=x2". One table, for --set, sweeps and whoever asks what a change
// brings.
//
// Rates are those on paper, as profiles state them; the shares of them that programs reach stay.
// What was measured follows the change:
//   products and attention    keep their ratio to the time by tiles and to the peak
//                             (kernel_tables.h)
//   collectives within a node what they move follows the peer link, of devices without one PCIe;
//                             their start, the time of the fewest bytes, follows latency.collective
//   collectives over nodes    what they move follows the network, their start stays
// or does not; the source of the change says which.
// A node with more or fewer GPUs is built from the same parts by the rule of build_cluster.h. Nodes
// without leaf switches get some as soon as one of their quantities is set, the others usual.
// Sizes of the memories of GPUs and hosts are labels: 128GB is 128 GiB, and the source of the
// change says so. Those of drives are as they are typed. Names may begin with "device." in place of
// "gpu." and with "fabric." in place of "network.".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/hw_profile.h"

namespace zplan {

enum class QuantityUnit : std::uint8_t {
  kBytes,
  kBytesPerSecond,
  kFlopsPerSecond,
  kSeconds,
  kCount,
  kFactor
};

struct HardwareQuantity {
  std::string_view name;  // "nvme.read"
  std::string_view also;  // another name for it, or empty
  QuantityUnit unit = QuantityUnit::kBytes;
  std::string_view meaning;  // "what the drives of a node read together"
  std::optional<double> (*get)(
      const Cluster& cluster);                  // in B, B/s, FLOP/s, s; nothing: it has none
  void (*set)(Cluster& cluster, double value);  // where it has one
  // What stands for it in a cluster that has none and may get one; nothing: it may not.
  std::optional<double> (*usual)(const Cluster& cluster) = nullptr;
};
std::span<const HardwareQuantity> hardware_quantities();
// Throws Error naming the nearest.
const HardwareQuantity& find_quantity(std::string_view name);
// Whether a quantity has this name, or is also called so.
bool is_quantity(std::string_view name);
// Whether it counts parts: another number of them is another machine, for other plans.
bool is_layout(std::string_view name);

// "50.0 GB/s"
std::string quantity_words(const HardwareQuantity& quantity, double value);

struct QuantityChange {
  const HardwareQuantity* quantity = nullptr;
  double value = 0;
  bool is_factor = false;  // of what the cluster has
  bool is_label = false;   // "128GB" of a memory, which has 128 GiB
};
// "nvme=50GB/s", "nodes=4", "network=x2". Throws Error, one line.
QuantityChange parse_change(std::string_view text);
std::vector<QuantityChange> parse_changes(std::span<const std::string> texts);

inline constexpr std::string_view kGiven = "given";  // ValueSource::source of a change

// The cluster with other values; of each change a source in Cluster::sources, which says what it
// replaces and what times that were measured make of it. Throws Error where the cluster has no such
// part, or cannot have such a value. The cluster has the rates of its stack already.
Cluster with_changes(Cluster cluster, std::span<const QuantityChange> changes);

// The same of changes as they were typed, which the name of the cluster then carries, so that
// load_cluster finds the same hardware by it (cluster_name.h).
Cluster varied(Cluster cluster, std::span<const std::string> texts);

}  // namespace zplan
