#include "exec/memory/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <fstream>

namespace zplan::exec {
namespace {

constexpr int kMostNodes = 1024;  // of Linux: CONFIG_NODES_SHIFT is 10 at most
constexpr int kWordBits = CHAR_BIT * sizeof(unsigned long);
using NodeMask = std::array<unsigned long, kMostNodes / kWordBits>;

// "0-1" or "0,2"; of one node "0"
bool has_several_nodes(const std::string& system) {
  std::ifstream in(system + "/devices/system/node/online");
  std::string nodes;
  return in >> nodes && nodes.find_first_of(",-") != std::string::npos;
}

bool has_default_policy() {
  int mode = 0;
  return syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0) == 0 && mode == MPOL_DEFAULT;
}

bool prefer(int node) {
  NodeMask mask{};
  mask[static_cast<std::size_t>(node / kWordBits)] = 1UL << (node % kWordBits);
  // The system counts one bit more than it reads.
  return syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask.data(), kMostNodes + 1) == 0;
}

}  // namespace

// The names of folders are in small letters, where CUDA writes capitals; -1 stands for no node.
std::optional<int> numa_node_of(const std::string& pci_address, const std::string& system) {
  if (!has_several_nodes(system)) return std::nullopt;
  std::string folder = pci_address;
  std::transform(folder.begin(), folder.end(), folder.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  std::ifstream in(system + "/bus/pci/devices/" + folder + "/numa_node");
  int node = -1;
  if (!(in >> node) || node < 0 || node >= kMostNodes) return std::nullopt;
  return node;
}

PreferredNode::PreferredNode(std::optional<int> node)
    : is_set_(node && has_default_policy() && prefer(*node)) {}

PreferredNode::~PreferredNode() {
  if (is_set_) syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0);
}

}  // namespace zplan::exec
