// Measures what the executor's kernels, copies, transfers, collectives and drives take on the cores
// of this machine, alone and several at once, for the member "cores" of a profile
// (hwprofiles/core_profile.h says what each table holds). Times are medians of repeats.
// Left out: what other programs and other machines on the same hardware take.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "exec/device.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan::exec {

struct CoreCalibration {
  struct Kernel {
    KernelId kernel{};
    int threads = 1;
    std::array<std::int64_t, 3> sizes{};
    double seconds = 0;
  };
  struct Move {  // a copy, a transfer between threads or to a drive
    std::int64_t bytes = 0;
    double seconds = 0;
  };
  struct Collective {
    CollectiveKind kind{};
    int ranks = 2;
    std::int64_t bytes = 0;  // of the whole buffer
    double seconds = 0;
  };
  int cores = 1;
  std::vector<Kernel> kernels;
  std::vector<Collective> collectives;
  std::vector<Move> copies, transfers, reads, writes;  // of drives: only with a directory
  double read_beside_write = 0;    // share of the rate of reads that remains beside writes
  double operation = 0, wake = 0;  // s
  double products_together = 1, streams_together = 1;
};

struct CoreOptions {
  int cores = 1;          // that this process may use
  std::string directory;  // on the drive to measure; empty: none
  bool quick = false;
  std::function<void(const std::string& line)> measured{};
};

// Cores that this process may use.
int usable_cores();

// On an idle machine. Throws Error(kDevice) when the directory cannot be used.
CoreCalibration calibrate_cores(Device& device, const KernelSet& set, const CoreOptions& options);

}  // namespace zplan::exec
