// What the software of the cluster's stack takes of a GPU (stack_memory_use.h).
#include <fmt/format.h>

#include "planner/place/held_besides.h"
#include "planner/search/explanation_parts.h"

namespace zplan {
namespace {

constexpr std::string_view kUse = "planner/search/stack_memory_use.h";

std::vector<Term> held(const ReplayedMemory& replay) {
  std::vector<Term> terms;
  for (const HolderRow& row : holders()) {
    const Bytes size = replay.at_peak[static_cast<std::size_t>(row.holder)];
    if (size.value > 0) terms.push_back(bytes_term(std::string(row.words), size, "replayed"));
  }
  sort_terms(terms);
  return terms;
}

// The bound of what is expected, and what is expected.
void add_estimate(const std::string& at, const MemoryEstimate& estimate, std::string formula,
                  std::vector<Term> terms, Explanations& out) {
  double rest = static_cast<double>(estimate.central.value);
  for (const Term& one : terms) rest -= one.value;
  if (rest != 0)
    terms.push_back(
        term("given back before the device runs out, and rounding", rest, TermUnit::kBytes, kUse));
  out.push_back(sum_of(at + ".expected_bytes", static_cast<double>(estimate.central.value),
                       TermUnit::kBytes, std::move(formula), std::move(terms)));
  out.push_back(sum_of(at + ".bound_bytes", static_cast<double>(estimate.bound.value),
                       TermUnit::kBytes,
                       "what 19 runs of 20 stay below: expected + 1.645 standard deviations",
                       {bytes_term("expected", estimate.central, at + ".expected_bytes"),
                        bytes_term("1.645 standard deviations of the parts, added as squares",
                                   estimate.bound - estimate.central, kUse)}));
}

void add_allocated(const Explained& plan, const std::string& at, Explanations& out) {
  const StackMemoryUse& use = plan.stack;
  const bool is_replayed = plan.cluster.memory.given && use.replay;
  const auto stage = static_cast<std::size_t>(use.stage);
  const std::vector<Term> slab{
      bytes_term("slab", plan.job.classes[stage].placement.slab[0],
                 fmt::format("memory.classes[{}].gpu.slab_bytes", stage)),
      bytes_term("workspace of libraries", plan.cluster.node.device.reserve_workspace,
                 profile_source(plan.cluster, "/device/reserve/workspace"))};
  const auto replayed = [&](const char* key, Bytes ReplayedMemory::*size) {
    return std::vector<Term>{bytes_term("replayed", (*use.replay).*size, at + key)};
  };
  add_estimate(
      at + ".allocated", use.allocated, "most bytes in use at a time",
      is_replayed ? replayed(".replayed_allocated_bytes", &ReplayedMemory::allocated) : slab, out);
  add_estimate(at + ".reserved", use.reserved, "segments of the allocator",
               is_replayed ? replayed(".replayed_reserved_bytes", &ReplayedMemory::reserved) : slab,
               out);
}

}  // namespace

void explain_allocator(const Explained& plan, Explanations& out) {
  const StackMemoryUse& use = plan.stack;
  const std::string at = "memory.allocator";
  out.push_back(single(at + ".stage", use.stage, TermUnit::kNone,
                       "stage whose GPU needs most as the stack takes it", kUse));
  if (use.replay) {
    out.push_back(sum_of(at + ".live_bytes", static_cast<double>(use.replay->live.value),
                         TermUnit::kBytes, "most bytes requested at a time, by what holds them",
                         held(*use.replay)));
    out.push_back(single(at + ".before_update_bytes",
                         static_cast<double>(use.replay->before_update.value), TermUnit::kBytes,
                         "as live_bytes, of what is requested before the norm and the update",
                         "replayed (planner/place/allocator_replay.h)"));
    for (const HolderRow& row : holders())
      out.push_back(single(
          fmt::format("{}.held.{}", at, row.name),
          static_cast<double>(use.replay->at_peak[static_cast<std::size_t>(row.holder)].value),
          TermUnit::kBytes, "of live_bytes: " + std::string(row.words),
          "replayed (planner/place/allocator_replay.h)"));
    for (const auto& [key, size] : {std::pair(".replayed_allocated_bytes", use.replay->allocated),
                                    std::pair(".replayed_reserved_bytes", use.replay->reserved)})
      out.push_back(single(at + key, static_cast<double>(size.value), TermUnit::kBytes,
                           "the step's requests, as a caching allocator rounds and keeps them",
                           "replayed (planner/place/allocator_replay.h)"));
  }
  add_allocated(plan, at, out);
  const Term context = bytes_term("context", use.context, at + ".context_bytes");
  const Term communicators =
      bytes_term("communicators", use.communicator_bytes, at + ".communicator_bytes");
  std::vector<Term> needed{
      bytes_term("in use", use.allocated.central, at + ".allocated.expected_bytes"), context,
      communicators};
  if (use.replay && use.replay->least > use.replay->allocated)
    needed.push_back(bytes_term("cut up so that it cannot be given back",
                                use.replay->least - use.replay->allocated,
                                "replayed (planner/place/request_replay.h)"));
  add_estimate(at + ".needed", use.device, "in use, and beside the allocator", std::move(needed),
               out);
  add_estimate(at + ".shown", use.shown, "segments, and beside the allocator",
               {bytes_term("segments", use.reserved.central, at + ".reserved.expected_bytes"),
                context, communicators},
               out);
  const bool given = plan.cluster.memory.given;
  out.push_back(single(
      at + ".context_bytes", static_cast<double>(use.context.value), TermUnit::kBytes,
      "of the device's context",
      given ? "file of the stack" : profile_source(plan.cluster, "/device/reserve/context")));
  out.push_back(single(at + ".communicators", use.communicators, TermUnit::kNone,
                       "groups of more than one rank that meet", kCounted));
  out.push_back(single(
      at + ".communicator_bytes", static_cast<double>(use.communicator_bytes.value),
      TermUnit::kBytes, "of the communicators",
      given ? "file of the stack" : profile_source(plan.cluster, "/device/reserve/communicators")));
}

}  // namespace zplan
