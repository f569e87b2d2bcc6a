// What this machine offers to zplan: one finding per thing that some command can use. Looks, and
// where looking does not tell, tries: containers show io_uring and refuse it. Nothing is left
// behind, no device is reserved. Sizes in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/cli/frame/sheet.h"

namespace zplan {

enum class Presence : std::uint8_t { kYes, kPartly, kNo };

struct HostFinding {
  std::string item;  // "NVIDIA driver"
  Presence presence = Presence::kNo;
  std::string found;   // what is there, or why it is not
  std::string use;     // what needs it
  std::string advice;  // what to do about it; empty when nothing is to be done
};
using HostFindings = std::vector<HostFinding>;

// The first file of this name in PATH that may be executed.
std::optional<std::string> in_path(const std::string& program);

// Driver, devices, toolkit, plug-in and the libraries that it needs.
HostFindings examine_cuda();
// Cores, memory, and what starts several processes.
HostFindings examine_host();
// Asynchronous requests to drives; and a folder for the NVMe tier, unless it is empty.
HostFindings examine_storage(const std::string& nvme_directory);

// JSON schema "zplan.doctor/1".
Sheet findings_sheet(const HostFindings& findings);

}  // namespace zplan
