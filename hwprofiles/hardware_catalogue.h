// What data sheets say of devices and of the systems built from them: devices.json
// ("zplan.devices/1") and systems.json ("zplan.systems/1") of hwprofiles/catalogue/hardware,
// compiled into the library.
// Each figure carries its source. No efficiency, latency or reserve is here but those of matrix
// products: the others come with the node profile that the device names as its relative
// (build_cluster.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/hw_profile.h"

namespace zplan {

struct DeviceFacts {
  std::string id;        // "a100_sxm4_80gb"
  std::string name;      // "A100-SXM4-80GB"
  std::string relative;  // node profile of the nearest device that has one: "dgx-a100"
  int capability = 0;    // 10 x major + minor, of the nearest kernel set where it is no CUDA device
  std::string kernel_set;  // of a device that is no CUDA device, else empty
  Bytes memory{};          // usable
  std::map<std::string, FlopsPerSecond, std::less<>> peaks;
  BytesPerSecond memory_bandwidth{};
  std::optional<BytesPerSecond> peer_link;  // to the devices of its domain, per direction
  PeerKind peers = PeerKind::kSwitch;       // how the peer links of a whole node run
  bool peer_access = true;                  // devices reach each other's memory
  bool peer_sums = true;                    // as in DeviceProfile
  BytesPerSecond host_link{};               // to its processor, per direction
  std::optional<double> gemm_efficiency;    // of the best matrix product measured
  std::optional<double> sustained;          // as in DeviceProfile
  int sm_count = 0;
  BytesPerSecond scale_out{};  // network per device where nobody states one
  std::string kernel_tables;   // of its own chip, as in DeviceProfile; empty: none
  std::shared_ptr<const KernelTables> tables;
  std::shared_ptr<const CollectiveProfile> collectives;
  std::vector<ValueSource> sources;
};

struct SystemFacts {
  std::string id;       // "dgx_a100_80"
  std::string name;     // "DGX A100 (640GB)"
  std::string device;   // of DeviceFacts
  std::string profile;  // the node profile that describes this very system; empty: none
  int devices_per_node = 0;
  int scale_up_domain = 0;  // devices that share the peer link, beyond the node in racks
  int nics = 0;             // of a node; 0: no network
  BytesPerSecond nic{};     // of each, per direction
  Seconds transport{};      // as LatencyProfile::transport
  std::optional<BytesPerSecond> ring_out;  // as TopologySpec::ring_out
  std::optional<Bytes> host_memory;
  std::optional<int> cpu_cores;
  std::optional<int> drives;
  // Time of products over that on the same device in other systems: power and cooling decide which
  // clocks are held, and like devices differ by 8 % on average and 22 % at most [Sinha22].
  double settled = 1;
  std::vector<ValueSource> sources;

  bool is_rack() const { return scale_up_domain > devices_per_node; }
  BytesPerSecond scale_out() const { return nic * (static_cast<double>(nics) / devices_per_node); }
};

struct HardwareCatalogue {
  std::vector<DeviceFacts> devices;  // in file order
  std::vector<SystemFacts> systems;

  // Throw Error naming the nearest id.
  const DeviceFacts& device(std::string_view id) const;
  const SystemFacts& system(std::string_view id) const;
};

HardwareCatalogue load_hardware_catalogue();

std::vector<DeviceFacts> parse_devices(std::string text, std::string file_name);
std::vector<SystemFacts> parse_systems(std::string text, std::string file_name);

}  // namespace zplan
