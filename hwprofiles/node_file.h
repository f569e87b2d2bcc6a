// A node file, "zplan.hw/1", with what it leaves to others filled in.
//
//   base   a kind of the catalogue, or the path of a node file from the folder of this one. The
//   file
//          is written over it (planner/core/json_edit.h): it says what differs, null removes. Name,
//          description and aliases are its own.
//   gpu    a device of catalogue/hardware/devices.json: its data sheet is written over the base
//          before the file is. Without "base" that is the node that the device names as its
//          relative. What the base says of another machine is then assumed here, and its measured
//          collectives, cores and running costs are left out.
// The data sheet of a device sets its memory, peaks, rates, SMs and measured kernels, the kernel
// set of its capability, the peer links, and the host's link but where the base has it at its
// achieved rate. All else, efficiencies and latencies above all, is the base's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/embedded_file.h"
#include "planner/core/json_reader.h"

namespace zplan {

struct NodeFile {
  JsonNode root;     // which names neither base nor gpu
  std::string text;  // of the file and of its bases, for the hash
};
// `file_name` stands for the text in messages; paths start in its folder. Throws Error.
NodeFile complete_node_file(std::string text, const std::string& file_name);
// The same of a node that stands in another document, a file of this folder.
NodeFile complete_node(const JsonNode& own, const std::string& folder);

// The file of a kind by its name or an alias, in any case; nothing: there is no such kind.
const EmbeddedFile* find_node_file(std::string_view name);

// Whether the file of a kind names neither base nor gpu.
bool has_whole_profile(std::string_view kind);

// Of all devices that "gpu" may name.
std::vector<std::string> gpu_names();

// A whole file to edit, with the figures of load_cluster(name_or_path): of a named cluster and of a
// cluster file that file, else the node's, completed from what it is based on; a count of nodes is
// for whoever names the file. Throws Error as load_cluster does, and of a name with settings.
std::string hardware_template(std::string_view name_or_path);

}  // namespace zplan
