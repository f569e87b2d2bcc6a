#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/prediction_output.h"
#include "planner/core/quantity.h"
#include "planner/place/held_besides.h"

namespace zplan {
namespace {

// "activations 12.0 GiB,", "parameters 3.64 GiB,", "others 0.1 GiB": the largest first, up to
// `shown` by name.
std::vector<std::string> parts_of(const TierUse& use, std::size_t shown) {
  std::vector<std::pair<Bytes, int>> parts;
  for (int i = 0; i < kCategoryCount; ++i) {
    const Bytes size = use.by_category[static_cast<std::size_t>(i)];
    if (size.value > 0) parts.emplace_back(size, i);
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> words;
  Bytes rest{0};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i >= shown && parts.size() > shown + 1) {
      rest += parts[i].first;
      continue;
    }
    words.push_back(fmt::format("{} {}", name(static_cast<Category>(parts[i].second)),
                                format_bytes(parts[i].first)));
  }
  if (rest.value > 0) words.push_back(fmt::format("others {}", format_bytes(rest)));
  for (std::size_t i = 0; i + 1 < words.size(); ++i) words[i] += ',';
  return words;
}

std::string tier_label(Tier tier) {
  switch (tier) {
    case Tier::kGpu:
      return "GPU, each";
    case Tier::kCpu:
      return "CPU, per node";
    case Tier::kNvme:
      return "NVMe, per node";
  }
  return "";
}

Sheet by_category(const std::array<Bytes, kCategoryCount>& bytes) {
  Sheet out;
  for (int i = 0; i < kCategoryCount; ++i)
    out.fact(name(static_cast<Category>(i)), bytes[static_cast<std::size_t>(i)]);
  return out;
}

Value largest(const std::vector<LiveBuffer>& buffers) {
  return each(buffers, [](const LiveBuffer& buffer) {
    return Sheet{
        {"name", buffer.name}, {"category", name(buffer.category)}, {"bytes", buffer.size}};
  });
}

Sheet tier_sheet(Tier tier, const TierUse& use) {
  const double used = static_cast<double>((use.peak + use.reserve).value) /
                      static_cast<double>(std::max<std::int64_t>(1, use.capacity.value));
  return {
      {"tier", only_words(tier_label(tier))},
      {"peak_bytes", use.peak},
      {"capacity_bytes", use.capacity},
      {"reserve_bytes", use.reserve},
      {"headroom_bytes", {use.headroom, use.headroom.value > 0 ? format_bytes(use.headroom) : ""}},
      {"fits", use.fits()},
      {"over_bytes", use.over()},
      {"by_category", by_category(use.by_category)},
      {"gaps_bytes", use.gaps()},
      {"used", only_words(share(used))}};
}

// Whose the bytes at the replay's peak are; for people those beside the Job's buffers.
Sheet held_at_peak(const StackMemoryUse& use) {
  Sheet out;
  if (!use.replay) return out;
  std::string lines;
  for (const HolderRow& row : holders()) {
    const Bytes size = use.replay->at_peak[static_cast<std::size_t>(row.holder)];
    out.fact(row.name, size);
    if (row.holder != Holder::kJob && size.value > 0)
      lines += fmt::format("{:{}}{:>10}  {}\n", "", 2 * kIndent, format_bytes(size), row.words);
  }
  if (!lines.empty())
    out.print(
        fmt::format("{:{}}held there beside the Job's buffers, by the stack's modules and "
                    "libraries:\n{}",
                    "", kIndent, lines));
  return out;
}

// What a caching allocator makes of it, expected and bound.
Sheet stack_memory(const StackMemoryUse& use) {
  const auto replayed = [&](Bytes ReplayedMemory::*size) -> Value {
    return use.replay ? Value((*use.replay).*size) : nullptr;
  };
  Sheet out{{"stage", use.stage},
            {"live_bytes", replayed(&ReplayedMemory::live)},
            {"before_update_bytes", replayed(&ReplayedMemory::before_update)},
            {"replayed_allocated_bytes", replayed(&ReplayedMemory::allocated)},
            {"replayed_reserved_bytes", replayed(&ReplayedMemory::reserved)},
            {"context_bytes", use.context},
            {"communicators", use.communicators},
            {"communicator_bytes", use.communicator_bytes}};
  out.say(use.replay ? Form("replayed at stage {stage}: live {live_bytes}, allocated "
                            "{replayed_allocated_bytes}, reserved {replayed_reserved_bytes}")
                     : Form("not replayed: too many operations"),
          kIndent);
  const Sheet held = held_at_peak(use);
  out.fact("held", held);
  out.print(held.text());
  Table table({"of:", "expected_bytes: expected", "bound_bytes: 95 % below"});
  const auto add = [&](std::string_view key, const char* words, const MemoryEstimate& e) {
    out.fact(key, table.row({{"of", only_words(words)},
                             {"expected_bytes", e.central},
                             {"bound_bytes", e.bound}}));
  };
  add("allocated", "allocator, in use", use.allocated);
  add("reserved", "allocator, reserved", use.reserved);
  add("needed", "with context and communicators", use.device);
  add("shown", "nvidia-smi shows", use.shown);
  out.print(table.text(kIndent));
  return out;
}

Value placement(const MemoryReport& report) {
  Table table({"stage", "tier", "slab_bytes: slab", "live_peak_bytes: live peak",
               "slab_over_live_peak: ratio", "peak_op: fullest at"});
  const Value classes = each(report.classes, [&](const ClassMemory& c) {
    Sheet tiers{{"stage", c.stage}};
    for (int t = 0; t < kTierCount; ++t) {
      const TierMemory& tier = c.tiers[static_cast<std::size_t>(t)];
      const std::string_view of = name(static_cast<Tier>(t));
      const Sheet row{{"stage", only_words(c.stage)},
                      {"tier", only_words(of)},
                      {"slab_bytes", tier.slab},
                      {"live_peak_bytes", tier.live_peak},
                      {"slab_over_live_peak", number("{:.3f}", tier.slab_over_live_peak())},
                      {"peak_op", tier.peak_op},
                      {"by_category", by_category(tier.by_category)},
                      {"largest", largest(tier.largest)}};
      tiers.fact(of, table.row(row, tier.slab.value > 0));
    }
    return tiers;
  });
  return {classes, table.text(kIndent)};
}

}  // namespace

Sheet memory_sheet(const MemoryPrediction& memory, std::size_t indent, std::size_t categories) {
  Table table({"tier:", "peak_bytes: peak", "reserve_bytes: reserve", "headroom_bytes: headroom",
               "capacity_bytes: usable", "used"});
  Sheet out;
  for (int t = 0; t < kTierCount; ++t) {
    const Tier tier = static_cast<Tier>(t);
    const TierUse& use = memory.use[static_cast<std::size_t>(t)];
    const bool shown = use.peak.value > 0;
    out.fact(name(tier), table.row(tier_sheet(tier, use), shown));
    const std::size_t at = indent + kIndent;
    if (shown)
      table.below(std::string(at, ' ') + wrap(parts_of(use, categories), kScreenWidth, at, at) +
                  '\n');
  }
  out.print(table.text(indent));
  if (!memory.stand_in.empty()) out.print(paragraph(memory.stand_in, indent + kIndent));
  out.fact("stand_in", memory.stand_in.empty() ? left_out() : Value(memory.stand_in));
  out.fact("allocator", stack_memory(memory.stack));
  out.fact("classes", placement(memory.report));
  return out;
}

Value misfit(const std::optional<Infeasible>& why) {
  if (!why) return nullptr;
  return {Sheet{{"tier", name(why->tier)},
                {"needed_bytes", why->needed},
                {"available_bytes", why->available},
                {"peak_op", why->peak_op},
                {"largest", largest(why->largest)},
                {"smallest_change", why->smallest_change}},
          shortage(*why)};
}

std::string over_text(const MemoryPrediction& memory) {
  std::string out;
  for (int t = 0; t < kTierCount; ++t) {
    const TierUse& use = memory.use[static_cast<std::size_t>(t)];
    if (use.fits()) continue;
    std::vector<std::string> words = {fmt::format(
        "DOES NOT FIT: {} is exceeded by {} ({} bytes):", tier_words(static_cast<Tier>(t)),
        format_bytes(use.over()), grouped(use.over().value))};
    const std::vector<std::string> parts = parts_of(use, kCategoryCount);
    words.insert(words.end(), parts.begin(), parts.end());
    out += wrap(words, kScreenWidth, kIndent, 0) + '\n';
  }
  return out;
}

void say_plan(Sheet& out, const PlannedJob& planned, const Cluster& cluster,
              const MemoryPrediction& prediction, const Sheet& memory) {
  out.facts({{"feasible", !prediction.infeasible},
             {"plan", as_json(to_json(planned.plan))},
             {"cluster", cluster.name},
             {"fingerprint", planned.fingerprint},
             {"memory", memory},
             {"infeasible", misfit(prediction.infeasible)}});
  out.print(over_text(prediction));
  out.print(
      fmt::format("{} on {} ({})\n", planned.model.name, cluster.name, cluster_words(cluster)));
  for (const std::string& line : plan_lines(planned.plan, planned.model))
    out.print(paragraph(line, kIndent));
}

void say_memory(Sheet& out, const Sheet& memory) {
  out.heading("Memory");
  out.print(memory.text());
  out.heading("Placement (of one rank; ratio: slab over live peak)");
  out.print(memory["classes"].words);
}

}  // namespace zplan
