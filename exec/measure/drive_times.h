// How long transfers from and to a drive take, by what the executor uses for the NVMe tier
// (offload/io_engine.h), in a file of its own that is gone afterwards. Medians of repeats.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "exec/measure/timing.h"

namespace zplan::exec {

class DriveTimes {
 public:
  // Throws Error(kDevice) when the directory cannot be used.
  DriveTimes(const std::string& directory, std::int64_t most_bytes, const Effort& effort);
  ~DriveTimes();
  DriveTimes(const DriveTimes&) = delete;
  DriveTimes& operator=(const DriveTimes&) = delete;

  double read(std::int64_t bytes) const;
  double write(std::int64_t bytes) const;
  // Share of the rate of the largest reads that remains while others write without pause.
  double read_beside_write() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::int64_t most_;
  Effort effort_;
};

}  // namespace zplan::exec
