// The closed forms of ZeRO-Infinity [Rajbhandari21 secs 3, 4], and the same counts for layers of
// other shapes than the paper's. They explain; what a plan moves and holds is counted from its Job.
//
// Compute is not overlapped with transfers in the efficiency of section 4: with ait flop per byte,
//   efficiency = ait x bandwidth / (ait x bandwidth + peak)   [Rajbhandari21 sec 4, Eq. 6]
// It is 50 % where both take equally long, so from there on overlap can hide the transfer.
// hd hidden, nl layers, bsz sequences of a GPU per iteration, ci layers per checkpoint, P = 12 nl
// hd^2, each iteration computing 2 x 4 x bsz x seq x P: forward, again, and backward twice as long.
//   parameters, gradients   2 x 4 P bytes: three loads, one store        ait = seq x bsz
//   optimizer states        2 x 16 P bytes: read and written             ait = seq x bsz / 4
//   checkpoints             2 x 2 x bsz x seq x hd x nl / ci bytes       ait = 24 hd ci
// [derived] Of other layers a token computes with A parameters of P: fewer with experts. Then
// ait = seq x bsz x A / P, a quarter of it, and 2 A ci / (nl hd); attention scores and the LM head
// are left out as in the paper.
//
// Memory of Fig. 2a, whose elements have 2 bytes, with 32 sequences on a node of 16 GPUs:
//   states        16 or 20 bytes per parameter: 20 with gradients in fp32, too
//   activations   bsz x seq x nl (16 hd + 2 heads x seq) elements
//   checkpoints   bsz x seq x hd x nl / ci elements
//   MSWM          parameters and gradients of the largest operator, 4 hd x 4 hd bytes
//   AWM           bsz x seq x ci (16 hd + 2 heads x seq) elements, of one GPU's sequences
// [derived] For other layers 16 hd is what they keep of a token: input, two norms and the middle,
// 4 hd; queries, keys and values; attention; the MLP before and after its activation. Each expert
// of a token has a row of hd in, one out, and its MLP. MSWM is 4 bytes per element of the largest
// operator that is gathered as one: all experts of a layer are.
#pragma once

#include <cstdint>

#include "models/model_config.h"
#include "planner/core/units.h"

namespace zplan {

struct InfinityBatch {
  double sequences = 1;  // bsz
  double sequence = 1;   // seq
  double interval = 1;   // ci
};

// flop per byte.
struct InfinityIntensities {
  double parameters = 0;
  double optimizer = 0;
  double checkpoints = 0;
};
InfinityIntensities printed_intensities(double hidden, const InfinityBatch& batch);
InfinityIntensities layer_intensities(const ModelConfig& model, const InfinityBatch& batch);

double infinity_efficiency(double intensity, BytesPerSecond bandwidth, FlopsPerSecond peak);
// The bandwidth of that efficiency, which is below 1.
BytesPerSecond bandwidth_for(double efficiency, double intensity, FlopsPerSecond peak);

// Bytes, of two per element.
struct InfinityMemory {
  double parameters = 0;  // a count
  double states_16 = 0, states_20 = 0;
  double activations = 0;
  double checkpoints = 0;
  double working_states = 0;       // MSWM
  double working_activations = 0;  // AWM
};
InfinityMemory printed_memory(const ModelConfig& model, const InfinityBatch& batch);
// `scores`: whether those of attention are kept, as kernels do that are not fused.
InfinityMemory layer_memory(const ModelConfig& model, const InfinityBatch& batch, bool scores);

// Table 3: what 512 devices with so many times the achievable compute of a V100 need to stay
// efficient, as printed.
struct InfinityDevice {
  const char* name;
  FlopsPerSecond peak;
  BytesPerSecond slow_memory;  // of each device
  BytesPerSecond aggregate;    // of all 512
  BytesPerSecond gpu_to_gpu;
};
inline constexpr int kInfinityDevices = 512;
inline constexpr FlopsPerSecond kInfinityPeak{70e12};
inline constexpr double kInfinitySequence = 1024;
inline constexpr InfinityDevice kInfinityTable3[] = {{"V100", {0.07e15}, {3e9}, {1.5e12}, {70e9}},
                                                     {"10x", {0.7e15}, {30e9}, {15e12}, {700e9}},
                                                     {"100x", {7e15}, {300e9}, {150e12}, {7000e9}}};

}  // namespace zplan
