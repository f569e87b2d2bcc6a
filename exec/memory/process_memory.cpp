#include "exec/memory/process_memory.h"

#include <fstream>
#include <string>

namespace zplan::exec {

ProcessMemory process_memory() {
  constexpr std::int64_t kKib = 1024;
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    const auto number = [&] { return Bytes{std::stoll(line.substr(line.find(':') + 1)) * kKib}; };
    if (line.starts_with("VmRSS:")) memory.resident = number();
    if (line.starts_with("VmLck:")) memory.locked = number();
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++memory.maps;
  return memory;
}

}  // namespace zplan::exec
