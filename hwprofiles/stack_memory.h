// What a stack holds in memory beside the buffers of a Job: the member "memory" of its file. Each
// quantity (memory_quantity.h) has a value, an uncertainty (relative,
// one standard deviation), a source and a reference. A value may be given by compute capability:
// {"80": .., "90": ..} holds from that capability on. A quantity that is not given is zero.
// A stack without the member allocates what a Job says and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/json_reader.h"
#include "planner/core/units.h"

namespace zplan {

enum class MemoryQuantity : std::uint8_t;  // memory_quantity.h

// A reading says which bytes of a GPU were counted: all that nvidia-smi shows, the segments of the
// allocator (torch.cuda.max_memory_reserved), or those of its bytes that are in use at a time
// (max_memory_allocated).
enum class MemoryReading : std::uint8_t { kDevice, kReserved, kAllocated };

// One measured run shows how much more, or less, than predicted this software holds on a class of
// devices (--measured 61GiB). One number teaches one offset, which is added to every plan. It
// cannot tell whether the difference grows with the plan, so a plan that holds twice as much as the
// measured one is as uncertain by the offset itself [derived: that is how far an offset and a
// factor differ].
struct MeasuredMemory {
  Bytes offset{};     // measured - predicted
  Bytes predicted{};  // that the measured plan needs of a device, without the offset
  MemoryReading reading{};
  std::string device;  // "H100-SXM5-80GB"
};

struct StackMemoryValue {
  std::vector<std::pair<int, double>> from;  // capability, value; ascending
  double uncertainty = 0;
  std::string source, ref;
};

class StackMemory {
 public:
  StackMemory();

  bool given = false;                        // the stack's file has the member
  std::optional<MeasuredMemory> measured{};  // no file has it
  // Modules in CUDA graphs of their own hold these bytes besides. The pool of graphs is then apart
  // from that of what is launched: what either caches serves the other nothing. No file has it.
  std::optional<Bytes> graphs{};
  const StackMemoryValue& operator[](MemoryQuantity q) const {
    return values_[static_cast<std::size_t>(q)];
  }
  StackMemoryValue& operator[](MemoryQuantity q) { return values_[static_cast<std::size_t>(q)]; }
  bool has(MemoryQuantity q) const { return !(*this)[q].from.empty(); }
  // On devices of a capability; 0 where nothing is given for it.
  double at(MemoryQuantity q, int capability) const;
  bool says(MemoryQuantity q) const { return at(q, 0) > 0; }  // of what is yes or no

 private:
  std::vector<StackMemoryValue> values_;  // by quantity
};

StackMemory read_stack_memory(const JsonNode& node);

}  // namespace zplan
