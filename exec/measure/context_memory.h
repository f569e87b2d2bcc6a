// Memory that a process takes of a CUDA device beside its slabs: the context, loaded kernels, and
// what the libraries of products and attention keep. Seen from outside: this process compares what
// is free before and while another one has run a product and attention. What other programs take or
// give back meanwhile spoils the figure.
#pragma once

#include <sys/types.h>
#include <array>
#include <string>

#include "exec/measure/driver.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan::exec {

// The other process, made by fork: to be constructed while this one has neither threads nor a
// device. It ends with the object.
class ContextProbe {
 public:
  ContextProbe();
  ~ContextProbe();
  ContextProbe(const ContextProbe&) = delete;
  ContextProbe& operator=(const ContextProbe&) = delete;

  // Once; this process has opened the driver. Throws Error(kDevice) when the other one fails.
  Bytes taken(const Driver& driver, const KernelSet& set);

 private:
  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
};

}  // namespace zplan::exec
