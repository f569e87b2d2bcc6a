// What collectives among the devices of this machine take, and what they and products take from
// each other, by what the processes of a run communicate with (Device::make_comm). A thread with a
// device of its own stands for each process.
//
// A time is that of one of many that follow each other without a pause after all ranks have met, on
// the slowest rank by the clock of its device: the median of some batches. Groups are the first 2,
// 4, 8 .. devices, and all of them. Values are in the type that the kernel set computes in. Left
// out: other choices of devices, several groups at a time, several machines.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/device.h"
#include "exec/measure/calibration.h"
#include "exec/measure/timing.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan::exec {

struct NodeCollectives {
  // Of the whole buffer: what all gather or scatter together, else what each rank has.
  struct Time {
    std::int64_t bytes = 0;
    double seconds = 0;
  };
  struct Curve {
    CollectiveKind kind{};
    int ranks = 2;
    std::vector<Time> times;  // bytes ascend
  };
  std::vector<Curve> curves;
  Time neighbours;  // among all devices each sends to the next one, the fewest bytes
  std::vector<Measurement> contention;
};

struct NodeCollectiveOptions {
  std::vector<std::int64_t> sizes;                   // bytes, ascending
  std::int64_t beside = 0;                           // bytes of a collective beside products
  std::int64_t tokens = 0, inputs = 0, outputs = 0;  // of these products
  Effort effort;
  std::chrono::seconds deadline{60};  // for what another rank has to bring
  std::function<void(const std::string& line)> measured{};
};
// `memory`: of a device.
NodeCollectiveOptions node_collective_options(bool quick, Bytes memory);

// At least two devices, which have communicators. Throws Error(kDevice) when one fails.
NodeCollectives measure_node_collectives(std::span<Device* const> devices, const KernelSet& set,
                                         const NodeCollectiveOptions& options);

}  // namespace zplan::exec
