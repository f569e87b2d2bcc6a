// Kernels that torch.autocast adds to those of a Job that keeps 16-bit parameters: the parameters
// are fp32, and so are the results of embeddings, norms and softmax.
//
//   casts     of each weight before its product in the forward pass, of each weight gradient after
//             its product; the sum of micro-batches' gradients is a kernel of its own in fp32
//   traffic   over the compulsory bytes of the kernel table, of what works on the residual stream,
//             which is fp32 as the embedding is, and of softmax, whose result is kept in fp32
//
// [PyTorch] Products take and give 16 bits; torch.compile fuses the casts of activations into their
// neighbours, those of parameters and gradients stand alone. Eager modules have the traffic of
// their own table, which counts fp32; their casts of activations are left out.
#pragma once

#include <span>

#include "planner/core/units.h"
#include "planner/program/job/program.h"

namespace zplan {

// Kernels beside a node that cast its weight, or cast its weight gradient and add that up, move
// these bytes. 0: it has neither.
Bytes autocast_bytes(const Node& node, std::span<const View> operands);

// Returns what a compiled kernel moves under autocast over what one of 16-bit activations does.
double autocast_traffic(KernelId kernel);

}  // namespace zplan
