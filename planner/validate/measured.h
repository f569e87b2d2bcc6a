// A user says in a word what one run took, in the place of a record of it (runs.h):
//
//   5.2s, 850ms, 1.5min     a step, from one update of the parameters to the next
//   412TFLOP/s              per GPU, of model FLOPs: forward and backward of the model, without
//                           what recomputation adds, as MFU counts them (planner/cost/throughput.h)
//   38%MFU                  the same over the peak of the GPU for the format of the products
//   9500tok/s               tokens of all GPUs together; 9500tok/s/gpu those of one
//   61GiB                   of the fullest GPU, as nvidia-smi shows it; 61GiB:reserved and
//                           61GiB:allocated as PyTorch's allocator says (hwprofiles/stack_memory.h)
//
// All but sizes are read in lower or upper case, with spaces in and before the unit or without. A
// speed and a size may stand together, two of either contradict each other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/stack_memory.h"
#include "planner/core/units.h"
#include "planner/cost/throughput.h"

namespace zplan {

enum class MeasuredKind : std::uint8_t {
  kStep,             // seconds
  kModelFlops,       // flop/s of a GPU
  kMfu,              // of 1
  kTokens,           // per second
  kTokensPerDevice,  // per second
};

struct MeasuredSpeed {
  MeasuredKind kind{};
  double value = 0;
  std::string text;  // as typed
};

struct MeasuredSize {
  Bytes size{};
  MemoryReading reading{};
  std::string text;
};

struct Measured {
  std::optional<MeasuredSpeed> speed{};
  std::optional<MeasuredSize> size{};

  bool is_empty() const { return !speed && !size; }
  // Throws Error where the word is no such number, or says again what was said. Its message begins
  // with the option.
  void add(const std::string& word);
};

// A unit of a speed, in lower case; "/gpu" may follow those of rates.
struct SpeedUnit {
  std::string_view unit;  // "tflop/s"
  MeasuredKind kind{};
  double factor = 1;
};
std::span<const SpeedUnit> speed_units();

// Returns true if the word begins as a number does; a file may have such a name too.
bool is_measured_number(std::string_view word);

// The step that the speed is of. `predicted`: of the same plan, with a step of `period`.
// Throws Error where the plan has no such speed.
Seconds step_of(const MeasuredSpeed& speed, const Throughput& predicted, Seconds period,
                int devices);

// Throws Error where no run of the plan can have had such a step: it is below what its matrix
// products take at the peak of the devices, which no software beats, or many times the prediction,
// so that it must be of something else.
void check_step(const MeasuredSpeed& speed, Seconds step, const Throughput& predicted,
                Seconds period);

}  // namespace zplan
