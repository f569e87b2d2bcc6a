// What a stack holds in memory beside the buffers of a Job: the member "memory" of its file. Each
// quantity (memory_quantity.h) has a value, an uncertainty (relative,
// one standard deviation), a source and a reference. A value may be given by compute capability:
// {"80": .., "90": ..} holds from that capability on. A quantity that is not given is zero.
// A stack without the member allocates what a Job says and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/json_reader.h"
#include "planner/core/units.h"

namespace zplan {

enum class MemoryQuantity : std::uint8_t;  // memory_quantity.h

struct StackMemoryValue {
  std::vector<std::pair<int, double>> from;  // capability, value; ascending
  double uncertainty = 0;
  std::string source, ref;
};

class StackMemory {
 public:
  StackMemory();

  bool given = false;  // the stack's file has the member
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
