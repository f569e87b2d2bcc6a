// The hardware that a name stands for as a document that needs no other: a "zplan.cluster/1" whose
// node is in it, a "zplan.hw/1" without base. Measured tables and collectives stay named: they are
// compiled in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zplan {

struct HardwareDocument {
  std::string name;                   // of the cluster
  std::string text;                   // JSON
  std::vector<std::string> settings;  // of the name, and of the node that a cluster file names
};
// Throws Error as load_cluster does.
HardwareDocument hardware_document(std::string_view name_or_path);

// Of all that it says but names, descriptions and sources, and of the settings: 32 hexadecimal
// digits.
std::string hardware_hash(std::string_view name_or_path);

}  // namespace zplan
