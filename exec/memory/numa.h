// Memory of the socket that a device stands at. A machine of several sockets has a NUMA node for
// each, and a device reaches the memory of its own faster than that of others.
//
// Linux says of each PCI device at which node it stands, and gives a thread pages by the policy of
// that thread. Pinned memory is handed out while a thread asks for it, not when it is first
// touched, so a policy around that call says where it lies. "Preferred": where the node has none
// left, another one gives it.
#pragma once

#include <optional>
#include <string>

namespace zplan::exec {

// The NUMA node of the device "0000:3B:00.0". Nothing where the machine has one node, or does not
// say. `system`: in place of /sys.
std::optional<int> numa_node_of(const std::string& pci_address, const std::string& system = "/sys");

// While it lives, this thread is given memory of the node. Nothing happens without a node, where
// the system refuses, or where somebody chose a policy before, as numactl does.
class PreferredNode {
 public:
  explicit PreferredNode(std::optional<int> node);
  ~PreferredNode();
  PreferredNode(const PreferredNode&) = delete;
  PreferredNode& operator=(const PreferredNode&) = delete;

  bool is_set() const { return is_set_; }

 private:
  bool is_set_ = false;
};

}  // namespace zplan::exec
