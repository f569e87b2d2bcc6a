// Calls of single kernels on random operands: which shapes, types and values a row of the kernel
// table is tried with, and running one call on the backend of a device. All values are doubles that
// the operand's type holds exactly, so that a call in float64 has the same input.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "exec/device.h"
#include "exec/host_kernels.h"
#include "planner/program/kernel_table.h"

namespace zplan::gpu {

struct Case {
  KernelId kernel{};
  // Of the letters in KernelDef::shapes, "*", and "V", the tokens that occur.
  std::map<std::string, std::int64_t> sizes;
  Attributes attributes{};
  bool adds = false;            // to operands that may be written or added to
  bool wide_gradients = false;  // in the type of statistics
  std::int32_t tp_index = 0;
  int operands = 0;  // without scratch; 0: all
};

std::string describe(const Case& c);  // "T=5 k=3 n=7 adds"

// Of a row, small ones with odd sizes first. `large`: those for measuring speed instead.
std::vector<Case> cases_of(KernelId kernel, bool large);

struct CaseOperand {
  std::string name;
  View view;
};
// In the order of the row; scratch comes last.
std::vector<CaseOperand> operands_of(const Case& c, const KernelSet& set);

using Values = std::vector<std::vector<double>>;  // by operand; scratch has none

// Inputs; `consistent`: what a kernel takes from another one is that one's, computed in float64.
Values draw_inputs(const Case& c, const KernelSet& set, std::mt19937_64& random,
                   bool consistent = true);

// A call on the backend of a device, with memory of its own around which nothing may change.
class CaseRun {
 public:
  CaseRun(exec::Device& device, const KernelSet& set, const Case& c, const Values& inputs);
  CaseRun(const CaseRun&) = delete;
  CaseRun& operator=(const CaseRun&) = delete;

  void launch();                      // queues the kernel once more
  void finish();                      // waits for it
  double seconds(int launches);       // of one launch, of so many back to back
  double copy_seconds(int launches);  // of copying the first operand to the second
  // What the operands hold now. Throws Error(kCheckFailed) when a byte changed that the call does
  // not write.
  Values outputs();

 private:
  std::byte* address(std::size_t operand) const;
  template <typename Queue>
  double time(int launches, const Queue& queue);

  exec::Device* device_;
  exec::DataSource data_{{1, 2, 3}, "none"};
  TrainConfig train_;
  exec::RunServices services_{data_, train_, 0, 1};  // the seed of rounding draws
  std::vector<CaseOperand> operands_;
  std::vector<std::size_t> offsets_;
  Job job_;
  exec::Slab slab_;
  std::vector<std::byte> image_;  // what was uploaded
  std::unique_ptr<exec::Backend> backend_;
  std::vector<exec::Operand> call_operands_;
  exec::KernelCall call_;
};

// The outputs of the call in float64 on the CPU.
Values reference(const Case& c, const Values& inputs);

}  // namespace zplan::gpu
