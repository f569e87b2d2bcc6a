// Servers of the catalogue with GPUs of one device: how many of them a wish takes, and by which
// name and sentence the answer calls them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "hwprofiles/cluster_vocabulary.h"
#include "hwprofiles/hw_profile.h"

namespace zplan {

// This is what a text says of GPUs; one of the counts is there at least.
struct Wish {
  std::optional<int> nodes, per_node, total;
};

// "2xh100"
std::string times(int count, std::string_view what);

class Servers {
 public:
  // `kind`: what errors call the device.
  Servers(const SpelledDevice& device, std::string kind);

  // GPUs of a node, at most; of a rack: of its nodes.
  int size() const;

  // The wish with nodes and GPUs of each. Throws Error where there is no such node or number.
  Wish settled(Wish wish, std::string_view typed) const;

  // Both of a settled wish: "dgx-h100x2", "2 nodes of 8 H100-SXM5-80GB as in dgx-h100: ..".
  std::string name_of(const Wish& wish) const;
  std::string words_of(const Wish& wish) const;

 private:
  bool is_rack() const { return cluster_.nodes > 1; }
  int rack_gpus() const { return cluster_.devices(); }
  bool is_whole(int gpus) const { return gpus == cluster_.node.devices_per_node; }
  bool has_links() const { return cluster_.node.topology.gpu_peer.has_value(); }
  // Returns whether a node has its own number of GPUs alone.
  bool is_fixed() const;
  // Returns whether a node may have so many, and whether that is a usual part of it.
  bool holds(int gpus) const;
  bool is_usual(int gpus) const;
  int nearest_size(int gpus) const;
  std::string sizes() const;

  void split(Wish& wish, std::string_view typed) const;
  void check_rack(const Wish& wish, std::string_view typed) const;
  [[noreturn]] void fail_size(const Wish& wish, std::string_view typed) const;
  [[noreturn]] void fail_count(int total, std::string_view typed) const;
  // "256 GiB of CPU memory and 1 NVMe drive, assumed"; empty: the catalogue has a source for them.
  std::string assumed_host() const;
  std::string within() const;
  std::string between(int per_node) const;

  const SpelledDevice& device_;
  std::string kind_;
  Cluster cluster_;
};

}  // namespace zplan
