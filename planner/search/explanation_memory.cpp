// Tiers of a GPU or a node, and the placement of each stage.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/search/explanation_parts.h"
#include "planner/search/memory_use.h"
#include "planner/search/node_fill.h"

namespace zplan {
namespace {

// Ranks of each stage whose memory counts together: one of the fullest stage, or of a node.
NodeFill counted_ranks(const Explained& plan, Tier tier) {
  std::vector<TierBytes> bytes;
  for (const RankClass& one : plan.job.classes) bytes.push_back(one.placement.slab);
  if (tier == Tier::kGpu) return {{static_cast<std::int32_t>(worst_class(bytes)), 1}};
  const std::vector<NodeFill> fills = node_fills(plan.job.mesh, plan.cluster);
  return fills[worst_fill(bytes, fills, tier)];
}

std::string place(std::size_t stage, Tier tier) {
  return fmt::format("memory.classes[{}].{}", stage, name(tier));
}

std::vector<Term> by_category(const std::array<Bytes, kCategoryCount>& sizes, Bytes gaps,
                              const std::string& at) {
  std::vector<Term> terms;
  for (std::size_t c = 0; c < kCategoryCount; ++c)
    if (sizes[c].value > 0) {
      const std::string_view category = name(static_cast<Category>(c));
      terms.push_back(bytes_term(std::string(category), sizes[c],
                                 fmt::format("{}.by_category.{}", at, category)));
    }
  if (gaps.value != 0) terms.push_back(bytes_term("gaps", gaps, at + ".gaps_bytes"));
  sort_terms(terms);
  return terms;
}

std::vector<Term> buffers(const ClassMemory& one, Tier tier) {
  const TierMemory& memory = one.tiers[index(tier)];
  std::vector<Term> out;
  for (const LiveBuffer& buffer : memory.largest)
    out.push_back(
        bytes_term(fmt::format("{} ({})", buffer.name, name(buffer.category)), buffer.size,
                   fmt::format("of one rank of stage {}, alive at {}", one.stage, memory.peak_op)));
  return out;
}

// Of the fullest stage.
std::vector<Term> largest_buffers(const MemoryReport& report, Tier tier) {
  const ClassMemory* most = nullptr;
  for (const ClassMemory& one : report.classes)
    if (most == nullptr || one.tiers[index(tier)].slab > most->tiers[index(tier)].slab) most = &one;
  return most == nullptr ? std::vector<Term>() : buffers(*most, tier);
}

// Of a node: of each stage its ranks there.
void add_categories(const Explained& plan, Tier tier, const std::string& at, Explanations& out) {
  const TierUse& use = plan.use[index(tier)];
  const NodeFill ranks = counted_ranks(plan, tier);
  for (std::size_t c = 0; c < kCategoryCount; ++c) {
    const std::string_view category = name(static_cast<Category>(c));
    Explanation one = sum_of(
        fmt::format("{}.by_category.{}", at, category),
        static_cast<double>(use.by_category[c].value), TermUnit::kBytes,
        tier == Tier::kGpu ? "of a rank of the fullest stage" : "of the ranks of the fullest node");
    for (const auto& [stage, count] : ranks) {
      const auto s = static_cast<std::size_t>(stage);
      const Bytes size = plan.report.classes[s].tiers[index(tier)].by_category[c];
      if (size.value > 0)
        one.terms.push_back(bytes_term(
            fmt::format("{} ranks of stage {} with {} bytes each", count, stage, size.value),
            size * count, fmt::format("{}.by_category.{}", place(s, tier), category)));
    }
    out.push_back(std::move(one));
  }
}

// usable - peak - reserve - headroom, or the other way round.
std::vector<Term> balance(const TierUse& use, const std::string& at, std::int64_t sign) {
  std::vector<Term> terms;
  const auto add = [&](const char* what, const char* key, Bytes size) {
    if (size.value != 0) terms.push_back(bytes_term(what, Bytes{sign * size.value}, at + key));
  };
  add("usable", ".capacity_bytes", use.capacity);
  add("peak", ".peak_bytes", Bytes{-use.peak.value});
  add("reserve", ".reserve_bytes", Bytes{-use.reserve.value});
  add("headroom", ".headroom_bytes", Bytes{-use.headroom.value});
  sort_terms(terms);
  return terms;
}

void add_reserve(const Explained& plan, Tier tier, const std::string& at, Explanations& out) {
  const TierUse& use = plan.use[index(tier)];
  const DeviceProfile& device = plan.cluster.node.device;
  const auto value = static_cast<double>(use.reserve.value);
  if (tier == Tier::kGpu) {
    const auto part = [&](const char* what) {
      return profile_source(plan.cluster, fmt::format("/device/reserve/{}", what));
    };
    out.push_back(sum_of(
        at + ".reserve_bytes", value, TermUnit::kBytes, "kept beside the placement",
        {bytes_term("context", device.reserve_context, part("context")),
         bytes_term("communicators", device.reserve_communicators, part("communicators")),
         bytes_term("workspace of libraries", device.reserve_workspace, part("workspace"))}));
  } else {
    out.push_back(single(at + ".reserve_bytes", value, TermUnit::kBytes,
                         "kept from the job on a node",
                         tier == Tier::kCpu ? profile_source(plan.cluster, "/host/reserve")
                                            : "nothing is kept of drives"));
  }
  out.push_back(single(
      at + ".headroom_bytes", static_cast<double>(use.headroom.value), TermUnit::kBytes,
      tier == Tier::kGpu
          ? "the larger of --headroom x usable and what the reserve may be larger than stated"
      : tier == Tier::kCpu ? "usable less what processes can page-lock together, where they do"
                           : "nothing is left free of drives",
      "planner/search/memory_use.cpp"));
}

void add_tier(const Explained& plan, Tier tier, Explanations& out) {
  const TierUse& use = plan.use[index(tier)];
  const std::string at = fmt::format("memory.{}", name(tier));
  const std::string whose = tier == Tier::kGpu ? "one GPU" : "one node";
  const auto number = [](Bytes size) { return static_cast<double>(size.value); };
  out.push_back(
      sum_of(at + ".peak_bytes", number(use.peak), TermUnit::kBytes,
             fmt::format("alive at the fullest moment of {}, by category, and gaps", whose),
             by_category(use.by_category, use.gaps(), at)));
  out.back().made_of = largest_buffers(plan.report, tier);
  add_categories(plan, tier, at, out);
  Explanation gaps =
      sum_of(at + ".gaps_bytes", number(use.gaps()), TermUnit::kBytes,
             "peak less what is alive at it: the placement leaves them between buffers",
             {bytes_term("peak", use.peak, at + ".peak_bytes")});
  for (Term alive : by_category(use.by_category, Bytes{0}, at)) {
    alive.value = -alive.value;
    gaps.terms.push_back(std::move(alive));
  }
  out.push_back(std::move(gaps));
  constexpr std::string_view kPointers[] = {"/device/memory", "/host/memory", "/nvme/capacity"};
  out.push_back(single(at + ".capacity_bytes", number(use.capacity), TermUnit::kBytes,
                       "usable by anyone on " + whose,
                       profile_source(plan.cluster, kPointers[index(tier)])));
  add_reserve(plan, tier, at, out);
  out.push_back(sum_of(at + ".free_bytes", number(use.available() - use.peak), TermUnit::kBytes,
                       fmt::format("usable - peak - reserve - headroom of {}", whose),
                       balance(use, at, 1)));
  out.push_back(sum_of(at + ".over_bytes", number(use.over()), TermUnit::kBytes,
                       use.fits() ? "nothing: it fits" : "peak + reserve + headroom - usable",
                       use.fits() ? std::vector<Term>() : balance(use, at, -1)));
}

// What the largest buffers leave of a category is of smaller ones.
Explanation category_of_rank(const ClassMemory& own, Tier tier, std::size_t c,
                             const std::string& at) {
  const TierMemory& memory = own.tiers[index(tier)];
  const auto category = static_cast<Category>(c);
  const auto value = static_cast<double>(memory.by_category[c].value);
  Explanation out = sum_of(fmt::format("{}.by_category.{}", at, name(category)), value,
                           TermUnit::kBytes, "buffers alive at the fullest moment of a rank");
  double rest = value;
  for (const LiveBuffer& buffer : memory.largest) {
    if (buffer.category != category) continue;
    out.terms.push_back(
        bytes_term(buffer.name, buffer.size, "buffer of the Job, alive at " + memory.peak_op));
    rest -= static_cast<double>(buffer.size.value);
  }
  sort_terms(out.terms);
  if (rest != 0) out.terms.push_back(term("smaller ones", rest, TermUnit::kBytes, kCounted));
  return out;
}

void add_placement(const ClassMemory& own, std::size_t s, Tier tier, Explanations& out) {
  const TierMemory& memory = own.tiers[index(tier)];
  const std::string at = place(s, tier);
  const auto slab = static_cast<double>(memory.slab.value);
  const auto live = static_cast<double>(memory.live_peak.value);
  out.push_back(
      sum_of(at + ".slab_bytes", slab, TermUnit::kBytes, "alive at the fullest moment, and gaps",
             {bytes_term("alive", memory.live_peak, at + ".live_peak_bytes"),
              bytes_term("gaps of the placement", memory.slab - memory.live_peak, "placed")}));
  out.back().made_of = buffers(own, tier);
  out.push_back(sum_of(at + ".live_peak_bytes", live, TermUnit::kBytes,
                       "alive at the fullest moment, by category",
                       by_category(memory.by_category, Bytes{0}, at)));
  for (std::size_t c = 0; c < kCategoryCount; ++c)
    out.push_back(category_of_rank(own, tier, c, at));
  if (live > 0)
    out.push_back(quotient(at + ".slab_over_live_peak", memory.slab_over_live_peak(),
                           TermUnit::kFactor, "slab / alive: 1 is no fragmentation",
                           {bytes_term("slab", memory.slab, at + ".slab_bytes")},
                           {bytes_term("alive", memory.live_peak, at + ".live_peak_bytes")}));
  else
    out.push_back(single(at + ".slab_over_live_peak", 1, TermUnit::kFactor,
                         "1: nothing is kept there", kCounted));
  for (std::size_t b = 0; b < memory.largest.size(); ++b)
    out.push_back(single(fmt::format("{}.largest[{}].bytes", at, b),
                         static_cast<double>(memory.largest[b].size.value), TermUnit::kBytes,
                         memory.largest[b].name + ", all of its slots", "buffer of the Job"));
}

}  // namespace

void explain_memory(const Explained& plan, Explanations& out) {
  for (const Tier tier : {Tier::kGpu, Tier::kCpu, Tier::kNvme}) add_tier(plan, tier, out);
  for (std::size_t s = 0; s < plan.report.classes.size(); ++s) {
    const ClassMemory& own = plan.report.classes[s];
    out.push_back(single(fmt::format("memory.classes[{}].stage", s), own.stage, TermUnit::kNone,
                         "stage of the pipeline", "plan"));
    for (const Tier tier : {Tier::kGpu, Tier::kCpu, Tier::kNvme}) add_placement(own, s, tier, out);
  }
}

}  // namespace zplan
