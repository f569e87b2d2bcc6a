// This says how much of a buffer NCCL has in one stage of a pipeline over nodes, in all of its
// channels together: a chunk in each. What a pipeline takes longer than the transfer alone is one
// chunk in each further stage. Sizes of chunks are those of NCCL's enqueue.cc, init.cc and nvls.cc
// [NCCL].
//
//   LL        32 KiB
//   LL128     562.5 KiB, of a small buffer halved down to 17.6 KiB, so that there are enough chunks
//             for the levels of the tree
//   Simple    512 KiB
//   NVLS      for each GPU of a node: 128 KiB, 64 KiB from four nodes or 16 GPUs in each on; halved
//             down to 32 KiB where the buffer has fewer than four chunks of each channel, or not
//             one
#pragma once

#include <cstdint>

namespace zplan {

// "Low" is LL; in one node it stands for LL128 as well.
enum class Protocol : std::uint8_t { kLow, kLine, kSimple };

// Returns the bytes that a tree over `nodes` of `in_node` ranks each has in one stage, at most
// `bytes`.
double tree_chunks(Protocol protocol, double bytes, int nodes, int in_node, int channels);

// Returns the same of switches that add up, whose nodes are joined by a tree.
double nvls_chunks(double bytes, int nodes, int in_node, int channels);

}  // namespace zplan
