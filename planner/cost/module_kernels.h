// The modules of a software do this on host and device for one kernel of the Job: a table, counted
// from public sources. The Job has one fused kernel where eager PyTorch launches several, and a
// host that runs Python dispatches views, checks and autograd functions besides.
//
//   calls     operators and autograd functions that the host dispatches, views included
//   launches  kernels that the device starts
//   traffic   bytes that these move, over the compulsory ones of the kernel table
//
// Modules::kNative runs one kernel for each of the Job: zplan's own program and XLA. The others
// have a row below for each kernel that differs, kCompiled few: TorchInductor fuses neighbours that
// are pointwise, but nothing into a product (epilogue_bytes()).
// [derived] The traffic counts each operand of each kernel once, activations in 16 bits and what
// the source converts in 32; caches are left out.
#pragma once

#include <span>

#include "hwprofiles/stack.h"
#include "planner/core/units.h"
#include "planner/program/job/program.h"

namespace zplan {

struct ModuleKernels {
  double calls = 1;
  double launches = 1;
  double traffic = 1;
};

// Of a kernel of the Job; a rank of the first device stands for all.
ModuleKernels module_kernels(KernelId kernel, Modules modules);

// Operators that the host dispatches for a node: of a collective those of the wrapper that calls
// the library, with the hooks of a sharded unit where it gathers or reduces one.
double host_calls(const Node& node, Modules modules);

// Kernels of their own move these bytes for what the Job has inside a product: an activation
// function, its gradient, and the sum that is the gradient of a bias. 0: the node is no such
// product, or the modules have it inside, too.
Bytes epilogue_bytes(const Node& node, std::span<const View> operands, Modules modules);

// This says how the rows of tokens come to the experts of a rank.
struct TokenTravel {
  double ranks = 0;  // that have experts of a token, on average, where its rows travel together
  std::int64_t experts = 1;  // of a rank
  bool is_exchanged = false;
};

// Kernels of their own move these bytes to put rows in the order of a rank's experts, which they
// have in the Job as they come: a row is read and written once more where several experts have rows
// of each sender. Where the rows of a token travel together it is the receiver who makes rows of
// the tokens that it got, and no sender. 0: the node brings no rows.
Bytes sorting_bytes(const Node& node, std::span<const View> operands, const TokenTravel& travel,
                    Modules modules);

// Products that the host launches for the node: one for each expert where the modules have no
// kernel for all [TransformerEngine].
std::int64_t products_launched(const Node& node, std::span<const View> operands, Modules modules);

// What a kernel of its own moves that adds a weight gradient to what earlier micro-batches gave:
// autograd's result is read, the sum read and written. 0: the node is no such product, or the first
// of a sum.
Bytes accumulation_bytes(const Node& node, std::span<const View> operands);

}  // namespace zplan
