// One prepared float product on oneDNN's matmul primitive; keeps dnnl.hpp out of gemm.h. Internal
// to exec/cpu/kernels. Built without oneDNN, create always answers null.
#pragma once

#include <memory>

#include "exec/cpu/kernels/gemm.h"

namespace zplan::exec::cpu {

class DnnlGemm {
 public:
  // Null where oneDNN is not built in, is known to be slow, or has only implementations that
  // allocate while they run.
  static std::unique_ptr<DnnlGemm> create(const GemmShape& shape);
  virtual ~DnnlGemm() = default;

  virtual Bytes scratch_bytes() const = 0;
  virtual void run(const GemmOperands<float>& operands, Scratch scratch) = 0;
};

}  // namespace zplan::exec::cpu
