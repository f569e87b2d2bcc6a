// What a device reaches with the kernels of a kernel set: the rates and fixed times that a hardware
// profile asks for (hwprofiles/hw_profile.h), measured through the interfaces that a run uses.
// Rates: flop/s and bytes/s as the kernel table counts them
// (planner/program/kernels/kernel_table.h). Each of several shapes counts with its time: rate = all
// work / all time. Left out: communication between devices (node_collectives.h), drives, other
// devices of the node working at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exec/device.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan::exec {

enum class RateOf : std::uint8_t { kNothing, kFlop, kByte };

// One line of what was measured.
struct Measurement {
  std::string group;  // "product"
  std::string what;   // "GPT-2 1.5B qkv forward, 8192 x 4800 x 1600"
  double seconds = 0;
  RateOf rate_of = RateOf::kNothing;
  double rate = 0;  // flop/s or bytes/s
};

struct Calibration {
  std::vector<Measurement> measurements;
  double product_rate = 0;      // flop/s, the three products of training, layers of models
  double product_overhead = 0;  // s, of small products beyond what rates account for
  double attention_rate = 0;    // flop/s, forward and backward together
  double stream_rate = 0;       // bytes/s
  double upload_rate = 0;       // bytes/s, host to device, with nothing beside it
  double download_rate = 0;
  double copy_latency = 0;                      // s, of small copies beyond what rates account for
  double launch_overhead = 0;                   // s of host time
  std::optional<double> graph_launch_overhead;  // of a device with queues
};

struct CalibrationOptions {
  bool quick = false;  // small operands, short times
  std::function<void(const Measurement&)> measured{};
};

// On one thread, where kernels run on the CPU.
Calibration calibrate(Device& device, const KernelSet& set, const CalibrationOptions& options);

}  // namespace zplan::exec
