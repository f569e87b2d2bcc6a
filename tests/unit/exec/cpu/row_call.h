// A row of the dispatch table, called by a test.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "exec/cpu/dispatch.h"
#include "exec/data_source.h"
#include "exec/host_kernels.h"
#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {

// One call; operands are vectors of the test.
class RowCall {
 public:
  explicit RowCall(KernelId kernel, AttributeValues attributes = {}) {
    node_.kernel = kernel;
    call_.node = &node_;
    call_.attributes = attributes;
  }

  template <typename T>
  RowCall& with(std::vector<T>& values, Shape shape, Access access = Access::kRead) {
    View view;
    view.dtype = dtype_of<T>();
    view.access = access;
    view.shape = shape;
    views_.push_back(view);
    operands_.push_back({&views_.back(), reinterpret_cast<std::byte*>(values.data())});
    return *this;
  }

  void run(DType compute) {
    RunServices services({&data_}, 1, train_, 0, 1);
    call_.services = &services;
    call_.operands = operands_;
    GemmCache gemm;
    const DispatchEntry& entry = dispatch_table(compute)[static_cast<std::size_t>(node_.kernel)];
    if (entry.prepare != nullptr) entry.prepare(call_, gemm);
    entry.run(call_, gemm);
  }

  RowCall& scratch(Bytes size) {
    View view;
    view.dtype = DType::kF32;
    view.access = Access::kScratch;
    view.shape = {size.value / size_of(view.dtype).value};
    views_.push_back(view);
    operands_.push_back({&views_.back(), workspace_.emplace(size).span().data()});
    return *this;
  }

 private:
  Node node_;
  KernelCall call_;
  std::deque<View> views_;
  std::vector<Operand> operands_;
  std::optional<Workspace> workspace_;
  DataSource data_{{1, 2, 3}, "rows"};
  TrainConfig train_;
};

}  // namespace zplan::exec::cpu
