// What a device must offer to run the nodes of a Program: kernels and copies on memory of one rank.
// Synchronisation, communication between ranks and addresses are the executor's. One backend object
// serves one rank; each lane calls it from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/kernel_choice.h"
#include "planner/program/instances/cursor.h"
#include "planner/program/job/program.h"

namespace zplan::exec {

// A view of an operation at one instance: where it is. What lies on NVMe has no address.
struct Operand {
  const View* view = nullptr;
  std::byte* data = nullptr;
  Bytes offset{0};  // in the slab of its tier

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
  const Shape& shape() const { return view->shape; }
  std::int64_t elements() const { return view->shape.elements(); }
  bool adds() const { return view->access == Access::kUpdate; }
};
inline constexpr std::size_t kMostOperands = 12;

class RunServices;
class Queues;

// One instance of a kernel node.
struct KernelCall {
  const Node* node = nullptr;
  std::span<const Operand> operands;
  AttributeValues attributes{};  // of this rank
  Env env;
  std::int64_t step = 0;      // of the training, from 0; where the run validates, the next one
  std::int64_t run_step = 0;  // of the run (schedule/step_sequence.h)
  std::int32_t rank = 0;
  RunServices* services = nullptr;  // null while preparing

  const Operand& operator[](std::size_t i) const { return operands[i]; }
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Ahead of the first step, on the thread that will run the lane.
  virtual void prepare_thread() = 0;
  // Both return when the work is done or, on the launched lanes of a backend with queues, is queued
  // there; neither allocates a block of 4 KiB or more. Copies to and from NVMe are not the
  // backend's (exec/offload/).
  virtual void run_kernel(const KernelCall& call) = 0;
  virtual void copy(Lane lane, const Operand& from, const Operand& to) = 0;
  // Made at construction.
  virtual std::vector<KernelChoice> choices() const { return {}; }
  // Of a device that works off its launched lanes by itself; null: each lane is a thread.
  virtual Queues* queues() { return nullptr; }
};

}  // namespace zplan::exec
