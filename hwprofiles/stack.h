// A stack: whose software trains, where an HwProfile says what the hardware can do. File format
// "zplan.stack/1"; the catalogue hwprofiles/stacks/*.json is compiled into the library.
//
// Two parts. Plan defaults (kernel set, overlap, recomputation ..) are written into a Plan as
// ordinary fields; StackRates change nothing but the cost model. A factor multiplies the time or
// traffic that the hardware alone would need, 1: as fast as the hardware; a time is the host's.
// The rates have no name: whoever simulates cannot tell whose they are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hwprofiles/stack_memory.h"

namespace zplan {

// What runs the layers of a software, by which the operators that its host dispatches, the kernels
// that these launch and the traffic of both follow (planner/cost/module_kernels.h).
enum class Modules : std::uint8_t {
  kNative,    // a compiled program that launches the Job's kernels
  kMegatron,  // Megatron-LM's layers: PyTorch with fused kernels for norms, activations, softmax
  kEager,     // PyTorch's and Hugging Face's modules, a kernel for each operator
  kCompiled,  // the same through torch.compile, which fuses what is pointwise
};

struct StackRates {
  Modules modules = Modules::kNative;
  // Whether weight gradients of micro-batches are added up by kernels of their own, not inside the
  // products that give them.
  bool sums_apart = false;
  // The batch is the first dimension of activations. PyTorch's collectives join and cut the first
  // one only, so those of the sequence copy what they gathered or are to scatter [PyTorch
  // torch/distributed/_functional_collectives.py].
  bool batch_first = false;
  // Parameters are fp32 and torch.autocast casts them to 16 bits for each product, while residual
  // sums, norms and softmax stay in fp32 (planner/cost/autocast.h).
  bool autocast = false;
  // Each operation of AdamW's formula is a kernel over all parameters, as those of torch.optim are
  // unless `fused` is asked for.
  bool foreach_update = false;
  // Fused attention gets its mask as a tensor: kernels that take one work out all pairs.
  bool dense_mask = false;
  // Says whether the experts of a token follow each other where the software forces an even load.
  bool even_neighbours = false;
  double overall = 1;  // time of everything, beside what the others say
  // Time over that of the device's table or roofline.
  double gemm = 1;               // matrix products of layers and LM head
  double gemm_fp8 = 1;           // on top of it, those in fp8
  double fp8_casts = 0;          // traffic of the casts beside these; 0: part of gemm_fp8
  double grouped_apart = 0;      // 1: those of experts are kernels that share no wave of the device
  double scores = 1;             // products of unfused attention
  double unaligned_head = 1;     // those of an LM head whose vocabulary is no multiple of 8
  double attention_forward = 1;  // fused attention
  double attention_backward = 1;
  double attention_older = 1;  // both, where the table is of a newer generation than its kernel
  // Of heads that no library takes, by kernels of the software's own on the units for vectors, over
  // the time in which these load their operands from shared memory
  // (planner/cost/vector_attention.h); 0: it has no such kernels.
  double vectors_forward = 0;
  double vectors_backward = 0;
  // Traffic over the compulsory bytes of the kernel table.
  double elementwise = 1;  // norms, activations, residuals
  double softmax = 1;      // unfused softmax and its gradient
  double loss = 1;         // cross entropy
  double optimizer = 1;    // update, gradient norm
  // Host time, in seconds.
  double host_forward = 0;     // per operator that the forward pass dispatches, launches included
  double host_backward = 0;    // the same in backward; 0: half of host_forward
  double host_collective = 0;  // per collective of 8 ranks, on top, in proportion to them
  // At each layer of each pass the host waits for the device and then spends this; 0: it never
  // waits.
  double host_sync = 0;
  double host_step = 0;  // once per step
  // Communication.
  double tensor_exposed = 1;    // share of tensor parallel collectives that products do not hide
  double backward_exposed = 1;  // on top, of sums of input gradients: beside weight gradients
  double overlap_slowdown = 0;  // compute runs 1 + this times as long beside a collective
  double network = 1;           // share of the network's effective rate that collectives reach
  double gather_network = 1;  // of that of a node, one group's with updated parameters (ZeRO 1, 2)
  // Every message between nodes takes at least so much longer than over InfiniBand verbs, in
  // seconds; for the cluster that the software ran on (LatencyProfile::transport).
  double transport = 0;
  double token_links = 0.94;  // share of a ring's rate within a node that libraries reach which
                              // send tokens to experts once (planner/cost/token_exchange.h)
  double bucket = 0;  // bytes of gradients that are summed at once, at least; 0: those of a unit
  // 1: with ZeRO 1 each rank sums all gradients, in one all-reduce, and updated parameters are
  // gathered in one piece [Nanotron].
  double summed_whole = 0;
  double list_copy = 0;        // host time per parameter and rank of such a gather, in seconds
  double sliced_boundary = 0;  // 1: tensor parallel ranks send a slice each to the next stage
  // Slow tiers.
  double cpu_update = 1;      // time of the update on the host
  double cpu_accumulate = 1;  // time of adding up gradients on the host
  double host_copies = 1;     // time of copies between host and device
  double staged_copies = 1;  // time of those of gradients and checkpoints over that of the device's
                             // link; over 1: through pageable memory, and compute waits for them
  double copy_slowdown = 0;  // as overlap_slowdown, beside copies between host and device
  double drives = 1;         // time of reads and writes of drives
  // Per GB that drives move, of a thread that waits for them and they for it, so that reads and
  // writes take turns, too; 0: transfers are queued.
  double host_drives = 0;
};

// One row per rate, for reading, fitting and reports.
struct StackRate {
  std::string_view name;  // "host_forward"
  double StackRates::*member;
  bool seconds;  // a time; else a factor
  double least, most;
  // What one expects of a stack that nobody measured, and one standard deviation of its logarithm
  // [assumed]; 0: a fact of the software, no rate.
  double usual, spread;
  std::string_view meaning;
};
std::span<const StackRate> stack_rates();

// A rate as a stack's file gives it: "gemm", or "gemm@80" of devices of that capability and, until
// the file has one of a later, of later ones.
struct StackValue {
  std::string name;    // of the rate
  int capability = 0;  // 10 x major + minor; 0: of all devices
  double value = 0;
  double uncertainty = 0;   // relative, one standard deviation
  std::string source, ref;  // as ValueSource; of fitted ones `ref` names the runs fitted on
};

// What part of a model's layers is recomputed how, in the words of /recompute.
struct RecomputedShare {
  double layers = 1;
  std::string recompute, ref;
};

// A name that people type for a software, and the framework whose configuration files say its plans
// (planner/foreign/frameworks); empty: its plans are not exported.
struct SoftwareName {
  std::string name, target;
};

// The plans that a software can run, beside what the configuration files of its framework can say.
struct ExpressedPlans {
  std::vector<std::string> only;  // in the words of --only: "zero=0,1"
  std::vector<std::string>
      never;            // no plan has all that stands between the signs: "pipeline & cpu"
  bool experts = true;  // it trains models with experts
  std::string ref;
};

struct StackProfile {
  std::string name;                 // "megatron2020"
  std::string title;                // "Megatron-LM"
  int year = 0;                     // of the software that the rates are of
  std::string description;          // one line
  std::vector<SoftwareName> names;  // several profiles share a name: one for each year
  std::string target;               // the framework of the name that was asked for
  int oldest_capability = 0;        // of the devices that it is for, 10 x major + minor
  ExpressedPlans expressed;
  std::vector<std::string> software;  // words that name it in a citation
  // Trainers of other software use it: where both are named, the trainer is meant.
  bool library = false;
  // Words of its modules, which other software trains as well: they name it where no other does.
  std::vector<std::string> weak_software;
  // This names the software that trains models without experts, where this one has modules of its
  // own only for others; empty: itself.
  std::string without_experts;
  // Of the newest devices that there were in its time, 10 x major + minor; 0: those of today.
  int newest_capability = 0;
  bool fused = true;   // fused attention and neighbours
  std::string recipe;  // of the states; empty: standard
  // What "selective" recomputation is in this software; empty: the core of attention, which is none
  // where attention is fused [Korthikanti22 sec 5].
  std::vector<RecomputedShare> selective;
  std::vector<std::pair<std::string, std::string>> choices;  // pointer of a Plan, value as text
  std::vector<std::pair<std::string, std::string>> sharded;  // others of these with ZeRO from 1 on
  std::vector<std::pair<std::string, std::string>> codes;    // where products cast to codes
  std::vector<StackValue> values;                            // in file order
  StackRates rates;                                          // those of all devices
  StackMemory memory;

  // What the file says of a rate on devices of a capability; null: nothing.
  const StackValue* value_of(std::string_view rate, int capability) const;
  // With those of devices of a capability.
  StackRates rates_on(int capability) const;
};

// "gemm@80"; of all devices "gemm".
std::string rate_key(std::string_view rate, int capability);

// The profile of a software by any of its names:
//   "megatron_core"   the profile itself
//   "megatron"        the newest profile of those with that name which are for devices of that
//                     capability; of any devices: 0
//   "megatron@2022"   the one of that year
//   "./mine.json"     a file
// Throws Error naming the nearest.
StackProfile load_stack(std::string_view name_or_path, int capability = 0);
// Returns whether the profile is for devices of that capability.
bool is_for(const StackProfile& stack, int capability);
// "Megatron-LM 2025", "zplan"
std::string software_title(const StackProfile& stack);
StackProfile parse_stack(std::string text, std::string file_name);
std::vector<StackProfile> stack_catalogue();  // by name

}  // namespace zplan
