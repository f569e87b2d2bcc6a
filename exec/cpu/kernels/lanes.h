// A vector register of elements, by itself and as it lies in memory, at any element and beside
// other views of it. Internal to exec/cpu/kernels.
#pragma once

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {

template <typename T>
struct Lanes {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
  typedef T InMemory __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));
};

}  // namespace zplan::exec::cpu
