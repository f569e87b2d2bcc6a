// A cluster as people type it, and the name of it that load_cluster, plans and files take.
//   16xH100, H100x16, 16 H100, H100:16           so many GPUs: servers of the catalogue
//   2x8xH100, 2 nodes of 8 H100, 8xH100 x2 nodes nodes of so many GPUs
//   p5.48xlarge x2, 2*dgx-h100, DGX H100:4       so many nodes
//   gb200x72, GB200 NVL72                        GPUs of a rack, a rack
//   g6e.12xlarge                                 the GPUs of an instance whose host is not known
//
// The rules of a plain GPU name: it stands for GPUs in the server that devices.json names. Up to
// the size of the server there is one of 1, 2, 4, 8 .. of them or of its own number; beyond it
// there are whole servers. Servers without peer links hold 8 [assumed]. GPUs whose
// peer links form a torus come in whole servers. A name without a count is one GPU.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "hwprofiles/hw_profile.h"

namespace zplan {

struct SpelledCluster {
  std::string name;      // "dgx-h100x2", "rtx4090-workstation{gpus_per_node=1}"
  std::string sentence;  // what was made of the text; empty where nothing was assumed
};

// `typed`: without settings; no path and no name that is a node's, NODExCOUNT or a rack's already.
// Nothing: it means no hardware of the catalogue. Throws Error, one line, where it may mean several
// or where the count cannot be; that names what can be typed instead.
std::optional<SpelledCluster> spelled_cluster(std::string_view typed);

// Returns the usual whole node of a GPU that is named without a count, "dgx-h100" of "H100"; empty:
// the text names no GPU. Throws Error as spelled_cluster does.
std::string whole_node_of(std::string_view typed);

// What the name of a node that is a GPU's name as well stands for; empty: it is none.
//   "mi300xx8" -> "mi300xx8 is 8 nodes of 8 AMD MI300X 192GB as in mi300x; type 8xmi300x for 8"
std::string remark_on_node_name(std::string_view typed, const Cluster& cluster);

// Returns whether a text is the name of hardware or a path, or means hardware that is asked back.
bool means_cluster(std::string_view text);

// "; did you mean "h100"?" or nothing.
std::string nearest_cluster_name(std::string_view typed);

}  // namespace zplan
