#include "hwprofiles/stack_memory.h"

#include <array>
#include <charconv>

#include "hwprofiles/memory_quantity.h"

namespace zplan {
namespace {

using enum MemoryQuantity;

constexpr double kMostBytes = 1e12, kMostEach = 64, kYes = 1;
constexpr double kMostUncertainty = 10;

constexpr std::array<MemoryQuantityRow, kMemoryQuantityCount> kStackMemory{{
    {kLibraries, "libraries", true, kMostBytes, "workspaces of libraries, from the allocator"},
    {kOverlapLibraries, "overlap_libraries", true, kMostBytes,
     "more of them where tensor parallel collectives run beside products"},
    {kBuckets, "buckets", true, kMostBytes,
     "buffers of fixed size through which gradients leave that a GPU does not keep whole"},
    {kCommunicator, "communicator", true, kMostBytes,
     "of each communicator of more than one rank, beside the allocator; not given: the device's"},
    {kContext, "context", true, kMostBytes,
     "of the driver and loaded kernels, beside the allocator; not given: the device's"},
    {kLoss, "loss", false, kMostEach, "bytes per logit beside the logits, during the loss"},
    {kCompiledLoss, "compiled_loss", false, kMostEach,
     "the same where a run compiles its cross entropy into fused kernels"},
    {kResidual, "residual", false, kMostEach,
     "bytes per element of a layer's residual, kept for backward: masks of dropout"},
    {kAttention, "attention", false, kMostEach,
     "bytes per element of what fused attention gives, kept for backward once more"},
    {kTokenPairs, "token_pairs", false, kMostEach,
     "bytes per pair of tokens of a sequence: masks that are inputs"},
    {kUpdateWhole, "update_whole", false, kMostEach,
     "bytes per parameter during an update of whole states"},
    {kUpdateShard, "update_shard", false, kMostEach,
     "bytes per parameter of the shard during an update of sharded states"},
    {kGradientsStay, "gradients_stay", false, kYes, "1: gradients are held between steps, too"},
    {kExpandable, "expandable_segments", false, kYes, "1: segments grow"},
    {kPinnedHost, "pinned_host", false, kYes, "1: what lives in host memory is page-locked"},
    {kLastRank, "reported_by_last", false, kYes,
     "1: figures of memory are those of the last rank, 0: of the one that needs most"},
    {kResidualError, "residual_error", false, kYes,
     "of the whole: what measured runs differ from the prediction by"},
    {kRmsNorm, "rms_norm", false, kMostEach,
     "bytes per element of what an RMSNorm gives, kept for backward: copies in other formats"},
    {kGated, "gated", false, kMostEach,
     "bytes per element of the MLP's width, kept for backward: what a gate gives"},
    {kGelu, "gelu", false, kMostEach,
     "the same of an MLP without gate: what parts of GELU give, each a kernel"},
    {kScores, "scores", false, kMostEach,
     "bytes per score of unfused attention, kept for backward beside the probabilities, of models "
     "with RMSNorms: softmax in fp32"},
    {kRepeated, "repeated_keys", false, kMostEach,
     "bytes per element by which keys and values grow that unfused attention repeats per query"},
    {kPasses, "score_gradients", false, kMostEach,
     "bytes per score beside it while the gradient of softmax is worked out, of the same models"},
    {kFusedQkv, "fused_qkv", false, kMostEach,
     "bytes per element of queries and keys, kept for backward once more: one product gives them "
     "and the values, which are kept where they stand"},
    {kEndsStay, "ends_stay", false, kYes,
     "1: embedding and head are gathered together for a whole step, their gradients leave last"},
    {kGather, "gather", false, kMostEach,
     "bytes per parameter of a gathered layer: what it comes into, until the next one comes"},
    {kReducedStay, "reduced_stay", false, kYes,
     "1: what a layer's gradients are reduced from is held until the next layer's are"},
    {kGatherBuffers, "gather_buffers", false, kMostEach,
     "buffers that stay, into which all activations come that tensor parallel ranks gather; 0: "
     "each comes into memory of its own"},
    {kReducer, "reducer", false, kMostEach,
     "bytes per parameter whose gradients are reduced whole while backward runs: its buckets"},
    {kUpdateGather, "update_gather", false, kMostEach,
     "bytes per parameter that is gathered after the update of its shards: all come in one piece"},
    {kCollectivesLag, "collectives_lag", false, kYes,
     "1: what a collective reads or writes is free again when the device has come so far; the host "
     "is ahead by the launch queue"},
    {kGivesBack, "gives_back", false, kYes,
     "1: a run needs the segments with which its allocator gets through, which gives back free "
     "ones when memory runs out; 0: what is in use"},
    {kEarlyWeights, "early_weights", false, kYes,
     "1: the router's weights multiply what experts have before their second product, so that what "
     "that gives is not kept for backward"},
    {kGroupedLibraries, "grouped_libraries", true, kMostBytes,
     "workspaces of products of experts, always, of models that have them"},
    {kUnevenExperts, "uneven_experts", false, kMostEach,
     "by what share of the rows of experts at the peak a run may have more, one standard "
     "deviation: its busiest step counts"},
    {kWeightCodes, "weight_codes", false, kMostEach,
     "copies of layers' matrices in the format of products that are cast to codes, beside the "
     "parameters, always: one for each way in which a product takes them, where each takes them "
     "in one block"},
    {kHostBuffers, "host_buffers", false, kMostEach,
     "bytes of host memory for each byte that lives there: buffers beside it, and what loading the "
     "model needs; 0: nothing beside it"},
    {kUnitBuckets, "unit_buckets", false, kMostEach,
     "bytes per parameter of what is gathered together, where parameters are sharded: the flat "
     "buffer "
     "through which its gradients leave"},
    {kWholeUnitBuckets, "whole_unit_buckets", false, kMostEach,
     "the same where each rank keeps the parameters whole"},
}};

double read_number(const MemoryQuantityRow& row, const JsonNode& node) {
  if (!row.bytes) return node.number(0, row.most);
  const auto bytes = static_cast<double>(node.bytes().value);
  if (bytes > row.most) node.fail_expected("at most 1 TB");
  return bytes;
}

int read_capability(const std::string& text, const JsonNode& node) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 ||
      value > kMostCapability)
    node.fail_expected("a compute capability, 10 x major + minor, as the key");
  return value;
}

void read_values(const MemoryQuantityRow& row, const JsonNode& node, StackMemoryValue& out) {
  if (!node.is_object()) {
    out.from.emplace_back(0, read_number(row, node));
    return;
  }
  for (const auto& [key, value] : node.members()) {
    const int capability = read_capability(key, value);
    if (!out.from.empty() && out.from.back().first >= capability)
      value.fail_expected("capabilities in ascending order");
    out.from.emplace_back(capability, read_number(row, value));
  }
}

}  // namespace

std::span<const MemoryQuantityRow> memory_quantities() { return kStackMemory; }

StackMemory::StackMemory() : values_(kMemoryQuantityCount) {}

double StackMemory::at(MemoryQuantity q, int capability) const {
  double value = 0;
  for (const auto& [from, own] : (*this)[q].from)
    if (from <= capability) value = own;
  return value;
}

StackMemory read_stack_memory(const JsonNode& node) {
  StackMemory memory;
  memory.given = true;
  JsonObject in = node.object();
  for (const MemoryQuantityRow& row : kStackMemory) {
    const auto member = in.optional_member(row.name);
    if (!member) continue;
    JsonObject own = member->object();
    StackMemoryValue& value = memory[row.quantity];
    read_values(row, own.member("value"), value);
    value.uncertainty = own.member("uncertainty").number(0, kMostUncertainty);
    value.source = own.member("source").one_of({"datasheet", "measured", "fitted", "assumed"});
    value.ref = own.member("ref").non_empty_string();
    own.finish();
  }
  in.finish();
  return memory;
}

}  // namespace zplan
